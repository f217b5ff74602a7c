"""My share of a list: which part of the data is this rank's."""

from grader.exercises.shared import cuts
from grader.exercises.shared.cases import counted, each_rank, group_case, sweep
from grader.judging.exercise import VALUES, Case, Draw, Exercise

WORDS = ["round", "and", "round", "and", "round", "it", "goes"]  # items may be texts, and equal


def _cases(draw: Draw, grading: bool) -> list[Case]:
    def of_length(length: int, n: int) -> list[dict]:
        if n == 3:
            return [{"items": WORDS}] * n
        return [{"items": draw.numbers.sample(range(100), length)}] * n

    cases = sweep(grading, lambda n: of_length(n * draw.integer(1, 3) + n // 2, n), groups=False)
    few = draw.integer(1, 3)
    cases.append(Case(f"4 ranks, {counted(few, 'item')}", tuple(of_length(few, 4))))
    tenths = [number / 10 for number in draw.numbers.sample(range(1, 100, 2), 11)]  # float32 has none of them
    cases.append(Case("4 ranks, 11 items", ({"items": tenths},) * 4))
    return [*cases, group_case(lambda n: of_length(2 * n + 1, n))]


def _where_the_first_equal_is(items: list, r: int, n: int) -> list:
    own = cuts.balanced(range(len(items)), r, n)
    return [item for item in items if items.index(item) in own]


def _rounded_on_both_ends(items: list, r: int, n: int) -> list:
    return items[len(items) * r // n:len(items) * (r + 1) // n]


EXERCISE = Exercise(
    title="My share of a list",
    parameters=("items", "group"),
    make_cases=_cases,
    oracle=each_rank(lambda case, r: cuts.balanced(case.inputs[r]["items"], case.group_rank(r), case.group_size(r))),
    points={VALUES: 2},
    slips=(
        cuts.cut_by("everything", "items", cuts.everything,
                    "Every rank keeps the whole list: cut out the part that belongs to this rank."),
        cuts.cut_by("remainder dropped", "items", cuts.rounded_down,
                    "len(items) // n drops what does not divide: the last items belong to nobody."),
        cuts.cut_by("rest to the last", "items", cuts.rest_to_the_last,
                    "The last rank takes all that is left over, up to n−1 items more than the others, who will wait for "
                    "it. Give one extra item to each of the first ranks."),
        cuts.cut_by("rounded up", "items", cuts.rounded_up,
                    "Rounding the share up fills the first ranks and starves the last: 11 items over 5 ranks become 3, 3, "
                    "3, 2, 0. Sizes may differ by one at most."),
        cuts.cut_by("dealt like cards", "items", cuts.dealt,
                    "The sizes are right, but the items are dealt out like cards (every n-th one): a share is one "
                    "contiguous piece."),
        cuts.cut_by("extras elsewhere", "items", _rounded_on_both_ends,
                    "Contiguous and balanced, but the extra items are not with the first ranks. A share starts where those"
                    " of all ranks before it end, extras included."),
        cuts.cut_by("later ranks larger", "items", cuts.later_larger,
                    "Contiguous and balanced, but the extra items are with the last ranks: here the first ones have them."),
        cuts.cut_by("looked up by value", "items", _where_the_first_equal_is,
                    "An item may be in the list more than once, and items.index(item) finds the first one only: count "
                    "places, not values, and cut with items[start:stop]."),
        cuts.cut_for_the_world("ignores the group", "items",
                               "Right for the whole world, wrong in a group: ask dist.get_rank(group) and "
                               "dist.get_world_size(group). In the group (1, 3, 4), rank 4 of the world is rank 2 of 3."),
    ),
)
