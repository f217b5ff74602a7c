"""Cases, and demands on what stands in memory, shared by the exercises of ZeRO-2."""

from __future__ import annotations

from collections.abc import Sequence

from grader.calling.training import STANDING
from grader.evidence.evidence import RAISED
from grader.exercises.shared.one_process import some_gradients
from grader.exercises.shared.training_cases import SEEDS, Inputs, model_cases
from grader.judging.demands import group_size
from grader.judging.exercise import Case, Demand, Draw, Look, Symptom


def odd_models(draw: Draw, grading: bool, inputs: Inputs) -> Sequence[Case]:
    """Every odd model; one of them on more ranks than some of its tensors have numbers."""
    cases = model_cases(draw, grading, ("mlp", "tied", "frozen", "unused", "gpt", "mixed"), inputs)
    small = Case("4 ranks, a tensor of 3 numbers", tuple(inputs("linear", 4, draw.integer(0, SEEDS))))
    return [*cases[:-1], small, cases[-1]]


def padded_bytes(look: Look, rank: int) -> int:
    """Bytes of all gradients, each padded to a multiple of the number of ranks; a tied one once."""
    n = group_size(look, rank)
    return sum(-(-g.numel() // n) * n * g.itemsize for g in some_gradients(look.case, rank).values())


def _standing(look: Look) -> tuple[bool, str]:
    for rank in look.working:
        sizes = sorted(g.nbytes for g in some_gradients(look.case, rank).values())
        marks = [s.facts["bytes"] for s in look.evidence.trace.spans if s.rank == rank and s.name == STANDING]
        allowed = sum(sizes[-2:])
        if marks and max(marks) > allowed:
            return False, f"rank {rank} held {max(marks):,} B of {sum(sizes):,} B at once, allowed {allowed:,} B"
    return True, ""


def never_all_gradients() -> Demand:
    """At no time stand more gradients than the two largest together."""
    return Demand("full gradients", "never more than the two largest gradients at once",
                  "The result is right, but whole gradients pile up during the backward pass: reduce-scatter each as soon "
                  "as it is there, keep the shard, and set p.grad to None in the hook. (Whoever keeps a slice of a tensor "
                  "keeps all of it: clone() the slice.)", _standing)


def misfit() -> Symptom:
    """A tensor that n does not divide was not padded."""
    texts = ("size", "outputShape", "divisible")  # of views and copies, of gloo's reduce-scatter, of NCCL's
    return Symptom("not padded", "The sizes do not fit: pad each flat tensor with zeros to n pieces of ⌈numel/n⌉.",
                   lambda look: look.evidence.ending == RAISED and any(text in look.evidence.error for text in texts))
