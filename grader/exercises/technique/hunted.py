"""What is demanded of the repaired programs of the bug hunt, and how any of them can fail."""

from collections.abc import Callable
from typing import Any

import torch

from grader.evidence.evidence import RETURNED
from grader.exercises.technique.rank_by_rank import on_each_rank, spans_if_any
from grader.judging.compare import same
from grader.judging.demands import bytes_sent, results_waited, sends_waited
from grader.judging.exercise import Demand, Look, Symptom, Technique
from grader.judging.needs import Transfers, needs
from grader.judging.symptoms import deadlocked, group_ignored, raised, unwaited
from utils.costs.formulas import bytes_sent_per_rank
from utils.models.hunted import PASS, small_mlp
from utils.models.hunted_stages import checksum

ALIKE = 1e-6  # sums of weights
MLP_BYTES = sum(p.nbytes for p in small_mlp().parameters())
MLP_PADDING_BYTES = sum(p.itemsize for p in small_mlp().parameters())


def repaired(limit: Callable[[Look, int], float], transfers: Transfers, *demands: Demand, symptoms: tuple[Symptom, ...] = (),
             fallbacks: tuple[Symptom, ...] = ()) -> Technique:
    """The technique of one case.

    limit: bytes that a rank may send; transfers: what it needs; symptoms: the case's own, before those of all.
    """
    return Technique(
        demands=(*demands, bytes_sent(limit, "no byte more than needed"), needs(transfers), results_waited(),
                 sends_waited()),
        symptoms=(*symptoms, group_ignored(), unwaited(), *_FAILURES),
        fallbacks=(*fallbacks, *_FALLBACKS),
    )


def gradients_once(look: Look, rank: int) -> float:
    """Of the small MLP: in each step one all-reduce of all gradients, each perhaps padded to n equal parts."""
    n, n_steps = look.case.group_size(rank), len(look.right[rank])
    return n_steps * bytes_sent_per_rank("all_reduce", MLP_BYTES + (n - 1) * MLP_PADDING_BYTES, n)


def gradients_summed(look: Look, rank: int) -> list[tuple[str, float]]:
    """Of the small MLP, in each step."""
    return [("all_reduce", len(look.right[rank]) * MLP_BYTES)]


def weights_before(look: Look, rank: int, step: int) -> dict[str, torch.Tensor]:
    """By the right notes, those that a rank computes with in this step."""
    first, lr = look.right[rank][0], look.case.inputs[rank]["lr"]
    if step:
        return look.right[rank][step - 1]["weights"]
    return {name: after + lr * first["gradients"][name] for name, after in first["weights"].items()}  # one SGD step back


def _other_weights(look: Look, rank: int) -> str:
    """Each step has a forward and a backward pass for every micro-batch."""
    marks, due = [span.facts for span in spans_if_any(look, rank, PASS)], []
    for number, (micro_batches, _) in enumerate(look.case.inputs[rank]["steps"]):
        due += 2 * len(micro_batches) * [checksum(weights_before(look, rank, number).values())]
    if len(marks) != len(due):
        return f"rank {rank} did {len(marks)} passes, {len(due)} are due"
    wrong = next((number for number, (facts, total) in enumerate(zip(marks, due, strict=True))
                  if not abs(facts["weights"] - total) < ALIKE), None)
    return "" if wrong is None else f"rank {rank}'s pass {wrong} computed with other weights than its notes lead to"


PASSES_TRAINED = Demand("another stage passes", "what is noted is the stage that made the passes",
                        on_each_rank(_other_weights), for_right_values=True)


def _where_wrong(test: Callable[[Look, Any, Any], bool]) -> Callable[[Look], bool]:
    """A returned case where test(look, found, right) holds on every rank whose notes are wrong, if only by a little."""

    def matches(look: Look) -> bool:
        wrong = [(found, right) for _, found, right in look.pairs() if not look.same(found, right)]
        return look.evidence.ending == RETURNED and bool(wrong) and all(test(look, *pair) for pair in wrong)

    return matches


def _only(kind: str) -> Callable[[Look, Any, Any], bool]:
    """All notes are right, but for this part of them."""

    def test(look: Look, found: Any, right: Any) -> bool:
        return len(found) == len(right) and look.same(
            [{**one, kind: other[kind]} for one, other in zip(found, right, strict=True)], right)

    return test


def _first_weights(look: Look, found: Any, right: Any) -> bool:
    """The first step is right, but for the weights that it leads to."""
    but_for_them = {**found[0], "weights": right[0]["weights"]}
    return not look.same(found[0], right[0]) and look.same(but_for_them, right[0])


def _fewer_digits(look: Look, found: Any, right: Any) -> bool:
    return same(found, right, 1e-5)


def _first_loss(look: Look) -> bool:
    """Nothing has been trained yet, and on some rank the loss is another one."""
    return look.evidence.ending == RETURNED and any(
        not look.same(found[0]["loss"], right[0]["loss"]) for _, found, right in look.pairs())


def _by_a_factor(look: Look, found: Any, right: Any) -> bool:
    """The first gradients are the right ones times one number."""
    a, b = (torch.cat([one[0]["gradients"][name].flatten() for name in right[0]["gradients"]]) for one in (found, right))
    ratio = float(a[b.abs().argmax()] / b[b.abs().argmax()])
    return abs(ratio - 1) > 1e-6 and ratio != 0 and look.same(a, b * ratio)


def _ranks_disagree(look: Look) -> bool:
    """In the first step, members of a group used different gradients of what should be one and the same."""
    if look.evidence.ending != RETURNED:
        return False
    for rank, found, right in look.pairs():
        for other in look.case.members(rank):
            for name, gradient in right[0]["gradients"].items():
                theirs = look.right[other][0]["gradients"].get(name)
                if theirs is not None and look.same(gradient, theirs) and not look.same(
                        found[0]["gradients"][name], look.outputs[other][0]["gradients"][name]):
                    return True
    return False


def _first_gradients(look: Look, found: Any, right: Any) -> bool:
    return not look.same(found[0]["gradients"], right[0]["gradients"])


_FAILURES = (
    raised("NoneType", "too early"),
    deadlocked("", "some ranks only"),
)
_FALLBACKS = (
    Symptom("loss noted wrong", _where_wrong(_only("loss"))),
    Symptom("gradients noted wrong", _where_wrong(_only("gradients"))),
    Symptom("notes with fewer digits", _where_wrong(_fewer_digits)),
    Symptom("weights noted wrong", _where_wrong(_first_weights)),
    Symptom("by a factor", _where_wrong(_by_a_factor)),
    Symptom("first loss", _first_loss),
    Symptom("gradients disagree", _ranks_disagree),
    Symptom("first gradients", _where_wrong(_first_gradients)),
)
