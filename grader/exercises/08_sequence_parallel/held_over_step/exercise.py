"""The bytes of activations that a rank holds at each moment of a step, without and with recomputation."""

from collections.abc import Callable, Sequence

from grader.exercises.shared.activations import kept
from grader.exercises.shared.formula_cases import formula, single
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


def _backward(segments: Segments, begins: Callable[[float, float, float], float],
              over: Callable[[float, float, float], float] = lambda total, kept_bytes, whole: total - kept_bytes,
              reverse: bool = True) -> list[float]:
    """Forward as it is; backward by begins(total, kept, whole) and over(total, kept, whole)."""
    moments = _moments(segments)[:len(segments)]
    total = moments[-1] if moments else 0
    for kept_bytes, whole in segments[::-1] if reverse else segments:
        moments.append(begins(total, kept_bytes, whole))
        total = over(total, kept_bytes, whole)
        moments.append(total)
    return moments


def _begins(total: float, kept_bytes: float, whole: float) -> float:
    return total - kept_bytes + whole


def _all_whole(segments: Segments) -> list[float]:
    return _moments([(whole, whole) for _, whole in segments])


def _all_at_once(segments: Segments) -> list[float]:
    """Everything is recomputed when backward begins."""
    return _moments(segments)[:len(segments)] + _all_whole(segments)[len(segments):]


def _one_by_one(segments: Segments) -> list[float]:
    """Each segment's own bytes, not what stands beside it."""
    backward = [moment for _, whole in reversed(segments) for moment in (whole, 0)]
    return [kept_bytes for kept_bytes, _ in segments] + backward


def _exclusive(segments: Segments) -> list[float]:
    """Forward moments before each segment instead of after it."""
    moments = _moments(segments)
    return [0, *moments[:len(segments) - 1], *moments[len(segments):]] if segments else []


def _exchanged(segments: Segments) -> list[float]:
    """After each backward pass, then when it begins."""
    n, moments = len(segments), _moments(segments)
    return moments[:n] + [moments[n + i + 1 - 2 * (i % 2)] for i in range(2 * n)]


EXERCISE = Exercise(
    title="Memory through a step",
    parameters=("segments",),
    make_cases=_cases,
    oracle=lambda case: [_moments(**case.inputs[0])],
    tolerance=1e-9,
    points={VALUES: 2},
    slips=(
        formula("recomputed part forgotten", lambda inputs: _backward(**inputs, begins=lambda total, *_: total),
                "When a segment's backward pass begins, the segment has been run again. It then holds all its `whole` bytes "
                "and no longer only those that it kept."),
        formula("counted twice", lambda inputs: _backward(**inputs, begins=lambda total, _, whole: total + whole),
                "The bytes that a segment kept are part of its `whole` bytes. When its backward pass begins, they count "
                "once."),
        formula("forward order", lambda inputs: _backward(**inputs, begins=_begins, reverse=False),
                "Backward reaches the last segment first. Go through the segments from the last to the first."),
        formula("all kept", lambda inputs: _all_whole(**inputs),
                "After its forward pass a segment holds only what it keeps, its first number. It holds `whole` only while "
                "its own backward pass runs."),
        formula("all at once", lambda inputs: _all_at_once(**inputs),
                "Only one segment at a time is run again. The segments that backward hasn't reached yet hold what they "
                "kept."),
        formula("never freed", lambda inputs: _backward(**inputs, begins=_begins, over=lambda total, *_: total),
                "When a segment's backward pass is over, it holds nothing. The bytes that it kept are free too."),
        formula("recomputed part stays", lambda inputs: _backward(
                    **inputs, begins=_begins, over=lambda total, kept_bytes, whole: total + whole - 2 * kept_bytes),
                "When a segment's backward pass is over, the recomputed bytes are free as well, not only those that it "
                "kept."),
        formula("one by one", lambda inputs: _one_by_one(**inputs),
                "These are the bytes of one segment at a time. The rank holds the bytes of all segments that have run "
                "forward and whose backward pass isn't over."),
        formula("before each segment", lambda inputs: _exclusive(**inputs),
                "The first numbers are those after each segment's forward pass, so each contains that segment's own "
                "bytes."),
        formula("moments exchanged", lambda inputs: _exchanged(**inputs),
                "Of a segment's two moments in backward, the beginning comes first and the end second."),
    ),
)
