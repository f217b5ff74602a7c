"""One run of the student's function: what each rank receives."""

from dataclasses import dataclass
from typing import Any

WEIGHED, THINNED = "weighed", 1009  # an input that says so
SEALED = "sealed"  # an input: parameter -> how it is cut, see grader.calling.sealing
FAULT, WHOLE_RUN = "fault", "whole run"  # an input: which fault this case looks for, or none but that the run is right
REFUSED = "ValueError that names"  # in place of a result, with the sizes that do not fit


@dataclass(frozen=True, eq=False)
class Case:
    """See the module's first line. Equal to itself only, so that what follows from a case can be remembered with it.

    inputs: one dictionary a rank, parameter name -> tensor, number, string, None, or lists, tuples, dicts of these; the
        function is called with its values in this order, and with the group last if it takes one.
    groups: disjoint lists of ranks; each becomes a process group, and the function is called with its rank's group
        (ranks in none are bystanders). None: all ranks, with the default group.
    late_s: how late each rank is given its inputs, of which it is told nothing; whoever relies on luck for a message to be
        there in time then finds it missing.
    """

    name: str
    inputs: tuple[dict[str, Any], ...]
    groups: tuple[tuple[int, ...], ...] | None = None
    late_s: tuple[float, ...] = ()

    @property
    def weighed(self) -> bool:
        """Whether it is so large that memory shows from outside the ranks, which stand still to be weighed; of its results
        only every THINNED-th number is compared."""
        return bool(self.inputs[0].get(WEIGHED))

    @property
    def sealed(self) -> bool:
        """Whether no rank knows the weights of others."""
        return SEALED in self.inputs[0]

    @property
    def shows_slips(self) -> bool:
        """Whether results tell one mistake from another: not thinned ones, nor those of weights that a mistake unmakes."""
        return not self.weighed and not self.sealed

    @property
    def world_size(self) -> int:
        return len(self.inputs)

    def members(self, rank: int) -> tuple[int, ...]:
        """The ranks of the group that `rank` works in; empty for a bystander."""
        if self.groups is None:
            return tuple(range(self.world_size))
        return next((group for group in self.groups if rank in group), ())

    def peers_inputs(self, rank: int, parameter: str) -> list[Any]:
        """What each member of `rank`'s group received for one parameter, in group order."""
        return [self.inputs[member][parameter] for member in self.members(rank)]

    def group_rank(self, rank: int) -> int:
        return self.members(rank).index(rank)

    def group_size(self, rank: int) -> int:
        """How many ranks work together with `rank`."""
        return len(self.members(rank))
