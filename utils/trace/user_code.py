"""Whose code a frame runs: the reader's own, a library's, or ours."""

import functools
import sysconfig
from pathlib import Path

import torch

_SITE = tuple({sysconfig.get_path("purelib"), sysconfig.get_path("platlib")})
_OURS = str(Path(__file__).resolve().parents[1])
_LIBRARY_FOLDERS = (str(Path(torch.__file__).parent), sysconfig.get_path("stdlib"), *_SITE, _OURS, "<frozen", "<string>")

Where = tuple[str, int, str]  # file, line, function


@functools.cache
def is_user_file(filename: str, machinery: tuple[str, ...] = ()) -> bool:
    """True for code that the caller wrote: not torch, not the standard library, not utils, not in folders of `machinery`."""
    return not filename.startswith(_LIBRARY_FOLDERS + machinery)


def user_line(frame, machinery: tuple[str, ...] = ()) -> Where | None:
    """The innermost line of user code, or None."""
    while frame is not None:
        if is_user_file(frame.f_code.co_filename, machinery):
            return _where(frame)
        frame = frame.f_back
    return None


def library_line(frame) -> Where | None:
    """The outermost line of an installed library, which tells what a thread without user code is for; or None."""
    found = None
    while frame is not None:
        if frame.f_code.co_filename.startswith(_SITE):
            found = frame
        frame = frame.f_back
    return found and _where(found)


def is_called_directly(frame) -> bool:
    """Whether user code called a function of torch.distributed itself, rather than DDP, FSDP or another engine."""
    while frame is not None and frame.f_code.co_filename.startswith(_FROM_DIST_TO_US):
        frame = frame.f_back
    return frame is not None and is_user_file(frame.f_code.co_filename)


def is_blocking_message(frame) -> bool:
    """Whether it was begun by send or recv, and not by isend or irecv: to a group all four are the same."""
    while frame is not None and frame.f_code.co_filename.startswith(_FROM_DIST_TO_US):
        if frame.f_code in BLOCKING:
            return True
        frame = frame.f_back
    return False


BLOCKING = {function.__wrapped__.__code__ for function in (torch.distributed.send, torch.distributed.recv)}
_FROM_DIST_TO_US = (_OURS, *(f"{Path(torch.__file__).parent}/distributed/{name}.py"
                             for name in ("distributed_c10d", "c10d_logger")))


def _where(frame) -> Where:
    return frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name
