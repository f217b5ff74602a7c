"""Marks whether code asks a tensor for its numbers: the tensors of a simulation have none."""

from types import TracebackType

import torch
from torch.overrides import TorchFunctionMode

from utils.trace.spans import mark

NUMBERS = "numbers asked for"
ASKING = {torch.Tensor.item: "item()", torch.Tensor.tolist: "tolist()", torch.Tensor.numpy: "numpy()",
          torch.Tensor.__bool__: "if, while or bool()", torch.Tensor.__float__: "float()", torch.Tensor.__int__: "int()",
          torch.Tensor.__index__: "an index", torch.equal: "torch.equal", torch.allclose: "torch.allclose"}


class NumbersWatched(TorchFunctionMode):
    """While entered, notes what asks for numbers; on leaving marks by what they were asked for."""

    def __init__(self):
        super().__init__()
        self._by: set[str] = set()

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func in ASKING:
            self._by.add(ASKING[func])
        return func(*args, **(kwargs or {}))

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None):
        super().__exit__(kind, error, traceback)
        mark(NUMBERS, by=sorted(self._by))
