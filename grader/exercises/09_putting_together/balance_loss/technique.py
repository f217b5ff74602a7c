"""How balance_loss must be done, and how it can fail."""

from typing import Any

from grader.calling.sequences import BACKWARD
from grader.exercises.technique.sequences import first_wrong_is
from grader.exercises.technique.splitting import calls_are, other_dtype
from grader.judging.demands import bytes_sent, only_calls, results_waited
from grader.judging.exercise import Look, Symptom, Technique
from grader.judging.general import IN_GROUPS_ONLY
from grader.judging.needs import A_NUMBER_BYTES, needs
from grader.judging.symptoms import group_ignored, unwaited, wrong_ranks
from utils.costs.formulas import bytes_sent_per_rank

LARGEST_NUMBER_BYTES = 8


def _limit(look: Look, rank: int) -> float:
    """2E + 1 numbers of 8 bytes."""
    n_experts = look.case.inputs[rank]["probabilities"].shape[1]
    return bytes_sent_per_rank("all_reduce", LARGEST_NUMBER_BYTES * (2 * n_experts + 1), look.case.group_size(rank))


def _counts(look: Look, rank: int) -> list[tuple[str, float]]:
    """How many tokens each expert got."""
    return [("all_reduce", A_NUMBER_BYTES * look.case.inputs[rank]["probabilities"].shape[1])]


def _no_gradient(look: Look, rank: int, found: Any, right: Any) -> bool:
    return found["dprobabilities"] is None and getattr(found["loss"], "shape", None) == ()


def _tokens_reduced(look: Look) -> bool:
    shapes = [tuple(look.case.inputs[rank]["probabilities"].shape) for rank in look.working]
    return any(call.shape in shapes for call in look.evidence.trace.of(op="all_reduce"))


def _other_losses(look: Look) -> bool:
    """The ranks of a group have different losses."""
    return any(float(look.outputs[rank]["loss"]) != float(look.outputs[look.case.members(rank)[0]]["loss"])
               for rank in look.working)


TECHNIQUE = Technique(
    demands=(
        needs(_counts),
        only_calls("all_reduce", hint="Counts and sums are enough, a few numbers for each expert: all-reduce them. No rank "
                                      "needs to see another one's tokens."),
        calls_are(BACKWARD, {}, "The result is right, but ranks communicate in backward: every rank has the whole loss, and "
                                "the gradient of its own probabilities needs nothing that it has not.",
                  "communicates in backward"),
        bytes_sent(_limit, "all-reduces of 2E + 1 numbers in all", "The result is right, but more is sent than 2E + 1 "
                   "numbers: sum over your own tokens first, then over ranks."),
        results_waited(),
    ),
    symptoms=(
        group_ignored("The ranks of other groups are touched: pass group=group to every all-reduce."),
        unwaited(),
        Symptom("no gradient", "No gradient reaches the probabilities: dist.all_reduce knows nothing of autograd, and what "
                               "it returns has no history. Make your own tokens' term of the loss by plain arithmetic, and "
                               "give the result its gradient.", wrong_ranks(_no_gradient)),
        Symptom("tokens reduced", "A row for each token is all-reduced: your tokens have nothing to do with those that "
                                  "another rank has in the same place. Sum over your own tokens first, into a tensor of its "
                                  "own: all_reduce changes what it is given.", _tokens_reduced),
        other_dtype(),
    ),
    fallbacks=(
        IN_GROUPS_ONLY,
        Symptom("losses differ", "Each rank has another loss: f and P are of all ranks' tokens, so all ranks have the same.",
                lambda look: first_wrong_is("loss")(look) and _other_losses(look)),
        Symptom("wrong loss", "The loss is wrong: f_e is (how often e was chosen)/(all choices), P_e (sum of e's "
                              "probabilities)/(all tokens), both of all ranks together: sum first, then divide; ranks' "
                              "means cannot be averaged, as tokens differ in number.", first_wrong_is("loss")),
        Symptom("wrong gradient", "The loss is right, its gradient is not: E·f_e/(all tokens) for each of your tokens, "
                                  "times what comes from above; f itself has none.", first_wrong_is("dprobabilities")),
    ),
)
