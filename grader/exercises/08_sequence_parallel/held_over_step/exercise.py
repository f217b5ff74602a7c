"""The bytes of activations that a rank holds at each moment of a step, without and with recomputation."""

from collections.abc import Sequence

from grader.exercises.shared.activations import kept
from grader.exercises.shared.formula_cases import single
from grader.judging.exercise import VALUES, Case, Draw, Exercise

Segments = list[tuple[float, float]]  # (kept, whole) of each


def _moments(segments: Segments) -> list[float]:
    """By a step that is played: what is in memory, segment by segment, whenever that changes."""
    standing: dict[int, float] = {}
    moments = []
    for number, (kept_bytes, _) in enumerate(segments):
        standing[number] = kept_bytes
        moments.append(sum(standing.values(), 0.0))
    for number in reversed(range(len(segments))):
        standing[number] = segments[number][1]
        moments.append(sum(standing.values(), 0.0))
        del standing[number]
        moments.append(sum(standing.values(), 0.0))
    return moments


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    def layers(recompute: str) -> Segments:
        """3 layers of a model, without tensor parallelism."""
        sizes = 8 * draw.integer(2, 9), 2, 48, 4, 1, False
        return [(round(kept(*sizes, recompute)), round(kept(*sizes, "none")))] * 3

    def bytes_() -> int:
        return draw.integer(10, 1000)

    mixed = [(size := bytes_(), size + draw.integer(0, 1) * bytes_()) for _ in range(draw.integer(5, 8))]
    cases = {"nothing recomputed": layers("none"), "full recomputation": layers("full"),
             "one segment, recomputed": [(bytes_(), 2000)], "some recomputed, all different": mixed,
             "the largest first": [(300, 5000), (200, 200), (100, 700)], "no segment": []}
    if grading:
        cases["many"] = [(bytes_(), 1000 + bytes_()) for _ in range(12)]
    return [single(name, segments=segments) for name, segments in cases.items()]


EXERCISE = Exercise(
    title="Memory through a step",
    parameters=("segments",),
    make_cases=_cases,
    oracle=lambda case: [_moments(**case.inputs[0])],
    tolerance=1e-9,
    points={VALUES: 2},
)
