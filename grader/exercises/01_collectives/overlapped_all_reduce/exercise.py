"""An asynchronous all-reduce with work done between its start and its wait."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from grader.exercises.shared.cases import each_rank, elements, ranks, subgroup_case, total, xs_of
from grader.exercises.shared.collectives import swapped
from grader.judging.compare import same
from grader.judging.demands import group_size, only_calls, results_waited, sends_waited
from grader.judging.exercise import Case, Demand, Draw, Exercise, Look, Symptom, Technique
from grader.judging.symptoms import group_ignored, unwaited, wrong_ranks

STEPS = 20_000  # some milliseconds of compute()


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    sizes = [(1, 3), (2, 2), (3, draw.integer(1, 4)), (4, 1 << 15)] + [(5, 2)] * grading
    cases = [Case(f"{ranks(n)}, {elements(k)}", tuple({"x": x} for x in draw.tensors(n, k))) for n, k in sizes]
    cases.append(subgroup_case(draw, lambda n: (2,)))
    return [Case(case.name, tuple({**one, "y": draw.tensor(3), "steps": STEPS} for one in case.inputs), case.groups)
            for case in cases]


def _each(test: Callable, message: str) -> Callable[[Look], tuple[bool, str]]:
    """A demand's judge: test(all_reduce call, compute span) on every rank that takes part."""

    def judge(look: Look) -> tuple[bool, str]:
        for rank in look.working:
            calls = look.evidence.trace.of(rank, "all_reduce")
            spans = [s for s in look.evidence.trace.spans if s.rank == rank and s.name == "compute"]
            if not calls or not spans:
                return False, f"rank {rank} never called {'compute' if calls else 'all_reduce'}"
            if not test(calls[0], spans[0]):
                return False, f"rank {rank} {message}"
        return True, ""

    return judge


def _once(look: Look) -> tuple[bool, str]:
    for rank in look.working:
        count = sum(s.rank == rank and s.name == "compute" for s in look.evidence.trace.spans)
        if count != 1:
            return False, f"rank {rank} called compute {count} times"
    return True, ""


EXERCISE = Exercise(
    title="Compute while an all-reduce is under way",
    parameters=("x", "compute", "group"),
    make_cases=_cases,
    oracle=each_rank(lambda case, r: (total(xs_of(case, r)), case.inputs[r]["y"] * 2)),
    technique=Technique(
        demands=(
        only_calls("all_reduce", hint="One dist.all_reduce is all the communication that this exercise needs."),
        Demand("compute once", "compute() is called once",
               "The results are right, but compute() ran more than once: keep what the one call returns.", _once),
        Demand("blocking call", "the all-reduce is asynchronous",
               "The all-reduce blocks, so nothing overlaps: with async_op=True it returns a work object at once.",
               _each(lambda call, span: call.is_async, "called a blocking all_reduce")),
        Demand("computed first", "the all-reduce starts before compute()",
               "compute() ran before the all-reduce was started, so nothing overlaps: start the communication first.",
               _each(lambda call, span: call.start_s <= span.start_s, "started the all_reduce after compute()")),
        Demand("waited too early", "the wait comes after compute()",
               "The wait came before compute(), so nothing overlaps: compute first, then wait for the sum.",
               _each(lambda call, span: call.wait_start_s is None or call.wait_start_s >= span.end_s,
                     "waited before compute() was done")),
        results_waited(),
        sends_waited(),
    ),
        symptoms=(
        group_ignored("The sum runs over ranks that are not in the group: pass group=group to all_reduce."),
        unwaited(),
        Symptom("parts swapped", "The two results are in the other order: (sum, y).",
                wrong_ranks(swapped)),
        Symptom("mean for sum", "The sum is exactly n times too small: you divided by the number of ranks.",
                wrong_ranks(lambda look, r, found, expected: same(found[0], expected[0] / group_size(look, r)))),
        Symptom("own x returned", "The first result is this rank's own x, not the sum: return the tensor that "
                                  "all_reduce worked on, as it is after the wait (a clone made before that holds the "
                                  "old values).",
                wrong_ranks(lambda look, r, found, _: same(found[0], look.case.inputs[r]["x"]))),
    ),
    ),
)
