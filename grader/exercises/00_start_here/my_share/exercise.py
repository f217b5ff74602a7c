"""My share of a list: which part of the data is this rank's."""

from __future__ import annotations

from collections.abc import Callable

from grader.exercises.shared.start_inputs import in_groups, sweep
from grader.judging.demands import only_calls
from grader.judging.exercise import VALUES, Case, Draw, Exercise, Look, Symptom, Technique


def _share(items: list, r: int, n: int) -> list:
    k, extra = divmod(len(items), n)
    start = r * k + min(r, extra)
    return items[start:start + k + (r < extra)]


# Wrong ways to cut, by the id of their hint.
CUTS: dict[str, Callable[[list, int, int], list]] = {
    "everything": lambda items, r, n: items,
    "remainder dropped": lambda items, r, n: items[r * (len(items) // n):(r + 1) * (len(items) // n)],
    "rest to the last": lambda items, r, n: items[r * (len(items) // n):][:None if r == n - 1 else len(items) // n],
    "rounded up": lambda items, r, n: items[r * -(-len(items) // n):(r + 1) * -(-len(items) // n)],
    "dealt like cards": lambda items, r, n: items[r::n],
    "extras elsewhere": lambda items, r, n: items[len(items) * r // n:len(items) * (r + 1) // n],
}


def _all_cut(cut: Callable[[list, int, int], list], look: Look) -> list[list]:
    case = look.case
    return [cut(case.inputs[r]["items"], case.group_rank(r), len(case.members(r))) for r in range(case.world_size)]


def _cut_by(id: str, hint: str) -> Symptom:
    """Every rank's share is what CUTS[id] gives and no other of the cuts does; there are items enough to tell."""

    def matches(look: Look) -> bool:
        fitting = [name for name, cut in CUTS.items() if _all_cut(cut, look) == look.outputs]
        return fitting == [id] and len(look.case.inputs[0]["items"]) > look.case.world_size

    return Symptom(id, hint, matches)


def _lost_or_doubled(look: Look) -> bool:
    """Put end to end, the shares are not the list."""
    shares = [[item for peer in look.case.members(r) for item in look.outputs[peer]] for r in look.working]
    return any(share != look.case.inputs[r]["items"] for r, share in zip(look.working, shares, strict=True))


def _cut_for_the_world(look: Look) -> bool:
    """Groups at work: a share is as long as if all ranks shared the items, and the ends are those of the world's ends."""
    n, items, shares = look.case.world_size, [one["items"] for one in look.case.inputs], look.outputs
    right_length = all(len(share) in (len(all_) // n, -(-len(all_) // n)) for share, all_ in zip(shares, items, strict=True))
    ends = shares[0] == items[0][:len(shares[0])] and shares[-1] == items[-1][-len(shares[-1]):]
    return look.case.groups is not None and right_length and ends


def _cases(draw: Draw, grading: bool) -> list[Case]:
    def of_length(length: int, n: int) -> list[dict]:
        return [{"items": draw.numbers.sample(range(100), length)}] * n

    cases = sweep(grading, lambda n: of_length(n * draw.integer(1, 3) + n // 2, n), groups=False)
    few = draw.integer(1, 3)
    cases.append(Case(f"4 ranks, {few} item{'s' * (few > 1)}", tuple(of_length(few, 4))))
    cases.append(Case("4 ranks, 11 items", tuple(of_length(11, 4))))
    return [*cases, in_groups(lambda n: of_length(2 * n + 1, n))]


EXERCISE = Exercise(
    title="My share of a list",
    parameters=("items", "group"),
    make_cases=_cases,
    oracle=lambda case: [_share(case.inputs[r]["items"], case.group_rank(r), len(case.members(r)))
                         for r in range(case.world_size)],
    points={VALUES: 2},
    technique=Technique(
        demands=(only_calls(id="communicates", hint="No message is needed: every rank has the whole list, knows its rank "
                        "and the number of ranks, and can work out its own share."),),
        symptoms=(
        _cut_by("everything", "Every rank keeps the whole list: cut out the part that belongs to this rank."),
        _cut_by("remainder dropped", "len(items) // n drops what does not divide: the last items belong to nobody."),
        _cut_by("rest to the last", "The last rank takes all that is left over, up to n−1 items more than the others, "
                "who will wait for it. Give one extra item to each of the first ranks."),
        _cut_by("rounded up", "Rounding the share up fills the first ranks and starves the last: 11 items over 5 ranks "
                "become 3, 3, 3, 2, 0. Sizes may differ by one at most."),
        _cut_by("dealt like cards", "The sizes are right, but the items are dealt out like cards (every n-th one): a "
                "share is one contiguous piece."),
        _cut_by("extras elsewhere", "Contiguous and balanced, but the extra items are not with the first ranks. A "
                "share starts where those of all ranks before it end, extras included."),
        Symptom("ignores the group", "Right for the whole world, wrong in a group: ask dist.get_rank(group) and "
                "dist.get_world_size(group). In the group (1, 3, 4), rank 4 of the world is rank 2 of 3.",
                _cut_for_the_world),
        Symptom("lost or doubled", "Put end to end, the shares do not give the list: items are lost or doubled. Rank "
                "r+1 must start where rank r ends.", _lost_or_doubled),
    ),
    ),
)
