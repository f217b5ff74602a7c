"""What a program does with the futures of calls."""

import weakref

import torch

from utils.trace.recorder import Recorder


def watch_futures(recorder: Recorder) -> None:
    """To wait for the future of a Work, or for one that begins where it ends, is to wait for its call.

    For the rest of this process's life. (C++ waits for futures where nobody sees it.)
    """
    future = torch._C.Future
    then, wait, collect = future.then, future.wait, torch.futures.collect_all
    parts: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()  # a future of many -> these

    def together(futures):
        made = collect(futures)
        parts[made] = list(futures)
        return made

    def followed_by(first, callback):
        made, call = then(first, callback), recorder.futures.get(first)
        if call is not None:
            call.tensors = []  # the callback may change them
            recorder.futures[made] = call
        return made

    def watched(awaited):
        for part in parts.get(awaited, ()):
            watched(part)
        with recorder.waiting(recorder.futures.get(awaited)):
            return wait(awaited)

    future.then = followed_by
    future.wait = watched
    torch.futures.collect_all = together
    torch.futures.wait_all = lambda futures: [one.wait() for one in futures]  # torch's own waits where nobody sees it
