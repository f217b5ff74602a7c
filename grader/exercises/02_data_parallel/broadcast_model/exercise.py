"""Broadcast a model: every rank starts from the first one's parameters and buffers."""

from collections.abc import Callable, Iterable

from torch import nn

from grader.calling.training import numbers
from grader.exercises.shared.cases import each_group
from grader.exercises.shared.one_process import REPLICAS, model_of
from grader.exercises.shared.training_cases import SEEDS, model_cases
from grader.exercises.technique.models import given_model
from grader.judging.exercise import Case, Draw, Exercise, Slip

MODELS = ("mlp", "buffered", "tied", "frozen", "gpt", "mixed")


def _cases(draw: Draw, grading: bool) -> list[Case]:
    """Each rank draws its own numbers. With buffers it is called again."""
    return model_cases(draw, grading, MODELS, lambda model, n, seed: [
        {"model": model, "seed": seed if r == 0 else draw.integer(0, SEEDS), "again": model == "buffered"}
        for r in range(n)])


def keeps(id: str, hint: str, names_of: Callable[[nn.Module], Iterable[str]]) -> Slip:
    """Of what names_of(model) names, each rank still has the numbers that it drew; the rest is right."""

    def wrong(case: Case, rank: int, right: list) -> dict:
        model = given_model(case, rank)
        own = numbers(model)
        return right[rank] | {name: own[name] for name in names_of(model)}

    return Slip(id, hint, wrong)


def buffers(model: nn.Module) -> list[str]:
    return [name for name, _ in model.named_buffers()]


def not_saved(model: nn.Module) -> list[str]:
    """Buffers that state_dict() leaves out."""
    return [name for name in buffers(model) if name not in model.state_dict()]


def _of_whole_numbers(model: nn.Module) -> list[str]:
    return [name for name, buffer in model.named_buffers() if not buffer.is_floating_point()]


NOT_SAVED = ("Buffers that are not saved (persistent=False) are in no state_dict(), and yet take part in the forward pass: "
             "go over the model's buffers() instead.")


def _parameters(model: nn.Module) -> list[str]:
    return [name for name, _ in model.named_parameters(remove_duplicate=False)]


def frozen(model: nn.Module) -> list[str]:
    return [name for name, p in model.named_parameters() if not p.requires_grad]


EXERCISE = Exercise(
    title="All start from one model",
    parameters=("model", "group"),
    make_cases=_cases,
    oracle=each_group(lambda case, r: numbers(model_of(case, r))),
    trains=True,
    forbidden=REPLICAS,
    slips=(
        keeps("buffers forgotten", "All parameters are equal, the buffers are not: model.buffers() (running means, masks, "
                                   "counts) take part in the forward pass too.", buffers),
        keeps("buffers not saved", NOT_SAVED, not_saved),
        keeps("counters forgotten", "Buffers of whole numbers (counters) still differ between ranks: broadcast every "
              "buffer, in its own dtype.", _of_whole_numbers),
        keeps("frozen forgotten", "Parameters that are not trained still differ between ranks: they take part in the "
                                  "forward pass, so broadcast them too.", frozen),
        Slip("another rank's model", "Ranks hold the model of another rank than the group's first: the source is "
                                     "group_src=0.",
             lambda case, r, right: numbers(given_model(case, case.members(r)[-1]))),
        Slip("first call only", "In a second call nothing was sent: whether the model's numbers have changed since the "
             "first, on one rank or on all, nobody knows, so every call sends them.",
             lambda case, r, right: numbers(given_model(case, r)) if case.inputs[r]["again"] else right[r]),
        keeps("nothing sent", "Each rank still has numbers of its own: broadcast works in place, on p.data (or under "
                              "torch.no_grad()).", numbers),
        keeps("parameters forgotten", "The buffers are equal, the parameters are not: broadcast model.parameters() as "
                                      "well.", _parameters),
    ),
)
