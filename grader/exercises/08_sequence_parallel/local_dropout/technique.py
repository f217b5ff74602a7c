"""How local_dropout must be done, and how it can fail."""

from typing import Any

from grader.calling.sequences import RANDOM_CHANGED
from grader.exercises.technique.rank_by_rank import on_each_rank, the_mark
from grader.exercises.technique.sequences import first_wrong_is, other_numbers
from grader.judging.compare import same
from grader.judging.demands import inputs_kept, only_calls
from grader.judging.exercise import Demand, Look, Symptom, Technique
from grader.judging.general import IN_GROUPS_ONLY
from grader.judging.symptoms import every_rank, raised


def _random_state_changed(look: Look, rank: int) -> str:
    changed = the_mark(look, rank, RANDOM_CHANGED)["changed"]
    return f"rank {rank}'s random state was changed" if changed else ""


def _is_scaled(look: Look, rank: int, found: Any, expected: Any) -> bool:
    """Whether y is another, but where neither is 0 they are the same."""
    both = (found["y"] != 0) & (expected["y"] != 0)
    return same(found["y"][both], expected["y"][both]) and not same(found["y"], expected["y"])


def _is_off(look: Look) -> bool:
    """Whether the second call, without a graph, gave x back, and the first did not."""
    given = look.case.inputs
    return any(isinstance(result, dict) and same(result["again"], given[rank]["x"])
               and not same(result["again"], result["y"]) for rank, result, _ in look.pairs())


TECHNIQUE = Technique(
    demands=(
        only_calls(id="communicates", hint="Every rank can compute its seed from its rank: no message is needed."),
        Demand("random state changed", "torch's own random state as it was",
               "The masks are right, but torch's own random state was changed, and with it every random number that comes "
               "after: draw from a torch.Generator of your own.", on_each_rank(_random_state_changed)),
        inputs_kept("The result is right, but x itself was overwritten, and others still need it: make a new tensor."),
    ),
    symptoms=(
        raised("does not require grad", "No gradient gets back to x: y was computed from x.detach() or x.data, or under "
               "torch.no_grad(). Multiply x itself by the mask.", "history lost"),
        raised("in-place operation", "x is overwritten, and others still need it: compute a new tensor.", "written into x"),
        Symptom("off without a graph", "Where no graph is recorded (torch.no_grad()) it drops nothing. That is no sign of "
                "evaluation: a layer that is to be run again in backward runs so at first, and must drop the same.",
                _is_off),
        Symptom("mask redrawn", "Called twice with the same seed it gives two masks: a forward pass that is computed again, "
                                "as in recomputation, would not be the same one. Draw from a new generator with the seed.",
                lambda look: any(isinstance(result, dict) and not same(result["again"], result["y"])
                                 for _, result, _ in look.pairs())),
        *other_numbers(),
    ),
    fallbacks=(
        IN_GROUPS_ONLY,
        Symptom("another mask", "What is kept is scaled rightly, but it is another mask: draw once torch.rand(x.shape, "
                                "generator=…), in its own dtype whatever x's is, from a generator seeded with seed·n + r.",
                every_rank(_is_scaled)),
        Symptom("no gradient", "The gradient of x is wrong or missing: multiply x by the mask, do not write into x.data.",
                first_wrong_is("dx")),
        Symptom("wrong result", "y is not x where torch.rand(x.shape, generator=…) ≥ p, divided by 1 − p, and 0 elsewhere.",
                first_wrong_is("y")),
    ),
)
