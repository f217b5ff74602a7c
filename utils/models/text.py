"""Real text that every machine has: the source files of Python's own standard library, as bytes."""

import functools
from pathlib import Path

import torch
from torch import Tensor

FILES = ("argparse", "ast", "bisect", "calendar", "copy", "csv", "dataclasses", "datetime", "decimal", "difflib", "enum",
         "fractions", "functools", "heapq", "inspect", "pathlib", "pickle", "random", "shutil", "statistics", "string",
         "subprocess", "textwrap", "threading", "tokenize", "traceback", "types", "typing", "uuid", "zipfile")


@functools.cache
def text() -> Tensor:
    """Some hundred thousand bytes, one after another (uint8). A module that this Python does not have is left out."""
    library = Path(functools.__file__).parent
    parts = [(library / f"{name}.py").read_bytes() for name in FILES if (library / f"{name}.py").is_file()]
    return torch.frombuffer(bytearray(b"\n".join(parts)), dtype=torch.uint8)


def text_batch(step: int, batch_size: int, length: int) -> Tensor:
    """`batch_size` pieces of `length` + 1 bytes, the same for every caller who names this step.

    Shapes: (B, T+1), int64. The first T bytes go in; shifted by one they are what should come out.
    """
    generator = torch.Generator().manual_seed(step)
    bytes_ = text()
    starts_B = torch.randint(len(bytes_) - length, (batch_size, 1), generator=generator)
    return bytes_[starts_B + torch.arange(length + 1)].long()
