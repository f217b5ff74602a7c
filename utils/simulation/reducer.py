"""DistributedDataParallel's reducer, in Python: torch's own, in C++, looks at the memory of tensors, and these have none.

It makes the calls that torch 2.13's makes (torch/csrc/distributed/c10d/reducer.cpp): one all-reduce a bucket, in the
buckets' order, as soon as the last gradient of a bucket is there; after the first backward pass the buckets are made anew,
in the order in which gradients came. B: elements of a bucket.
"""

import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch._C import _distributed_c10d as c10d
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

from utils.simulation.refusals import NeedsNumbers, NotSimulated

NOT_FINISHED = ("Expected to have finished reduction in the prior iteration before starting a new one: parameters {} have "
                "had no gradient. Pass find_unused_parameters=True to DistributedDataParallel, or use all that forward() "
                "returns in the loss.")
TWICE = "Expected to mark a variable ready only once: parameter {} had a gradient twice in one backward pass."
CHANGED = "With static_graph=True the graph must stay as it is, and parameter {} was used more often in this iteration."


class GradBucket:
    """What a communication hook is given. buffer_B: all its gradients, one after the other."""

    def __init__(self, index: int, parameters: list[Tensor], is_last: bool, buffer_B: Tensor):
        self._index, self._parameters, self._is_last, self._buffer_B = index, parameters, is_last, buffer_B
        sizes = [p.numel() for p in parameters]
        self.views = [part.view(p.shape) for part, p in zip(buffer_B.split(sizes), parameters, strict=True)]

    def index(self) -> int:
        return self._index

    def buffer(self) -> Tensor:
        return self._buffer_B

    def gradients(self) -> list[Tensor]:
        return self.views

    def parameters(self) -> list[Tensor]:
        return self._parameters

    def is_last(self) -> bool:
        return self._is_last

    def set_buffer(self, buffer_B: Tensor) -> None:
        self._buffer_B = buffer_B


class Bucket:
    """The parameters with these numbers, and how many of their gradients are still to come."""

    def __init__(self, index: int, numbers: Sequence[int], parameters: Sequence[Tensor], is_last: bool):
        members = [parameters[number] for number in numbers]
        self.numbers, self.pending, self.future = list(numbers), len(numbers), None
        buffer_B = torch.empty(sum(p.numel() for p in members), dtype=members[0].dtype, device=members[0].device)
        self.gradients = GradBucket(index, members, is_last, buffer_B)
        self.view_of = dict(zip(self.numbers, self.gradients.views, strict=True))


class Reducer:
    """As torch.distributed.Reducer: DistributedDataParallel calls the methods, of those that it has."""

    def __init__(self, params, bucket_indices, per_bucket_size_limits, process_group, expect_sparse_gradients=(),
                 bucket_bytes_cap=0, find_unused_parameters=False, gradient_as_bucket_view=False, param_to_name_mapping=None,
                 first_bucket_bytes_cap=0, skip_all_reduce_unused_params=False, use_python_reducer=False,
                 bucket_size_limits_for_rebuilding=(), batched_grad_copy=False):
        if any(expect_sparse_gradients):
            raise NotSimulated("DistributedDataParallel's sparse gradients")
        self._parameters, self._group, self._hook = list(params), process_group, None
        self._finds_unused, self._as_view, self._is_static = find_unused_parameters, gradient_as_bucket_view, False
        self._limits = [*bucket_size_limits_for_rebuilding] or [first_bucket_bytes_cap, bucket_bytes_cap]
        self._order: list[int] = []  # in which gradients came, until the buckets are made anew
        self._has_rebuilt = self._expects_gradients = self._is_under_way = False
        self._backward_passes = self._next = 0
        self._unused: list[int] = []
        self._used_N = torch.zeros(len(self._parameters), dtype=torch.int32)
        self._uses, self._uses_left = [0] * len(self._parameters), []
        self._used_work: Any = None
        self._joining: dist.Work | None = None  # which tells how many ranks still have batches
        self._ready: set[int] = set()
        self._make_buckets(bucket_indices)
        self._handles = [p.register_post_accumulate_grad_hook(self._on_gradient(number))
                         for number, p in enumerate(self._parameters)]

    def _make_buckets(self, numbers: Sequence[Sequence[int]]) -> None:
        self._buckets = [Bucket(index, of_bucket, self._parameters, index == len(numbers) - 1)
                         for index, of_bucket in enumerate(numbers)]
        self._bucket_of = {number: bucket for bucket in self._buckets for number in bucket.numbers}

    # ── what DistributedDataParallel asks for ──

    def prepare_for_forward(self) -> None:
        """Nothing is kept of the last pass."""

    def prepare_for_backward(self, outputs: Sequence[Tensor]) -> None:
        self._backward_passes += 1
        self._expects_gradients, self._next = True, 0
        self._ready.clear()
        self._uses_left = list(self._uses)
        for bucket in self._buckets:
            bucket.pending = len(bucket.numbers)
        if self._finds_unused and not self._is_static:
            reached = {id(p) for p in _parameters_behind(outputs)}
            self._unused = [number for number, p in enumerate(self._parameters) if id(p) not in reached]
        elif not self._is_static:
            self._unused = []
        self._to_mark = list(self._unused)

    def _rebuild_buckets(self) -> bool:
        """Once, before the forward pass after the first backward pass.  Raises: RuntimeError if that has not ended."""
        if self._is_under_way:
            missing = sorted({*range(len(self._parameters))} - self._ready)
            raise RuntimeError(NOT_FINISHED.format(", ".join(map(str, missing))))
        if not self._is_to_rebuild() or not self._order:
            return False
        came = [self._parameters[number] for number in self._order]
        buckets, _ = dist._compute_bucket_assignment_by_size(came, self._limits, [False] * len(came), self._order)
        self._make_buckets(self._as_on_the_first_rank(buckets))
        self._order, self._has_rebuilt = [], True
        return True

    def _as_on_the_first_rank(self, buckets: list[list[int]]) -> list[list[int]]:
        numbers = torch.tensor([*(number for bucket in buckets for number in bucket), len(buckets)], dtype=torch.int32)
        self._group.broadcast(numbers).wait()
        sizes = torch.tensor([len(bucket) for bucket in buckets], dtype=torch.int32)
        self._group.broadcast(sizes).wait()
        if numbers.constant is None or sizes.constant is None:  # not told yet
            return buckets
        rest = iter(numbers.tolist())
        return [[next(rest) for _ in range(size)] for size in sizes.tolist()]

    def _push_all_rebuilt_params(self) -> None:
        if self._is_to_rebuild():
            self._order = list(range(len(self._parameters)))

    def _is_to_rebuild(self) -> bool:
        return (self._is_static or not self._finds_unused) and not self._has_rebuilt

    def _set_static_graph(self) -> None:
        self._is_static = True

    def _get_zeros_like_grad_buckets(self) -> list[GradBucket]:
        return [GradBucket(each.index(), each.parameters(), each.is_last(), torch.zeros_like(each.buffer()))
                for each in (bucket.gradients for bucket in self._buckets)]

    def _get_local_used_map(self) -> list[Tensor]:
        return [self._used_N]

    def _run_comm_hook(self, gradients: GradBucket) -> torch.futures.Future:
        if self._hook is not None:
            return self._hook(gradients)
        return _Reduced(self._group.allreduce([gradients.buffer()]), gradients.buffer())

    def _set_forward_pass_work_handle(self, work: dist.Work, use_static_world_size: bool) -> None:
        self._joining = None if use_static_world_size else work

    def _check_reducer_finalized(self) -> None:
        if self._is_under_way:
            self._rebuild_buckets()

    def _remove_autograd_hooks(self) -> None:
        for handle in self._handles:
            handle.remove()

    def _reset_state(self) -> None:
        self._expects_gradients = self._is_under_way = False

    def _update_process_group(self, group: dist.ProcessGroup) -> None:
        self._group = group

    def set_logger(self, logger: Any) -> None:
        """Nothing is logged."""

    def _set_ddp_runtime_logging_sample_rate(self, rate: int) -> None:
        """Nothing is logged."""

    def __getattr__(self, name: str) -> Any:
        raise NotSimulated(f"{name} of DistributedDataParallel's reducer")

    # ── the backward pass ──

    def _on_gradient(self, number: int) -> Callable[[Tensor], None]:
        """A reducer that is gone reduces nothing: the hooks do not hold it."""
        reference = weakref.ref(self)

        def hook(_: Tensor) -> None:
            if (reducer := reference()) is not None:
                reducer._gradient_came(number)

        return hook

    def _gradient_came(self, number: int) -> None:
        if self._finds_unused or self._is_first_of_static():
            self._used_N[number] = 1
        if self._is_first_of_static():
            self._uses[number] += 1
            return
        if not self._expects_gradients:  # within no_sync()
            return
        to_mark, self._to_mark = self._to_mark, []
        for unused in to_mark:
            self._mark(unused)
        if self._is_static:
            self._uses_left[number] -= 1
            if self._uses_left[number] < 0:
                raise RuntimeError(CHANGED.format(number))
            if self._uses_left[number] > 0:
                return
        self._mark(number)

    def _is_first_of_static(self) -> bool:
        return self._is_static and self._backward_passes == 1

    def _mark(self, number: int) -> None:
        """This parameter's gradient is there, or will not come."""
        if number in self._ready:
            raise RuntimeError(TWICE.format(number))
        self._ready.add(number)
        self._is_under_way = True
        if self._is_to_rebuild():
            self._order.append(number)
        self._into_bucket(number)
        bucket = self._bucket_of[number]
        bucket.pending -= 1
        while self._next < len(self._buckets) and self._buckets[self._next].pending == 0:
            self._reduce(self._buckets[self._next])
            self._next += 1
        if self._next == len(self._buckets):
            if self._finds_unused and not self._is_static:
                self._reduce_used()
            torch.autograd.Variable._execution_engine.queue_callback(self._finish)

    def _into_bucket(self, number: int) -> None:
        if self._joining is not None:
            self._joining.wait()
            self._joining = None
        view, grad = self._bucket_of[number].view_of[number], self._parameters[number].grad
        share = 1 / self._group.size()
        with torch.no_grad():
            if grad is None:
                view.zero_()
            elif grad is view:
                view.mul_(share) if self._hook is None else None
            elif self._hook is None:
                torch.mul(grad, share, out=view)
            else:  # which divides, if it wants
                view.copy_(grad)
            if grad is not None and self._as_view:
                self._parameters[number].grad = view

    def _reduce(self, bucket: Bucket) -> None:
        bucket.future = self._run_comm_hook(bucket.gradients)

    def _reduce_used(self) -> None:
        self._used_work = self._group.allreduce([self._used_N])

    def _delay_all_reduce(self) -> None:
        """The first backward pass of a static graph: all calls come at its end."""
        self._reduce_used()
        self._unused = [number for number, times in enumerate(self._uses) if times == 0]
        for number in range(len(self._parameters)):
            self._into_bucket(number)
        for bucket in self._buckets:
            self._reduce(bucket)
        self._finish()

    def _finish(self) -> None:
        self._expects_gradients = self._is_under_way = False
        for bucket in self._buckets:
            self._out_of_bucket(bucket, _first(bucket.future.wait()))
        if self._used_work is not None:
            self._wait_for_used()
            self._used_N = torch.zeros_like(self._used_N)

    def _out_of_bucket(self, bucket: Bucket, result_B: Tensor) -> None:
        with torch.no_grad():
            if result_B is not bucket.gradients.buffer():
                bucket.gradients.buffer().copy_(result_B)
            for number in bucket.numbers:
                p, view = self._parameters[number], bucket.view_of[number]
                if self._as_view:
                    p.grad = view if p.grad is not None or self._is_used(number) else None
                elif p.grad is not None:
                    p.grad.copy_(view)
                elif self._is_used(number):
                    p.grad = view.clone()

    def _is_used(self, number: int) -> bool:
        """By any rank.  Raises: NeedsNumbers where others have not told yet."""
        if self._used_work is None:
            return not (self._finds_unused or self._is_static)
        self._wait_for_used()
        if self._used_N.constant is None:
            raise NeedsNumbers("which parameters other ranks use is not known")
        return bool(self._used_N[number].item())

    def _wait_for_used(self) -> None:
        if self._used_work is not None:
            self._used_work.wait()


class _Reduced:
    """The future of an all-reduce in place: who waits for it waits for its Work."""

    def __init__(self, work: dist.Work, buffer_B: Tensor):
        self._work, self._buffer_B = work, buffer_B

    def wait(self) -> Tensor:
        self._work.wait()
        return self._buffer_B


class Logger:
    """As torch.distributed.Logger, which nobody reads here."""

    def __init__(self, reducer: Reducer):
        pass

    def __getattr__(self, name: str) -> Any:
        return lambda *_: None


def put_in_place() -> None:
    """For the rest of this process's life DistributedDataParallel takes these instead of torch's."""
    for name, ours in (("Reducer", Reducer), ("Logger", Logger), ("_verify_params_across_processes", verify_parameters),
                       ("_register_comm_hook", register_hook), ("_register_builtin_comm_hook", register_builtin_hook)):
        setattr(dist, name, ours)


def verify_parameters(group: dist.ProcessGroup, parameters: Sequence[Tensor], logger: Any = None) -> None:
    """The calls by which ranks compare how many parameters they have, and their shapes and strides."""
    n_parameters = torch.tensor([len(parameters)])
    group.allgather([[torch.zeros_like(n_parameters) for _ in range(group.size())]], [n_parameters]).wait()
    layout = torch.tensor([n for p in parameters for sizes in (p.shape, p.stride()) for n in sizes])
    group.broadcast(layout).wait()


def register_hook(reducer: Reducer, state: Any, hook: Callable) -> None:
    reducer._hook = lambda gradients: hook(state, gradients)


def register_builtin_hook(reducer: Reducer, kind: Any) -> None:
    hooks = {c10d.BuiltinCommHookType.ALLREDUCE: default_hooks.allreduce_hook,
             c10d.BuiltinCommHookType.FP16_COMPRESS: default_hooks.fp16_compress_hook}
    register_hook(reducer, reducer._group, hooks[kind])


def _parameters_behind(outputs: Sequence[Tensor]) -> Iterator[Tensor]:
    """Those from which these were computed."""
    nodes, seen = [output.grad_fn for output in outputs if output.grad_fn is not None], set()
    while nodes:
        node = nodes.pop()
        if node in seen:
            continue
        seen.add(node)
        if (variable := getattr(node, "variable", None)) is not None:
            yield variable
        nodes += [after for after, _ in node.next_functions if after is not None]


def _first(value: Any) -> Tensor:
    """Of what a hook's future holds: a tensor, or a list of one."""
    return value[0] if isinstance(value, (list, tuple)) else value
