"""The solutions' ZeRO-1 and ZeRO-2 wrappers as real training uses them, against torch's own optimizers in one process."""

import copy
from collections import deque

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.optim import lr_scheduler

from grader.calling.zoo import build, loss_rows
from grader.checks import verdict_on
from grader.exercises import EXERCISES
from grader.exercises.references import functions_of
from utils import RankFailed, run_ranks
from utils.costs.replicas import require_equal
from utils.trace.memory import held_by_category

ShardedOptimizer, DropInShardedOptimizer = map(functions_of("solutions", "03_zero1").get,
                                              ("ShardedOptimizer", "DropInShardedOptimizer"))
GradientBuckets, Zero2 = map(functions_of("solutions", "04_zero2").get, ("GradientBuckets", "Zero2"))
AdamW, SGD = torch.optim.AdamW, torch.optim.SGD
STEPS = 4


class Trainer(Zero2):
    """On buckets of one gradient each, which step() waits for."""

    def __init__(self, model, optimizer_class, **options):
        super().__init__(model, GradientBuckets(model, 1, 2, dist.group.WORLD), optimizer_class, **options)

    def step(self):
        self.buckets.finish()
        super().step()


def rows_of(step, rank):
    """Some rows for a model of the zoo: (x, y)."""
    generator = torch.Generator().manual_seed(100 * step + rank)
    return tuple(torch.randn(2, size, generator=generator, dtype=torch.float64) for size in (5, 3))


def backward(model, step, n_ranks, rank=None):
    """The mean gradient of all ranks' rows, or that of one rank's."""
    for one in range(n_ranks) if rank is None else [rank]:
        x, y = rows_of(step, one)
        loss = loss_rows(model(x), y).mean()
        (loss / n_ranks if rank is None else loss).backward()


def plain(make, n_ranks, name="mlp", scheduler=None, steps=STEPS):
    """Parameters after some steps of one process."""
    model = build(name, 0)
    optimizer = make(model)
    schedule = scheduler(optimizer) if scheduler else None
    for step in range(steps):
        optimizer.zero_grad()
        backward(model, step, n_ranks)
        optimizer.step()
        if schedule:
            schedule.step()
    return [p.detach() for p in model.parameters()]


def assert_same(run, expected):
    for found in run.results:
        for one, other in zip(found, expected, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)


def first_error(fn, n_ranks=2):
    with pytest.raises(RankFailed) as caught:
        run_ranks(fn, n_ranks)
    return caught.value.failures[0]


SCHEDULERS = {
    "OneCycleLR": lambda optimizer: lr_scheduler.OneCycleLR(optimizer, max_lr=0.1, total_steps=STEPS + 1),  # betas too
    "ReduceLROnPlateau": lambda optimizer: _Plateau(optimizer),
    "two in a row": lambda optimizer: lr_scheduler.SequentialLR(optimizer, [
        lr_scheduler.LinearLR(optimizer, 0.1, total_iters=2), lr_scheduler.CosineAnnealingLR(optimizer, 2)], [2]),
}


class _Plateau(lr_scheduler.ReduceLROnPlateau):
    def __init__(self, optimizer):
        super().__init__(optimizer, patience=0)

    def step(self):
        super().step(1.0)


# ── ShardedOptimizer ──


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_schedulers_take_the_sharded_optimizer(scheduler):
    schedule = SCHEDULERS[scheduler]

    def train(rank):
        model = build("mlp", 0)
        optimizer = DropInShardedOptimizer(model.parameters(), AdamW, lr=0.1)
        scheduled = schedule(optimizer)
        for step in range(STEPS):
            optimizer.zero_grad()
            backward(model, step, 3, rank)
            optimizer.step()
            scheduled.step()
        return [p.detach() for p in model.parameters()]

    assert_same(run_ranks(train, 3), plain(lambda model: AdamW(model.parameters(), lr=0.1), 3, scheduler=schedule))


@pytest.mark.parametrize("optimizer_class", [AdamW, SGD, torch.optim.Adagrad])  # Adagrad makes its state at once
def test_any_class_with_its_state_divided(optimizer_class):
    def train(rank):
        model = build("mlp", 0)
        optimizer = ShardedOptimizer(model.parameters(), optimizer_class, lr=0.01)
        for step in range(STEPS):
            optimizer.zero_grad()
            backward(model, step, 2, rank)
            optimizer.step()
        numbers = sum(value.numel() for state in optimizer.wrapped.state.values() for value in state.values()
                      if torch.is_tensor(value) and value.numel() > 1)
        return [p.detach() for p in model.parameters()], numbers

    run = run_ranks(train, 2)
    run.results[:], numbers = map(list, zip(*run.results, strict=True))
    assert_same(run, plain(lambda model: optimizer_class(model.parameters(), lr=0.01), 2))
    whole = sum(p.numel() for p in build("mlp", 0).parameters())
    of_each = max(1, round(sum(numbers) / whole)) if sum(numbers) else 0
    assert sum(numbers) <= of_each * whole and max(numbers) <= 0.7 * of_each * whole


def test_a_closure_is_called_and_its_loss_returned():
    def train(rank):
        model = build("linear", 0)
        optimizer, losses = DropInShardedOptimizer(model.parameters(), SGD, lr=0.1), []

        def closure():
            optimizer.zero_grad()
            loss = loss_rows(model(rows_of(0, rank)[0]), rows_of(0, rank)[1]).mean()
            loss.backward()
            return loss.detach()

        for _ in range(2):
            losses.append(optimizer.step(closure).item())
        return losses

    for first, second in run_ranks(train, 2).results:
        assert second < first


def test_a_rank_that_owns_nothing_takes_part():
    def train(rank):
        model = build("linear", 0)
        optimizer = DropInShardedOptimizer(model.parameters(), AdamW, lr=0.1)
        for step in range(STEPS):
            optimizer.zero_grad()
            backward(model, step, 4, rank)
            optimizer.step()
        optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))
        assert len(optimizer.wrapped.state) == (rank < 2)
        return [p.detach() for p in model.parameters()]

    assert_same(run_ranks(train, 4), plain(lambda model: AdamW(model.parameters(), lr=0.1), 4, "linear"))


@pytest.mark.parametrize("wrap", ["ShardedOptimizer", "Zero2"])
@pytest.mark.parametrize("name", ["frozen", "unused", "tied"])
def test_parameters_that_need_or_get_no_gradient(wrap, name):
    """Frozen ones may be handed over: they are left alone."""

    def train(rank):
        model = build(name, 0)
        optimizer = (ShardedOptimizer(model.parameters(), AdamW, lr=0.1) if wrap == "ShardedOptimizer" else
                     Trainer(model, AdamW, lr=0.1))
        for step in range(STEPS):
            optimizer.zero_grad()
            backward(model, step, 3, rank)
            optimizer.step()
        return [p.detach() for p in model.parameters()]

    assert_same(run_ranks(train, 3), plain(lambda model: AdamW(model.parameters(), lr=0.1), 3, name))


@pytest.mark.parametrize("wrap", ["ShardedOptimizer", "Zero2"])
def test_several_dtypes_in_one_model(wrap):
    def make():
        model = nn.Sequential(nn.Linear(5, 7).bfloat16(), nn.Linear(7, 3))
        for number, p in enumerate(model.parameters()):
            p.data = torch.linspace(-1, 1 + number, p.numel()).view_as(p).to(p.dtype)
        return model

    def train(rank=None):
        model = make()
        optimizer = (SGD(model.parameters(), lr=0.5) if rank is None else
                     ShardedOptimizer(model.parameters(), SGD, lr=0.5) if wrap == "ShardedOptimizer" else
                     Trainer(model, SGD, lr=0.5))
        for _ in range(2):
            optimizer.zero_grad()
            model[1](model[0](torch.ones(4, 5, dtype=torch.bfloat16)).float()).sum().backward()
            optimizer.step()
        return [p.detach() for p in model.parameters()]

    expected = train()
    for found in run_ranks(lambda rank: train(rank), 2).results:
        assert [p.dtype for p in found] == [p.dtype for p in expected]
        assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))


@pytest.mark.parametrize("params", [lambda: [], lambda: iter(()), lambda: nn.ReLU().parameters()])
def test_no_parameters_is_an_error_that_says_so(params):
    error = first_error(lambda: ShardedOptimizer(params(), AdamW, lr=0.1))
    assert error.kind == "ValueError" and "empty parameter list" in error.message


@pytest.mark.parametrize("module", [nn.ReLU, lambda: nn.Linear(2, 2).requires_grad_(False)])
def test_a_module_with_nothing_to_train_is_an_error_that_says_so(module):
    error = first_error(lambda: Trainer(module(), AdamW, lr=0.1))
    assert error.kind == "ValueError" and "needs a module with parameters to train" in error.message


@pytest.mark.parametrize("wrap", ["ShardedOptimizer", "Zero2"])
def test_shards_and_other_models_are_refused(wrap):
    def train(rank):
        model = build("mlp", seed=rank)
        ShardedOptimizer(model.parameters(), AdamW, lr=0.1) if wrap == "ShardedOptimizer" else Trainer(model, AdamW, lr=0.1)

    error = first_error(train)
    assert error.kind == "ValueError" and "is it a shard, or was broadcast_model" in error.message


def test_a_mixture_of_shards_and_whole_parameters_is_refused():
    def train(rank):
        whole, shard = nn.Parameter(torch.ones(4)), nn.Parameter(torch.full((2,), float(rank)))
        ShardedOptimizer([{"params": [whole]}, {"params": [shard]}], AdamW, lr=0.1)

    assert "tensor 1 of 2 differs" in first_error(train).message


# ── Zero2 ──


def test_training_goes_on_from_a_checkpoint():
    def train(rank):
        model, state = build("mlp", 0), None
        trainer = Trainer(model, AdamW, lr=0.1)
        for step in range(STEPS):
            if step == 2:
                saved, state = copy.deepcopy(model.state_dict()), copy.deepcopy(trainer.optimizer.state_dict())
                model = build("mlp", 1)
                model.load_state_dict(saved)
                trainer = Trainer(model, AdamW, lr=0.7)
                trainer.optimizer.load_state_dict(state)
            trainer.zero_grad()
            backward(model, step, 3, rank)
            trainer.step()
        return [p.detach() for p in model.parameters()]

    assert_same(run_ranks(train, 3), plain(lambda model: AdamW(model.parameters(), lr=0.1), 3))


def test_schedulers_take_the_optimizer_on_shards():
    schedule = SCHEDULERS["OneCycleLR"]

    def train(rank):
        model = build("mlp", 0)
        trainer = Trainer(model, AdamW, lr=0.1)
        scheduled = schedule(trainer.optimizer)
        for step in range(STEPS):
            trainer.zero_grad()
            backward(model, step, 2, rank)
            trainer.step()
            scheduled.step()
        return [p.detach() for p in model.parameters()]

    assert_same(run_ranks(train, 2), plain(lambda model: AdamW(model.parameters(), lr=0.1), 2, scheduler=schedule))


# ── what is held ──


@pytest.mark.parametrize("n", [1, 2, 4])
def test_bytes_held_a_parameter(n):
    """In float32: (8 + 8/N) and (4 + 16/N), whole tensors being shared as equally as these allow."""

    def held(wrap):
        torch.manual_seed(0)
        model = nn.ModuleList(nn.Linear(64, 64, bias=False) for _ in range(8))
        optimizer = wrap(model)
        sum(layer(torch.ones(1, 64)).sum() for layer in model).backward()
        optimizer.step()
        sizes = held_by_category()
        return (sum(sizes.values()) - sizes["activations"]) / (8 * 64 * 64)

    def both():
        return (held(lambda model: ShardedOptimizer(model.parameters(), AdamW)), held(lambda model: Trainer(model, AdamW)))

    for by_tensors, by_pieces in run_ranks(both, n).results:
        assert by_tensors == pytest.approx(8 + 8 / n, rel=2e-3)  # a step count a tensor comes on top
        assert by_pieces == pytest.approx(4 + 16 / n, rel=2e-3)


# ── other right ways, and ways around ──


class _Flat(torch.optim.Optimizer):
    """By flat ranges instead of whole tensors: a reduce-scatter and an all-gather for each parameter."""

    def __init__(self, params, optimizer_class, group=None, **options):
        super().__init__(params, options)
        self.group, self.n, self.r = group, dist.get_world_size(group), dist.get_rank(group)
        everything = [p for one in self.param_groups for p in one["params"]]
        require_equal(everything, group)
        self.shards = {p: nn.Parameter(self.cut(p)[self.r].clone()) for p in everything}
        self.inner = optimizer_class([{**one, "params": [self.shards[p] for p in one["params"]]}
                                      for one in self.param_groups], **options)
        self.defaults = self.inner.defaults
        self.hear(self.inner, self)

    @staticmethod
    def hear(source, target):
        for said, heard in zip(source.param_groups, target.param_groups, strict=True):
            heard.update({name: value for name, value in said.items() if name != "params"})

    def cut(self, x):
        return F.pad(x.detach().flatten(), (0, -x.numel() % self.n)).view(self.n, -1)

    def step(self, closure=None):
        loss = closure() if closure else None
        for p, shard in self.shards.items():
            shard.grad = None
            if p.grad is not None:
                shard.grad = torch.empty_like(shard)
                dist.reduce_scatter_single(shard.grad, self.cut(p.grad).flatten(), group=self.group)
                shard.grad /= self.n
        self.hear(self, self.inner)
        self.inner.step()
        for p, shard in self.shards.items():
            if shard.grad is not None:
                whole = shard.new_empty(self.n * len(shard))
                dist.all_gather_single(whole, shard.detach(), group=self.group)
                p.data.copy_(whole[:p.numel()].view_as(p))
        return loss

    def state_dict(self):
        self.hear(self, self.inner)
        return self.inner.state_dict()

    def load_state_dict(self, state):
        self.inner.load_state_dict(state)
        self.hear(self.inner, self)


class _NoGradientNoState(torch.optim.Optimizer):
    """The wrapped optimizer knows all parameters; where a rank drops the gradient, it never makes state."""

    def __init__(self, params, optimizer_class, group=None, **options):
        self.inner = optimizer_class(params, **options)
        super().__init__(self.inner.param_groups, self.inner.defaults)
        self.param_groups, self.group = self.inner.param_groups, group
        everything = [p for one in self.param_groups for p in one["params"]]
        require_equal(everything, group)
        held = [0] * dist.get_world_size(group)
        self.owner = {}
        for p in sorted(everything, key=lambda p: -p.numel()):
            self.owner[p] = held.index(min(held))
            held[self.owner[p]] += p.numel()

    def step(self, closure=None):
        loss = closure() if closure else None
        trained = [p for one in self.param_groups for p in one["params"] if p.grad is not None]
        for p in trained:
            dist.reduce(p.grad, group=self.group, group_dst=self.owner[p])
            p.grad = p.grad / dist.get_world_size(self.group) if self.owner[p] == dist.get_rank(self.group) else None
        self.inner.step()
        for p in trained:
            dist.broadcast(p.data, group=self.group, group_src=self.owner[p])
        return loss

    def state_dict(self):
        return self.inner.state_dict()

    def load_state_dict(self, state):
        self.inner.load_state_dict(state)
        self.param_groups = self.inner.param_groups


class _RowAnew:
    """A flat row that does not last: joined anew in each step, and copied back into the parameters."""

    def __init__(self, params, optimizer_class, group=None, **options):
        self.params, self.group, self.n = list(params), group, dist.get_world_size(group)
        self.shard = nn.Parameter(self.cut([p.detach() for p in self.params])[dist.get_rank(group)].clone())
        self.inner = optimizer_class([self.shard], **options)

    def cut(self, tensors):
        row = torch.cat([tensor.flatten() for tensor in tensors])
        return F.pad(row, (0, -len(row) % self.n)).view(self.n, -1)

    def step(self):
        gradients = self.cut([torch.zeros_like(p) if p.grad is None else p.grad for p in self.params])
        self.shard.grad = torch.empty_like(self.shard)
        dist.reduce_scatter_tensor(self.shard.grad, gradients.flatten() / self.n, group=self.group)
        self.inner.step()
        pieces = [torch.empty_like(self.shard) for _ in range(self.n)]
        dist.all_gather(pieces, self.shard.detach(), group=self.group, async_op=True).wait()
        for p, values in zip(self.params, self.slices(torch.cat(pieces)), strict=True):
            p.data.copy_(values.view_as(p))

    def slices(self, row):
        sizes = [p.numel() for p in self.params]
        return row[:sum(sizes)].split(sizes)


@pytest.mark.long
@pytest.mark.parametrize("name, way", [("ShardedOptimizer", _Flat), ("DropInShardedOptimizer", _Flat),
                                       ("ShardedOptimizer", _NoGradientNoState),
                                       ("DropInShardedOptimizer", _NoGradientNoState),
                                       ("FlatOptimizer", _RowAnew)])
def test_other_right_ways_earn_everything(name, way):
    verdict = verdict_on(EXERCISES[name], type(name, (way,), {}))
    assert verdict.passed, str(verdict)


def hoards_slices(model, group):
    """Keeps its piece as a slice of the gradient, where it need not be padded, and so all of the gradient."""
    shards, n = {}, dist.get_world_size(group)

    def hook(p):
        flat = F.pad(p.grad.flatten(), (0, -p.numel() % n)) if p.numel() % n else p.grad.reshape(-1)
        shard = flat.view(n, -1)[dist.get_rank(group)]
        whole, p.grad = flat.clone(), None
        dist.reduce_scatter_single(shard, whole, group=group)
        shard /= n
        shards[p] = shards[p] + shard if p in shards else shard

    for p in model.parameters():
        if p.requires_grad:
            p.register_post_accumulate_grad_hook(hook)
    return shards


def hoards_gradients(model, group):
    """Sets p.grad to None, but keeps the gradient elsewhere until the last one has come."""
    shards, n, waiting = {}, dist.get_world_size(group), {}
    trained = [p for p in model.parameters() if p.requires_grad]

    def hook(p):
        waiting[p], p.grad = p.grad, None
        if p is trained[0]:
            for q, gradient in waiting.items():
                flat = F.pad(gradient.flatten(), (0, -gradient.numel() % n))
                shard = flat.new_empty(len(flat) // n)
                dist.reduce_scatter_single(shard, flat, group=group)
                shards[q] = shards[q] + shard / n if q in shards else shard / n
            waiting.clear()

    for p in trained:
        p.register_post_accumulate_grad_hook(hook)
    return shards


@pytest.mark.parametrize("way", [hoards_slices, hoards_gradients])
def test_gradients_kept_elsewhere_are_seen(way):
    verdict = verdict_on(EXERCISES["shard_gradients"], way)
    assert verdict.hint_ids == ("full gradients",), str(verdict)
    assert verdict.earned["technique"] == 0


# ── GradientBuckets ──


class _MovesAtOnce:
    """Takes each gradient off its parameter at once, makes the row before it makes room, and copies the shards."""

    def __init__(self, model, bucket_bytes, in_flight, group):
        self.shards, self.gathered, self.rows, self.group = {}, {}, deque(), group
        self.most, self.bucket_bytes = in_flight, bucket_bytes
        for p in filter(lambda p: p.requires_grad, model.parameters()):
            p.register_post_accumulate_grad_hook(self.take)

    def take(self, p):
        self.gathered[p], p.grad = p.grad, None
        if sum(g.nbytes for g in self.gathered.values()) >= self.bucket_bytes:
            self.send()

    def send(self):
        n = dist.get_world_size(self.group)
        cut = {p: F.pad(g.flatten(), (0, -g.numel() % n)).view(n, -1) for p, g in self.gathered.items()}
        self.gathered.clear()
        rows = [torch.cat(of_rank) for of_rank in zip(*(pieces.unbind() for pieces in cut.values()), strict=True)]
        lengths, out = {p: pieces.shape[1] for p, pieces in cut.items()}, torch.empty_like(rows[0])
        del cut
        if len(self.rows) == self.most:
            self.take_oldest()
        self.rows.append((lengths, out, dist.reduce_scatter(out, rows, group=self.group, async_op=True)))

    def take_oldest(self):
        lengths, out, work = self.rows.popleft()
        work.wait()
        for p, piece in zip(lengths, out.split(list(lengths.values())), strict=True):
            self.shards[p] = self.shards.get(p, 0) + piece / dist.get_world_size(self.group)

    def finish(self):
        if self.gathered:
            self.send()
        while self.rows:
            self.take_oldest()


def test_another_right_way_with_buckets_earns_everything():
    verdict = verdict_on(EXERCISES["GradientBuckets"], type("GradientBuckets", (_MovesAtOnce,), {}))
    assert verdict.passed, str(verdict)
