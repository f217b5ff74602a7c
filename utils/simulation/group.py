"""The process group of a simulated rank: calls are recorded, and nothing travels but numbers that are known."""

from typing import Any

import torch
import torch.distributed as dist
from torch.utils._python_dispatch import _disable_current_modes

from utils.simulation.exchange import Exchange, carries_numbers, numbers_sent, put_numbers
from utils.simulation.numbers import UnknownRank
from utils.simulation.shapes import ShapesOnly
from utils.trace.memory import METER, tensors_in
from utils.trace.traced_group import METHODS, TracedGroup

IN_VAIN = 1000  # a loop that asks until it has come is not to go on for ever


class SimulatedWork(dist.Work):
    """Of a call that is not seen to end before it is waited for, or has been asked for in vain for a long time."""

    def __init__(self, tensors: list[torch.Tensor]):
        super().__init__()
        self._tensors, self._asked = tensors, 0

    def wait(self, timeout: Any = None) -> bool:
        return True

    def synchronize(self) -> None:
        """Nothing is on its way."""

    def is_completed(self) -> bool:
        self._asked += 1
        return self._asked > IN_VAIN

    def get_future(self) -> torch.futures.Future:
        future = torch.futures.Future()
        future.set_result(self._tensors)
        return future

    def result(self) -> list[torch.Tensor]:
        return self._tensors

    def _source_rank(self) -> UnknownRank:
        return UnknownRank()


class SimulatedGroup(TracedGroup):
    """One of the rank that is being recorded. exchange, shapes: that rank's."""

    exchange: Exchange
    shapes: ShapesOnly

    def _check(self, method: str, args: tuple) -> None:
        """Raises: ValueError where one tensor for all ranks is not n times as large as each rank's, as every backend."""
        if method in ("all_gather_single", "reduce_scatter_single"):
            whole, part = args[:2] if method == "all_gather_single" else args[1::-1]
            if whole.numel() != self.size() * part.numel():
                raise ValueError(f"{method.removesuffix('_single')} among {self.size()} ranks: the tensor for all of them "
                                 f"must have {self.size()} × {part.numel()} elements, {self.size()} times what each rank "
                                 f"has; it has {whole.numel()}")

    def _begin(self, method: str, args: tuple) -> SimulatedWork:
        tensors = tensors_in(args)
        if (meter := METER.get()) is not None:  # in a thread of the program's own there is none
            meter.see(tensors)
        operator, arguments = METHODS[method].operator, METHODS[method].named(args)
        key = self.exchange.key_of(operator, self, arguments)
        if carries_numbers(operator, arguments):
            with _disable_current_modes():
                sent = numbers_sent(operator, arguments, self.rank())
                received = self.exchange.received(key, operator, self, arguments, sent)
                put_numbers(operator, arguments, received, self.shapes)
        else:
            put_numbers(operator, arguments, None, self.shapes)
        return SimulatedWork(tensors)
