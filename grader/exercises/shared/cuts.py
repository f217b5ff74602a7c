"""Ways to cut items, or the rows of a tensor, among ranks: the right one, and wrong ones that many fall into."""

from collections.abc import Callable, Sequence

from grader.judging.exercise import Slip

Cut = Callable[[Sequence, int, int], Sequence]  # (items, rank r, ranks n) -> this rank's part


def balanced(items: Sequence, r: int, n: int) -> Sequence:
    """Contiguous; the first len(items) % n ranks have one more."""
    k, extra = divmod(len(items), n)
    start = r * k + min(r, extra)
    return items[start:start + k + (r < extra)]


def everything(items: Sequence, r: int, n: int) -> Sequence:
    return items


def rounded_down(items: Sequence, r: int, n: int) -> Sequence:
    k = len(items) // n
    return items[r * k:(r + 1) * k]


def rounded_up(items: Sequence, r: int, n: int) -> Sequence:
    k = -(-len(items) // n)
    return items[r * k:(r + 1) * k]


def rest_to_the_last(items: Sequence, r: int, n: int) -> Sequence:
    return items[r * (len(items) // n):] if r == n - 1 else rounded_down(items, r, n)


def later_larger(items: Sequence, r: int, n: int) -> Sequence:
    """Balanced, but the last ranks have one more: as if counted from the other end."""
    return balanced(items[::-1], n - 1 - r, n)[::-1]


def dealt(items: Sequence, r: int, n: int) -> Sequence:
    return items[r::n]


def cut_by(id: str, parameter: str, cut: Cut, hint: str, shows: Callable = lambda case: True) -> Slip:
    """Each rank cuts its part out of the input `parameter` in this way."""
    return Slip(id, hint, lambda case, r, right: cut(
        case.inputs[r][parameter], case.group_rank(r), case.group_size(r)), shows)


def cut_for_the_world(id: str, parameter: str, hint: str) -> Slip:
    """Right, but for the rank and the size of the world in place of the group's."""
    return Slip(id, hint, lambda case, r, right: balanced(case.inputs[r][parameter], r, case.world_size))
