"""From an exercise, its cases and the evidence to a verdict. A pure function: it never runs student code."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from grader.demands import network_agrees
from grader.exercise import TECHNIQUE, VALUES, Case, Demand, Exercise, Look
from grader.inside.evidence import MISSING, NOT_WRITTEN, RETURNED, SKELETON_ERROR, Evidence
from grader.verdict import CaseVerdict, DemandVerdict, Verdict

# What one rounding to a type with few digits may change: where an exercise allows any tolerance, results of such a type get
# at least this one. bfloat16 keeps 8 binary digits; sums of a few roundings stay below 2 units of the last but one.
ROUNDING = {torch.bfloat16: 2.0 ** -6, torch.float16: 2.0 ** -9}


def judge(exercise: Exercise, cases: Sequence[Case], evidences: Sequence[Evidence]) -> Verdict:
    """The verdict on one function.

    Values earn their points only when every case is right on every rank, and every gating demand is met; the technique
    earns its points only on top of right values: doing nothing moves few bytes too.
    """
    if evidences and evidences[0].error_kind == SKELETON_ERROR:
        return Verdict.without_evidence(exercise, _not_written(exercise.id, evidences[0].error))
    looks = [Look(case, evidence, exercise.oracle(case)) for case, evidence in zip(cases, evidences, strict=False)]
    rows = [_judge_case(exercise, look) for look in looks]
    complete = len(rows) == len(cases)
    values_right = complete and all(row.right for row in rows)
    gates_met = all(d.met for row in rows for d in row.demands if d.gate)
    technique_met = all(d.met for row in rows for d in row.demands)
    earned = {
        VALUES: exercise.points.get(VALUES, 0) * (values_right and gates_met),
        TECHNIQUE: exercise.points.get(TECHNIQUE, 0) * (values_right and technique_met),
    }
    return Verdict(exercise.id, exercise.title, tuple(rows), _hints(exercise, looks, rows), earned,
                   dict(exercise.points), skipped=len(cases) - len(rows))


def _not_written(exercise: str, error: str) -> str:
    """The skeleton that was met; where the exercise itself is written, the line that leads to it."""
    lines = [line.strip() for line in error.splitlines()[1:]]
    if len(lines) > 1 and SKELETON_ERROR in lines[-1]:
        return f"{exercise} uses what is not written yet:\n{lines[-2]}\n{lines[-1]}"
    return NOT_WRITTEN.format(exercise)


def _judge_case(exercise: Exercise, look: Look) -> CaseVerdict:
    problems = {}
    for rank, found, expected in look.pairs():
        difference = first_difference(_read(exercise, look.case, found), expected, exercise.tolerance)
        if difference:
            problems[rank] = difference
    ended = look.evidence.ending == RETURNED
    demands = tuple(_judge_demand(demand, look) for demand in asked_of(exercise, look)) if ended else ()
    return CaseVerdict(look.case.name, look.case.world_size, tuple(look.active_ranks), problems, look.evidence.ending,
                       look.evidence.error, demands)


def _read(exercise: Exercise, case: Case, found: Any) -> Any:
    """What of a result is compared; a result that cannot be read is compared as it is, and differs."""
    try:
        return found if found is MISSING else exercise.reading(case, found)
    except (TypeError, ValueError, LookupError, AttributeError):
        return found


def asked_of(exercise: Exercise, look: Look) -> tuple[Demand, ...]:
    """The exercise's demands and, where the network was counted, that it agrees with the calls they are judged by."""
    if look.evidence.loopback_bytes is None or not exercise.demands:
        return exercise.demands
    return (*exercise.demands, network_agrees(gate=any(demand.gate for demand in exercise.demands)))


def _judge_demand(demand, look: Look) -> DemandVerdict:
    met, detail = demand.judge(look)
    return DemandVerdict(demand.id, demand.label, bool(met), detail, demand.gate)


def _hints(exercise: Exercise, looks: list[Look], rows: list[CaseVerdict]) -> tuple[tuple[str, str], ...]:
    """(id, text) of the one thing to mend first: an unmet gate, else a symptom of a failed case, else another demand."""
    unmet = {d.id for row in rows for d in row.demands if not d.met}
    failed = [look for look, row in zip(looks, rows, strict=True) if not row.right]
    demands = list(dict.fromkeys(demand for look in looks for demand in asked_of(exercise, look)))
    gates = [(d.id, d.hint) for d in demands if d.gate and d.id in unmet]
    symptoms = [(s.id, s.hint) for s in exercise.symptoms if any(_matches(s, look) for look in failed)]
    others = [(d.id, d.hint) for d in demands if d.id in unmet] if not failed else []
    return tuple((gates or symptoms or others)[:1])


def _matches(symptom, look: Look) -> bool:
    """A symptom written for whole results need not expect every odd one."""
    try:
        return bool(symptom.matches(look))
    except (TypeError, ValueError, LookupError, AttributeError, RuntimeError, ArithmeticError):
        return False


def first_difference(found: Any, expected: Any, tolerance: float, path: str = "") -> str:
    """The first place where `found` is not `expected`, in words; empty if there is none."""
    if found is MISSING:
        return "returned nothing"
    if isinstance(expected, torch.Tensor):
        return _tensor_difference(found, expected, tolerance, path)
    if isinstance(expected, dict):
        if not isinstance(found, dict) or found.keys() != expected.keys():
            return f"{path or 'result'}: expected {_brief(sorted(map(str, expected)))}, found {_brief(found)}"
        parts = (first_difference(found[key], expected[key], tolerance, f"{path}[{key!r}]") for key in expected)
        return next((part for part in parts if part), "")
    if isinstance(expected, (list, tuple)):
        if not isinstance(found, (list, tuple)) or len(found) != len(expected):
            wanted = _brief(list(expected)) if len(repr(expected)) <= 60 else f"{len(expected)} parts"
            return f"{path or 'result'}: expected {wanted}, found {_brief(found)}"
        parts = (first_difference(f, e, tolerance, f"{path}[{i}]")
                 for i, (f, e) in enumerate(zip(found, expected, strict=True)))
        return next((part for part in parts if part), "")
    if isinstance(expected, float):
        close = isinstance(found, (int, float)) and math.isclose(found, expected, rel_tol=max(tolerance, 1e-9))
        return "" if close else f"{path}: expected {expected:.6g}, found {_brief(found)}".lstrip(": ")
    same = type(found) is type(expected) and found == expected
    return "" if same else f"{path}: expected {_brief(expected)}, found {_brief(found)}".lstrip(": ")


def _tensor_difference(found: Any, expected: torch.Tensor, tolerance: float, path: str) -> str:
    if not isinstance(found, torch.Tensor):
        return f"{path}: expected a tensor {list(expected.shape)}, found {_brief(found)}".lstrip(": ")
    if found.shape != expected.shape:
        return f"{path}: expected shape {list(expected.shape)}, found {list(found.shape)}".lstrip(": ")
    if found.dtype != expected.dtype:
        return f"{path}: expected {expected.dtype}, found {found.dtype}".lstrip(": ").replace("torch.", "")
    tolerance = max(tolerance, ROUNDING.get(expected.dtype, 0.0)) if tolerance else 0.0
    a, b = found.double(), expected.double()
    wrong = ~((a - b).abs() <= tolerance * b.abs().clamp(min=1.0))  # written so that NaN is wrong
    if not wrong.any():
        return ""
    index = wrong.nonzero()[0].tolist()
    place = path + (str(index) if index else "")
    return f"{place}: expected {_number(b[tuple(index)])}, found {_number(a[tuple(index)])}".lstrip(": ")


def _number(value: torch.Tensor) -> str:
    return f"{value.item():.6g}"


def _brief(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"a tensor {list(value.shape)}"
    text = f"{value:.6g}" if isinstance(value, float) else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
