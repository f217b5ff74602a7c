"""ShardedLayer: one layer's parameters, in shards at rest, whole while they are computed with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from grader.calling.sharding import BETWEEN, FREED_BYTES, HELD
from grader.exercises.shared.cases import each_rank, group_case, ranks
from grader.exercises.shared.one_process import TOLERANCE
from grader.exercises.technique.sharding import calls_of, first_wrong, held
from grader.judging.compare import same
from grader.judging.demands import bytes_sent, group_size, only_calls, results_waited
from grader.judging.exercise import Case, Demand, Draw, Exercise, Look, Symptom, Technique
from grader.judging.symptoms import group_ignored, raised, unwaited
from utils.costs.formulas import bytes_sent_per_rank

ROUNDS, SLACK_BYTES = 2, 256


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    def inputs(n: int, shapes: Sequence[tuple[int, ...]], dtype: str | None) -> list[dict[str, Any]]:
        """The second parameter gets no gradient in the first round, the third one in neither."""
        def numbers(shape: tuple[int, ...]) -> torch.Tensor:
            return draw.tensor(*shape, dtype=torch.float64) / 50

        parameters = [numbers(shape) for shape in shapes]
        return [{"parameters": parameters, "compute_dtype": dtype, "gradients": [
            [numbers(shape) if k == 0 or (k == 1 and number) else None for k, shape in enumerate(shapes)]
            for number in range(ROUNDS)]} for _ in range(n)]

    small = ((3, 3), (3,), (2,))
    sizes = [(1, small, None), (2, small, None), (3, small, "float32"), (4, ((12, 12), (12,)), None),
             (4, ((2, 1), (1,)), "float32")] + [(5, small, None)] * grading
    cases = [Case(f"{ranks(n)}, {' and '.join('×'.join(map(str, s)) for s in shapes)}"
                  f"{', computing in ' + dtype if dtype else ''}", tuple(inputs(n, shapes, dtype)))
             for n, shapes, dtype in sizes]
    return [*cases, group_case(lambda n: inputs(n, small, None))]


def _length(case: Case, rank: int) -> int:
    """Numbers of a shard."""
    return -(-sum(one.numel() for one in case.inputs[rank]["parameters"]) // len(case.members(rank)))


def _pieces(case: Case, rank: int, values: Sequence[torch.Tensor | None]) -> list[torch.Tensor | None]:
    """The part of each parameter's value that lies on `rank`; None where there is none."""
    length = _length(case, rank)
    start, found = -case.group_rank(rank) * length, []
    for parameter, value in zip(case.inputs[rank]["parameters"], values, strict=True):
        first, stop = max(-start, 0), max(min(length - start, parameter.numel()), 0)
        found.append(None if value is None or first >= stop else value.flatten()[first:stop].clone())
        start += parameter.numel()
    return found


def _means(case: Case, rank: int, number: int, last_only: bool = False) -> list[torch.Tensor | None]:
    """Mean gradients, summed over the rounds up to `number`."""
    found: list[torch.Tensor | None] = []
    for k in range(len(case.inputs[rank]["parameters"])):
        parts = [torch.stack([rounds[one][k] for rounds in case.peers_inputs(rank, "gradients")]).mean(0)
                 for one in range(number if last_only else 0, number + 1)
                 if case.inputs[rank]["gradients"][one][k] is not None]
        found.append(sum(parts) if parts else None)
    return found


def _states(case: Case, rank: int) -> dict[str, Any]:
    inputs = case.inputs[rank]
    dtype = getattr(torch, inputs["compute_dtype"] or "float64")
    pieces = _pieces(case, rank, inputs["parameters"])
    found: dict[str, Any] = {"pieces": pieces, "whole": [one.to(dtype) for one in inputs["parameters"]]}
    for number in range(ROUNDS):
        found[f"gradients while whole, round {number}"] = [None] * len(pieces)
        found[f"gradients, round {number}"] = _pieces(case, rank, _means(case, rank, number))
    return {**found, "pieces as before": True}


def _padded_bytes(look: Look, rank: int) -> int:
    """One whole row in the compute dtype."""
    dtype = getattr(torch, look.case.inputs[rank]["compute_dtype"] or "float64")
    return _length(look.case, rank) * group_size(look, rank) * dtype.itemsize


def _sent(look: Look, rank: int) -> float:
    n, total = group_size(look, rank), _padded_bytes(look, rank)
    return ROUNDS * (bytes_sent_per_rank("all_gather", total, n) + bytes_sent_per_rank("reduce_scatter", total, n))


def _freed(look: Look) -> tuple[bool, str]:
    for rank in look.working:
        allowed = max(2 * 8 * _length(look.case, rank) + SLACK_BYTES, FREED_BYTES)
        for phase in ("at rest", "freed"):
            most = max(held(look, rank, HELD, phase), default=0)
            if most > allowed:
                return False, f"rank {rank}, {phase}: held {most:,} B, allowed {allowed:,} B"
    return True, ""


def _returns_at_once(look: Look) -> tuple[bool, str]:
    for rank in look.working:
        spans = [s for s in look.evidence.trace.spans if s.rank == rank and s.name == BETWEEN]
        gathers = calls_of(look, rank, "all_gather")
        if group_size(look, rank) == 1:
            continue
        for one in spans:
            before = [c for c in gathers if c.start_s <= one.start_s]
            if not before:
                return False, f"rank {rank}: no all-gather begun by start_gather()"
            last = before[-1]
            if not last.is_async or (last.wait_start_s is not None and last.wait_start_s < one.end_s):
                return False, f"rank {rank}: start_gather() waited for its all-gather"
    return True, ""


def _first_wrong(look: Look) -> str:
    """Which of the states is the first that is wrong on any rank."""
    return first_wrong(look, look.right[look.working[0]])


def _at(part: str, test=lambda look, found, expected, rank: True):
    """The first wrong state is `part`, and test(look, found state, expected state, rank) holds for a wrong rank."""

    def matches(look: Look) -> bool:
        return _first_wrong(look).startswith(part) and all(
            test(look, found[_first_wrong(look)], expected[_first_wrong(look)], rank)
            for rank, found, expected in look.pairs() if not same(found[_first_wrong(look)], expected[_first_wrong(look)]))

    return matches


def _times(factor):
    def test(look: Look, found: list, expected: list, rank: int) -> bool:
        k = factor(group_size(look, rank))
        return k != 1 and same([None if f is None else f.double() for f in found],
                               [None if e is None else e * k for e in expected], 1e-5)

    return test


def _last_only(look: Look, found: list, expected: list, rank: int) -> bool:
    return same(found, _pieces(look.case, rank, _means(look.case, rank, ROUNDS - 1, last_only=True)), 1e-5)


EXERCISE = Exercise(
    title="A layer that is whole when needed",
    parameters=("parameters", "group", "compute_dtype"),
    make_cases=_cases,
    oracle=each_rank(_states),
    trains=True,
    tolerance=TOLERANCE,
    points={"values": 4, "technique": 4},
    technique=Technique(
        demands=(
        only_calls("all_gather", "reduce_scatter", hint=(
            "All-gather the parameters, reduce-scatter the gradients: those two are all the communication.")),
        Demand("not freed", "at rest, and after reduce(), nothing whole stands",
               "The result is right, but the whole row still stands after free() or reduce(): resize its storage to 0 "
               "(untyped_storage().resize_(0)), and let no gradient of whole size live on.", _freed),
        Demand("gather blocks", "start_gather() only starts",
               "start_gather() must return while the all-gather runs: async_op=True, keep the Work, wait in gather().",
               _returns_at_once),
        bytes_sent(_sent, "(n−1)/n of the row for each all-gather and reduce-scatter, in the compute dtype",
                   "Right, but too much was sent: one all-gather a gather() and one reduce-scatter a reduce(), both in the "
                   "compute dtype (cast the shard before it is sent, not after)."),
        results_waited(),
    ),
        symptoms=(
        group_ignored("The ranks of other groups are touched: pass group=group to every call."),
        unwaited(),
        Symptom("wrong pieces", "Before anything is gathered every p.data must be this rank's piece of that parameter: "
                                "where the shard and the parameter's place in the flat row overlap, perhaps nothing.",
                lambda look: _first_wrong(look) == "pieces"),
        Symptom("compute dtype ignored", "While whole, parameters have the compute dtype: cast the shard before you gather "
                                         "it.", _at("whole", lambda look, found, expected, rank: same(
                                             [f.double() for f in found], [e.double() for e in expected], 1e-5))),
        Symptom("wrong whole", "gather() must give every p.data all its numbers, in its shape: cut the gathered row in the "
                               "order in which flat_shard joined the parameters.", _at("whole")),
        Symptom("gradient in the way", "While the parameters are whole, p.grad must be None: put the gradient shards aside, "
                                       "or backward adds a whole gradient to a piece.", _at("gradients while whole")),
        Symptom("sum for mean", "The gradients are n times too large: divide by the number of ranks.",
                _at("gradients, round", _times(lambda n: n))),
        Symptom("divided twice", "The gradients are n times too small: they are divided by n twice.",
                _at("gradients, round", _times(lambda n: 1 / n))),
        Symptom("last round only", "The gradients of the first round are lost: finish() adds to the gradient that is there.",
                _at("gradients, round 1", _last_only)),
        Symptom("zeros for none", "A parameter without a gradient has one of zeros now, by which AdamW would decay it: "
                                  "leave None.", _at("gradients, round", lambda look, found, expected, rank: all(
                                      f is not None and not f.any() for f, e in zip(found, expected, strict=True)
                                      if e is None and f is not None) and any(
                                      f is not None and e is None for f, e in zip(found, expected, strict=True)))),
        Symptom("wrong gradients", "The pieces of the gradient are not those of the mean over ranks: lay each gradient "
                                   "where its parameter lies in the flat row, zeros where there is none.",
                _at("gradients, round")),
        Symptom("precision lost", "After a round the pieces have lost digits: the shard must stay in its own dtype; only a "
                                  "copy is cast.", _at("pieces as before")),
        raised("assigned grad", "p.grad must have the size of p.data: set p.grad to None before p.data changes, and the "
               "gradient of the new size after it.", "gradient before data"),
        raised("NoneType", "A parameter that took no part has p.grad None: leave its place in the row zero.", "no gradient"),
    ),
    ),
)
