"""A right layer and a right wrapper in parts, which the mutants of unit 05 replace one by one."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

from utils.models.layers import cast_floats, layers_of, tensors_in


class Layer:
    def __init__(self, parameters, group=None, compute_dtype=None):
        self.parameters, self.group = list(parameters), group
        self.n, self.r = dist.get_world_size(group), dist.get_rank(group)
        self.shapes, self.dtype = [p.shape for p in parameters], compute_dtype or parameters[0].dtype
        flat = torch.cat([p.detach().flatten() for p in parameters])
        self.shard = F.pad(flat, (0, -len(flat) % self.n)).chunk(self.n)[self.r].clone()
        self.row = self.shard.new_empty(self.n * len(self.shard), dtype=self.dtype)
        self.whole, self.work, self.reducing = True, None, None
        self.kept = [None] * len(self.parameters)
        self.free()

    def cut(self, row, first=0):
        start, found = -first, []
        for shape in self.shapes:
            found.append(row[max(0, start):max(0, start + shape.numel())])
            start += shape.numel()
        return found

    def own(self, shard):
        return self.cut(shard, self.r * len(shard))

    def start_gather(self):
        if not self.whole and self.work is None:
            self.row.untyped_storage().resize_(self.row.nbytes)
            self.work = self.send_gather()

    def send_gather(self):
        return dist.all_gather_single(self.row, self.shard.to(self.dtype), group=self.group, async_op=True)

    def gather(self):
        self.start_gather()
        if self.work is not None:
            self.work.wait()
            self.work, self.whole = None, True
            self.put_in_place()

    def put_in_place(self):
        self.kept = [p.grad for p in self.parameters]
        for p, piece, shape in zip(self.parameters, self.cut(self.row), self.shapes, strict=True):
            p.grad, p.data = None, piece.view(shape)

    def free(self):
        if self.work is not None:
            self.gather()
        if self.whole:
            self.put_away()
            self.empty()
            self.whole = False

    def put_away(self):
        for p, piece, gradient in zip(self.parameters, self.own(self.shard), self.kept, strict=True):
            p.grad, p.data = None, piece
            p.grad = gradient

    def empty(self):
        self.row.untyped_storage().resize_(0)

    def reduce(self):
        flat = torch.zeros_like(self.row)
        has = [p.grad is not None for p in self.parameters]
        for p, piece in zip(self.parameters, self.cut(flat), strict=True):
            if p.grad is not None:
                piece.copy_(p.grad.flatten())
        if any(has):
            self.reducing = (*self.send_reduce(flat), has)
        self.free()

    def send_reduce(self, flat):
        mean = flat.new_empty(len(self.shard))
        return dist.reduce_scatter_single(mean, flat, group=self.group, async_op=True), mean

    def finish(self):
        if self.reducing is not None:
            work, mean, has = self.reducing
            work.wait()
            self.reducing = None
            for p, piece, one in zip(self.parameters, self.own(self.scaled(mean.to(self.shard.dtype))), has, strict=True):
                if one:
                    self.add(p, piece)

    def scaled(self, total):
        return total / self.n

    def add(self, p, piece):
        p.grad = piece if p.grad is None else p.grad + piece


class WithoutFullParameters(nn.Module):
    layer_class = Layer

    def __init__(self, module, compute_dtype=None, group=None, reshard_after_forward=True):
        super().__init__()
        self.module, self.dtype, self.group, self.reshard = module, compute_dtype, group, reshard_after_forward
        self.begin()
        self.names = {p: name for name, p in module.named_parameters()}
        self.layers, self.missing, self.reducing = [], {}, None
        for part, parameters in layers_of(module):
            self.add(part, self.layer_class(parameters, group, compute_dtype))

    def begin(self):
        for tensor in (*self.module.parameters(), *self.module.buffers()):
            dist.broadcast(tensor.data, group=self.group, group_src=0)

    def add(self, part, layer):
        self.layers.append(layer)
        part.register_forward_pre_hook(lambda part, args, kwargs: self.before(layer, args, kwargs), with_kwargs=True)
        part.register_forward_hook(lambda part, args, output: self.after(layer, output))
        for p in self.hooked(layer):
            p.register_post_accumulate_grad_hook(lambda p: self.arrived(layer, p))

    def hooked(self, layer):
        return [p for p in layer.parameters if p.requires_grad]

    def before(self, layer, args, kwargs):
        layer.gather()
        self.missing[layer] = set(layer.parameters)
        return self.cast((args, kwargs))

    def cast(self, arguments):
        return cast_floats(arguments, self.dtype)

    def after(self, layer, output):
        trained = [t for t in tensors_in(output) if t.requires_grad]
        for t in trained:
            self.hook_backward(t, layer)
        if self.reshard or not trained:
            self.after_forward(layer)

    def hook_backward(self, tensor, layer):
        tensor.register_hook(lambda _: layer.gather())

    def after_forward(self, layer):
        layer.free()

    def arrived(self, layer, p):
        self.missing[layer].discard(p)
        if not self.missing[layer]:
            self.reduce(layer)

    def reduce(self, layer):
        layer.reduce()
        if self.reducing is not None:
            self.reducing.finish()
        self.reducing = layer

    def forward(self, *args, **kwargs):
        return self.module(*args, **kwargs)

    def finish_gradient_synchronization(self):
        for layer in self.layers:
            if layer.whole:
                layer.reduce()
            layer.free()
            layer.finish()
        self.reducing = None


class Wrapper(WithoutFullParameters):
    def full_parameters(self):
        found = {}
        for layer in self.layers:
            row = layer.shard.new_empty(layer.n * len(layer.shard))
            dist.all_gather_single(row, layer.shard, group=layer.group)
            for p, piece, shape in zip(layer.parameters, layer.cut(row), layer.shapes, strict=True):
                found[self.names[p]] = piece.view(shape).clone()
        return found
