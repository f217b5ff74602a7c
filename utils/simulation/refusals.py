"""What a simulation refuses, in words: numbers that it does not have, and operators that it does not record."""

from collections.abc import Iterator
from typing import Any

from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException

NEEDS_NUMBERS = ("this needs a tensor's numbers, and in a simulation tensors have shapes only. Return the tensor itself "
                 "instead of its numbers, give the value as a plain number, or put a stand-in where the program needs it")
NEEDS_A_NUMBER = ("this needs to know a number that was computed from tensors, and in a simulation these have shapes only. "
                  "It may be printed, added up and returned, but nothing may depend on it: give a plain number instead")
NEEDS_SENDER = ("this needs to know which rank a message came from, and a simulated recv() without src= cannot tell. "
                "Name the sender (src=), or do not use what recv() returns")
NEEDS_ITEM = ("float() of a tensor gives a plain number, and in a simulation tensors have shapes only. Write .item(): what "
              "that gives may be printed, added up and returned")
NEEDS_WORKERS = ("this loads a DataPipe in workers, which a simulation does not have. Give the DataLoader num_workers=0 "
                 "where the program is simulated")
NEEDS_ARRAY = ("this writes to a tensor that has the memory of a NumPy array (torch.from_numpy, torch.as_tensor), and in a "
               "simulation the array would keep its old numbers. Copy it: torch.tensor(array)")
NEEDS_DENSE = ("this makes a sparse tensor, whose bytes depend on how many elements are not zero, and in a simulation "
               "tensors have shapes only. Make a dense one (sparse=False, or none of torch.sparse)")
NEEDS_STORE = ("this reads or writes the store through which ranks meet, and simulated ranks meet through none. Send the "
               "value by a collective (dist.broadcast_object_list, dist.all_gather_object)")
WRITES_NUMBERS = ("this writes a tensor's numbers, to a file or for another process, and in a simulation tensors have "
                  "shapes only. Leave checkpoints out where the program is simulated, or send the tensor itself")


refused: list[BaseException] = []  # in the program that is being recorded, also where it caught them


class NeedsNumbers(RuntimeError):
    """A program looks at what a simulation does not have."""

    def __init__(self, *args: str):
        super().__init__(*args)
        refused.append(self)


class NotSimulated(NotImplementedError):
    """A program calls something of torch's that may send something, and that no simulation records."""

    def __init__(self, what: Any):
        super().__init__(f"simulate_ranks does not know {what}, which may send something, so it does not go on. "
                         "Call a function of torch.distributed there (dist.all_reduce, dist.all_gather_into_tensor, …)")


def refusal_in(error: BaseException) -> NeedsNumbers | NotSimulated | None:
    """The refusal because of which a program ended, if it was that, also where a library made another error of it."""
    for part in _parts_of(error, set()):
        if isinstance(part, (NeedsNumbers, NotSimulated)):
            return part
        if isinstance(part, (DataDependentOutputException, DynamicOutputShapeException)):
            return NeedsNumbers(NEEDS_NUMBERS)
        if "UnknownNumber" in str(part):
            return NeedsNumbers(NEEDS_A_NUMBER)
    return None


def _parts_of(error: Any, seen: set[int]) -> Iterator[BaseException]:
    """The error, its causes, and the parts of a group, or of a checkpoint's error, which keeps them by rank."""
    if not isinstance(error, BaseException) or id(error) in seen:
        return
    seen.add(id(error))
    yield error
    failures = getattr(error, "failures", None)
    by_rank = [failure[0] for failure in failures.values()] if isinstance(failures, dict) else []
    for part in (error.__cause__, error.__context__, *getattr(error, "exceptions", ()), *by_rank):
        yield from _parts_of(part, seen)
