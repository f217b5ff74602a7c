"""Text to train on: what the lessons said when this file was made, one byte after another, the same for every reader.

lessons.txt is no part of the lessons, and does not follow them: another text would change losses that somebody has noted.
"""

import functools
from pathlib import Path

import torch
from torch import Tensor

LESSONS = Path(__file__).with_name("lessons.txt")


@functools.cache
def text() -> Tensor:
    """Some three hundred thousand bytes (uint8)."""
    return torch.frombuffer(bytearray(LESSONS.read_bytes()), dtype=torch.uint8)


def text_batch(step: int, batch_size: int, length: int) -> Tensor:
    """`batch_size` pieces of `length` + 1 bytes, the same for every caller who names this step, on the default device.

    Shapes: (B, T+1), int64. The first T bytes go in; shifted by one they are what should come out.
    """
    generator = torch.Generator().manual_seed(step)
    with torch.device("cpu"):  # a GPU would draw other places
        bytes_ = text()
        starts_B = torch.randint(len(bytes_) - length, (batch_size, 1), generator=generator)
        pieces_BT = bytes_[starts_B + torch.arange(length + 1)].long()
    return pieces_BT.to(torch.get_default_device())
