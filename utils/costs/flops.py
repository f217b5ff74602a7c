"""How many floating-point operations the matrix products of a stretch of code take, as torch counts them."""

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry


class FlopCounter(TorchDispatchMode):
    """Counts, while entered, 2·rows·inner·columns for each matrix product on this thread; its backward pass too.

    largest: how many numbers the largest result of an operation has. A matrix product that is made of an elementwise product
    and a sum shows there. (An expanded view has only the numbers that it shows over and over.)

    torch's FlopCounterMode with the same formulas also follows which module is at work, and for that hangs hooks on the
    graph; a module that runs without one, as in recomputation, makes it fail.
    """

    def __init__(self):
        super().__init__()
        self.total = self.largest = 0

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Nothing is compiled here: torch need not guard every operation against its compiler, nor import it."""
        return False

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        formula = flop_registry.get(func._overloadpacket)
        if formula is not None:
            self.total += formula(*args, **(kwargs or {}), out_val=result)
        if isinstance(result, torch.Tensor) and not func.is_view:
            self.largest = max(self.largest, result.numel())
        return result
