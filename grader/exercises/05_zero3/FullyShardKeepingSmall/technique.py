"""How FullyShardKeepingSmall must be done, and how it can fail."""

import math
from collections import Counter
from collections.abc import Callable, Iterator

from grader.calling.sharding import OWNED, dtype_of
from grader.exercises.technique.models import model_seen, reduced
from grader.exercises.technique.sharding import by_collectives, first_wrong_is, gathers_and_reductions, spans_of
from grader.judging.demands import bytes_sent, only_calls
from grader.judging.exercise import Demand, Look, Symptom
from grader.judging.needs import needs
from grader.judging.symptoms import raised, wrong_ranks
from utils.costs.formulas import bytes_sent_per_rank


def _sizes(look: Look, rank: int) -> Iterator[tuple[str, int, int, int]]:
    """(name, numbers, the threshold, numbers held by all of `rank`'s group) of each parameter, at the last look."""
    model, below = model_seen(look.case, rank), look.case.inputs[rank]["keep_whole_below"]
    last = [spans_of(look, member, OWNED)[-1].facts["sizes"] for member in look.case.members(rank)]
    for name, p in model.named_parameters():
        yield name, p.numel(), below, sum(sizes[name] for sizes in last)


def _each_held(wrong: Callable[[int, int, int, int], bool], words: str) -> Callable[[Look], tuple[bool, str]]:
    """Whether wrong(numbers, threshold, numbers held by the group, its ranks) holds of no parameter."""

    def judge(look: Look) -> tuple[bool, str]:
        for rank in look.working:
            n = look.case.group_size(rank)
            for name, numbers, below, held in _sizes(look, rank) if n > 1 else ():
                if wrong(numbers, below, held, n):
                    return False, f"{name}, {numbers} elements, {words}: {n} ranks hold {held}"
        return True, ""

    return judge


def _sent(look: Look, rank: int) -> float:
    """The start, two looks at all parameters, and each pass's gathers and reductions."""
    n, inputs = look.case.group_size(rank), look.case.inputs[rank]
    model = model_seen(look.case, rank)
    below, passes = inputs["keep_whole_below"], len(inputs["xs"])
    large = sum((p.numel() + n) * p.dtype.itemsize for p in model.parameters() if p.numel() >= below)
    small = sum(p.nbytes for p in model.parameters() if p.numel() < below)
    start = math.ceil(math.log2(n)) * (large + small)  # what the root of a tree sends
    return (start + gathers_and_reductions(look, rank, large, gathers=2 + 2 * passes, reductions=passes)
            + passes * bytes_sent_per_rank("all_reduce", small, n))


def _needed(look: Look, rank: int) -> list[tuple[str, float]]:
    """In each step the large parameters once, and the gradients of all; in a type that may be short."""
    inputs = look.case.inputs[rank]
    if not inputs["xs"]:
        return []
    trained = reduced(look.case, rank).values()
    dtype, steps = dtype_of(inputs["compute_dtype"]), len(inputs["xs"]) // inputs["micro"]
    sizes = [(p.numel(), p.numel() * (dtype or p.dtype).itemsize) for p in model_seen(look.case, rank).parameters()]
    reduced_sizes = [(p.numel(), p.numel() * (dtype or p.dtype).itemsize) for p in trained]
    large, gradients = (steps * sum(nbytes for numbers, nbytes in some if numbers >= inputs["keep_whole_below"])
                        for some in (sizes, reduced_sizes))
    small = steps * sum(nbytes for numbers, nbytes in reduced_sizes if numbers < inputs["keep_whole_below"])
    return [("all_gather", large), ("reduce_scatter", gradients), ("all_reduce", small)]


_small_whole = _each_held(lambda numbers, below, held, n: numbers < below and held != n * numbers, "to be whole")


def _tied_divided(look: Look) -> bool:
    """Whether small ones are cut where some stand in several places: so the ranks' pieces go into a broadcast, or remain."""
    model, below = model_seen(look.case, look.working[0]), look.case.inputs[0]["keep_whole_below"]
    places = Counter(p for _, p in model.named_parameters(remove_duplicate=False) if p.numel() < below)
    in_two = any(count > 1 for count in places.values())
    return in_two and ("size in broadcast" in look.evidence.said or not _small_whole(look)[0])


TECHNIQUE = by_collectives(
    needs(_needed),
    only_calls("all_gather", "reduce_scatter", "all_reduce", "broadcast"),
    Demand("small divided", "small parameters are whole between the steps", _small_whole),
    Demand("large not divided", "all other parameters are sharded",
           _each_held(lambda numbers, below, held, n: numbers > below and held > numbers, "to be sharded")),
    Demand("at the threshold", "a parameter of exactly keep_whole_below elements is sharded",
           _each_held(lambda numbers, below, held, n: numbers == below and held > numbers, "to be sharded")),
    bytes_sent(_sent, "FullyShard's bytes for what is sharded, an all-reduce a pass of what is whole"),
    symptoms=(
        Symptom("tied one divided", _tied_divided),
        Symptom("small divided", lambda look: not _small_whole(look)[0]),
        raised("NoneType", "nothing there"),
        Symptom("whole ones missing",
                wrong_ranks(lambda look, rank, found, right: found["start"].keys() != right["start"].keys())),
    ),
    fallbacks=(
        Symptom("small ones cast", wrong_ranks(lambda look, rank, found, right: any(
                    found["start"].get(name, p).dtype != p.dtype for name, p in right["start"].items()))),
        Symptom("start not shared", first_wrong_is("start")),
        Symptom("wrong gradients", first_wrong_is("gradients")),
    ),
)
