"""An exercise is data: its cases, its oracle, the technique it demands, known mistakes with hints, its points."""

import functools
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from grader.evidence.case import THINNED, Case
from grader.evidence.evidence import MISSING, pack, unpack
from grader.judging.compare import same
from grader.judging.credit import edges_of
from grader.judging.trial import Look, Trial

VALUES, TECHNIQUE = "values", "technique"
MANY = 1 << 16  # numbers in a tensor
PUBLIC_SEED = 0  # of the cases that students see
EDGES = {  # what is odd about some cases, and the words by which their names tell it, see grader.judging.credit
    "buffers": r"\bbuffers",
    "tied weights": r"\btied|\bone weight in both",
    "unused or frozen layers": r"unused|frozen|\bskip|(without|needs no) (a )?gradient",
    "number types": r"two dtypes",
    "layouts in memory": r"not contiguous|transposed",
    "empty parts": r"no parameters|^none$|^no ",
}
ROUNDED = 1e-6  # right sums of whole numbers are exact, a third of them is not


@dataclass(frozen=True, eq=False)
class Slip:
    """A known mistake as students have it. wrong: what each rank returns, by the names of the cases in which it shows."""

    id: str
    wrong: Mapping[str, list[Any]]


@dataclass(frozen=True)
class Mistake:
    """A known mistake as a program: a reference, changed. make() compiles it; `id` is that of its hint.

    What it makes of a case, where its results are what tells, comes from running it: see Exercise.wrong_results.
    """

    id: str
    name: str
    text: str  # that tells it from any other program
    make: Callable[[], Callable]


@dataclass(frozen=True)
class Symptom:
    """A mistake of technique or of failure. `matches(look)` says whether a failed case shows it.

    refuted: the failed cases that rule it out. weak: a guess, which counts only where nothing else explains anything.
    alone: it says nothing unless every failed case shows it.
    """

    id: str
    matches: Callable[[Look], bool]
    refuted: Callable[[Look], bool] = lambda look: False
    weak: bool = False
    alone: bool = False


@dataclass(frozen=True)
class Demand:
    """Something the technique must do. `judge(look)` returns (met, what was wanted and seen in a few words).

    gate: without it the values earn nothing either (the exercise was not done, only its result obtained).
    forbids: it forbids or limits something, so where none was seen it is met; what must be done, `needs` and others ask for.
    for_right_values: its hint speaks of right results; where some are wrong, something else is to be fixed first.
    """

    id: str
    label: str
    judge: Callable[[Look], tuple[bool, str]]
    gate: bool = False
    for_right_values: bool = False
    forbids: bool = False


@dataclass(frozen=True)
class Technique:
    """How it must be done, and how it can fail: what needs no formula of the right results, so that students may have it.

    symptoms: looked at before the slips. fallbacks: after them, where it first differs.
    call: how a rank calls the function, where its folder has no call.py: "module:function" of grader.calling; "" as usual.
    reading: (case, what a rank returned) -> what of it is compared with the right result, where several are right; a pure
        function, and what it raises makes the result wrong.
    """

    demands: tuple[Demand, ...] = ()
    symptoms: tuple[Symptom, ...] = ()
    fallbacks: tuple[Symptom, ...] = ()
    call: str = ""
    reading: Callable[[Case, Any], Any] = lambda case, found: found


@dataclass(frozen=True)
class Exercise:
    """See the module's first line.

    parameters: the function's parameters, in order; "group" is filled with the process group.
    make_cases: (random generator, is this for grading?) -> cases. Public cases come from a fixed seed.
    oracle: case -> the right result of each rank, computed by one process.
    late_s: by how much the rank is late that is late in grading: it begins later, and is held up at each pause(HELD_UP) of
        the call, which all ranks make (utils.trace.spans).
    forbidden: modules that have what is to be written, or packages; in a rank they raise, see grader.calling.forbidden.
    timeout_s: for one case, of which references need 2.4 s at most; marking gives it twice as much.
    trains: an optimizer steps in its ranks, they hand gradients to backward(), or their FLOPs are counted: for each of
        these torch imports much, once for all ranks if it is said here.
    edges: beside refusals, groups, a rank alone, empty parts and other number types, which are known from the cases.
    faults: how many the student was given, where she is told how many are repaired, but not which; each case's input
        grader.evidence.case.FAULT says which one it looks for.
    measured: the bytes that its ranks hold are looked at; to count them takes as long as a small model's training.
    """

    title: str
    parameters: tuple[str, ...]
    make_cases: "Callable[[Draw, bool], Sequence[Case]]"
    oracle: Callable[[Case], list[Any]]
    points: dict[str, float] = field(default_factory=lambda: {VALUES: 2, TECHNIQUE: 2})
    slips: "tuple[Slip | Mistake, ...]" = ()
    tolerance: float = 0.0
    timeout_s: float = 10.0
    trains: bool = False
    measured: bool = False
    late_s: float = 0.1
    forbidden: tuple[str, ...] = ()
    edges: Mapping[str, str] = field(default_factory=lambda: EDGES)
    faults: int = 0
    id: str = ""  # the last six are known from where the exercise stands, see grader.exercises
    unit: str = ""
    technique: Technique = field(default_factory=Technique)
    hints: Mapping[str, str] = field(default_factory=dict)  # of each slip, symptom and demand, by its id
    caller: str = ""  # what says how a rank calls the function, see grader.calling.handing_out
    run: "Callable[[Exercise, Case, Sequence[Mistake]], list[list[Any] | None]] | None" = None  # of programs, on ranks

    def trials(self, seed: int, grading: bool) -> tuple[Trial, ...]:
        """The cases drawn from `seed`, with what is right; ordinary ones first, since after a time-out no more are run."""
        right = functools.cache(self.right)
        trials = [Trial(case, right(punctual)) for case, punctual in self.drawn(seed, grading)]
        edge_of = dict(zip(trials, self.edges_among(trials), strict=True))
        return tuple(sorted(trials, key=lambda trial: edge_of[trial] != ""))

    def edges_among(self, trials: Sequence[Trial]) -> list[str]:
        """Of each case, the edge that it belongs to; "" for ordinary inputs, as all are where faults are looked for."""
        return [""] * len(trials) if self.faults else edges_of(trials, self.edges)

    def drawn(self, seed: int, grading: bool) -> list[tuple[Case, Case]]:
        """Each case with the one whose results are right for it: for grading one comes again, an end of the line late."""
        cases = list(self.make_cases(Draw(seed), grading))
        pairs = [(case, case) for case in cases]
        edges = self.edges_among([Trial(case, []) for case in cases])
        widest = max((case for case, edge in zip(cases, edges, strict=True) if not edge and case.groups is None),
                     key=lambda case: case.world_size, default=None)
        if not grading or widest is None or widest.world_size == 1:
            return pairs
        return pairs + [(_late(widest, rank, self.late_s), widest) for rank in (0, widest.world_size - 1)]

    def right(self, case: Case) -> list[Any]:
        """The right result of each rank."""
        right = self.oracle(case)
        return unpack(pack(right, THINNED)) if case.weighed else right

    def wrong_results(self, trial: Trial, slips: "Sequence[Slip | Mistake]") -> list[list[Any] | None]:
        """For each slip what each rank returns that makes it, None for a bystander; None in all where it does not show."""
        programs = [slip for slip in slips if isinstance(slip, Mistake)]
        returned = dict(zip(programs, self._returned(trial, programs), strict=True))
        return [returned[slip] if isinstance(slip, Mistake) else slip.wrong.get(trial.case.name) for slip in slips]

    def _returned(self, trial: Trial, programs: Sequence[Mistake]) -> list[list[Any] | None]:
        if not programs or self.run is None or not trial.case.shows_slips:
            return [None] * len(programs)
        return [returned and self._wrong(trial, returned) for returned in self.run(self, trial.case, programs)]

    def _wrong(self, trial: Trial, returned: list[Any]) -> list[Any] | None:
        """What is compared of each rank's result; None if all of it is right."""
        read = [_numbers_as(trial.right[rank], self.read(trial.case, returned[rank])) if rank in trial.working else None
                for rank in range(trial.case.world_size)]
        tolerance = max(self.tolerance, ROUNDED)
        return None if all(same(read[rank], trial.right[rank], tolerance) for rank in trial.working) else read

    def read(self, case: Case, found: Any) -> Any:
        """What of a result is compared; a result that cannot be read is compared as it is, and differs."""
        try:
            return found if found is MISSING else self.technique.reading(case, found)
        except (TypeError, ValueError, LookupError, AttributeError):
            return found

    @property
    def ids(self) -> set[str]:
        """Of its slips, symptoms and demands: what a hint can be about, beside what any function can do."""
        technique = self.technique
        return {known.id for known in (*self.slips, *technique.symptoms, *technique.fallbacks, *technique.demands)}

    def with_points(self, points: float) -> "Exercise":
        """The same for so many points in all."""
        return replace(self, points={part: own * points / self.max_points for part, own in self.points.items()})

    @property
    def max_points(self) -> float:
        return sum(self.points.values())


def _numbers_as(right: Any, value: Any) -> Any:
    """A whole number where a fraction is right is the same mistake as the fraction: student and reference may differ."""
    if isinstance(right, float) and type(value) is int:
        return float(value)
    if isinstance(right, dict) and isinstance(value, dict):
        return {key: _numbers_as(right.get(key), part) for key, part in value.items()}
    if isinstance(right, (list, tuple)) and isinstance(value, (list, tuple)) and len(right) == len(value):
        return [_numbers_as(*pair) for pair in zip(right, value, strict=True)]
    return value


def _late(case: Case, rank: int, seconds: float) -> Case:
    """The same with one rank that is late."""
    late_s = tuple(seconds if other == rank else 0.0 for other in range(case.world_size))
    return replace(case, name=f"{case.name}, rank {rank} late", late_s=late_s)


class Draw:
    """Random inputs from one seed. Values are small whole numbers, so that sums are exact in any order (but see tensor)."""

    def __init__(self, seed: int):
        self.numbers = random.Random(seed)
        self._torch = torch.Generator().manual_seed(seed)

    def tensor(self, *shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        """Whole numbers from -50 to 50, none of them 0: a lost or a doubled part always shows.

        Many numbers in float64 have all digits: what is weighed must not fit into less.
        """
        magnitude = torch.randint(1, 51, shape, generator=self._torch)
        sign = torch.randint(0, 2, shape, generator=self._torch) * 2 - 1
        numbers = (magnitude * sign).to(dtype)
        if dtype == torch.float64 and numbers.numel() >= MANY:
            numbers *= 1 - torch.rand(shape, generator=self._torch, dtype=dtype) / 2
        return numbers

    def tensors(self, world_size: int, *shape: int, dtype: torch.dtype = torch.float32) -> list[torch.Tensor]:
        """One tensor a rank."""
        return [self.tensor(*shape, dtype=dtype) for _ in range(world_size)]

    def seed(self) -> int:
        """For what a rank makes by itself: one of so many that nobody finds it by trying."""
        return self.numbers.getrandbits(32)

    def integer(self, low: int, high: int) -> int:
        """A whole number from low to high, both included."""
        return self.numbers.randint(low, high)
