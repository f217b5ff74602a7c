"""Small models that check a wrapper of "any module": each odd in its own way. In float64, so that rounding never shows.

Inputs x and targets y: (b, IN) and (b, OUT) numbers; for the GPT, (b, T) bytes each.
"""

import itertools
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from utils.models.tiny import TinyGPT, next_byte_loss, same_start

IN, OUT, LENGTH = 5, 3, 6
DEEP_LAYERS, DEEP_WIDTH = 12, 64


class MLP(nn.Module):
    """Sizes that no number of ranks divides."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.third = nn.Linear(IN, 7), nn.Linear(7, 7), nn.Linear(7, OUT)

    def forward(self, x: Tensor) -> Tensor:
        return self.third(F.gelu(self.second(F.gelu(self.first(x)))))


class TiedEnds(MLP):
    """The last layer uses the first one's weight again."""

    def __init__(self):
        super().__init__()
        self.third = nn.Linear(7, IN)
        self.last = nn.Linear(IN, 7)
        self.last.weight = self.first.weight

    def forward(self, x: Tensor) -> Tensor:
        x = F.gelu(self.second(F.gelu(self.first(x))))
        return self.last(F.gelu(self.third(x)))[:, :OUT]


class Tied(TiedEnds):
    """There the second layer runs twice, too."""

    def __init__(self):
        super().__init__()
        self.second_again = self.second

    def forward(self, x: Tensor) -> Tensor:
        x = F.gelu(self.second_again(F.gelu(self.second(F.gelu(self.first(x))))))
        return self.last(F.gelu(self.third(x)))[:, :OUT]


class Frozen(MLP):
    """Its second layer is not trained."""

    def __init__(self):
        super().__init__()
        self.second.requires_grad_(False)


class Unused(MLP):
    """One of its layers takes no part, so its parameters get no gradient."""

    def __init__(self):
        super().__init__()
        self.unused = nn.Linear(2, 2)


class Seldom(Unused):
    """Another layer rests where the batch begins with a zero, and gets no gradient then."""

    def forward(self, x: Tensor) -> Tensor:
        x_hidden = F.gelu(self.first(x))
        return self.third(x_hidden if x[0, 0] == 0 else F.gelu(self.second(x_hidden)))


class Buffered(MLP):
    """Holds numbers that are not parameters: some that it uses, of which it saves a part, and a count."""

    def __init__(self):
        super().__init__()
        self.register_buffer("scale", torch.rand(OUT) + 0.5)
        self.register_buffer("offset", torch.rand(OUT), persistent=False)
        self.register_buffer("count", torch.randint(1 << 62, ()))

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) * self.scale + self.offset


class Mixed(MLP):
    """Its middle layer computes in another type than the others."""

    def __init__(self, middle: torch.dtype = torch.float32, others: torch.dtype = torch.float64):
        super().__init__()
        self.middle, self.others = middle, others

    def double(self) -> "Mixed":
        self.to(self.others)
        self.second.to(self.middle)
        return self

    def forward(self, x: Tensor) -> Tensor:
        y = self.second(F.gelu(self.first(x.to(self.others))).to(self.middle))
        return self.third(F.gelu(y).to(self.others)).double()


class Deep(nn.Module):
    """Many layers of one size, wide against the batch: what stands of them is easily told."""

    def __init__(self, n_layers: int = DEEP_LAYERS, width: int = DEEP_WIDTH):
        super().__init__()
        sizes = [IN] + [width] * n_layers
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in itertools.pairwise(sizes))
        self.last = nn.Linear(width, OUT)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return self.last(x)


class Turned(Deep):
    """Its layers are registered in the opposite order of that in which they run."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(reversed(self.layers))

    def forward(self, x: Tensor) -> Tensor:
        for layer in reversed(self.layers):
            x = torch.tanh(layer(x))
        return self.last(x)


class Block(nn.Module):
    """Frozen, then trained: the input's gradient needs the frozen weight after the trained one has its own. Takes keywords
    and returns two things."""

    def __init__(self):
        super().__init__()
        self.frozen, self.trained = nn.Linear(7, 7).requires_grad_(False), nn.Linear(7, 7)

    def forward(self, *, x: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
        scaled = x * scale
        return scaled, self.trained(F.gelu(self.frozen(scaled)))


class Odd(Buffered):
    """Buffers, a frozen layer, and a block that is odd in many ways, whose arguments have another dtype."""

    def __init__(self):
        super().__init__()
        self.second, self.still = Block(), nn.Linear(7, 7).requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        x = F.gelu(self.first(x))
        x, hidden = self.second(x=x.double(), scale=self.scale.mean().expand(7).double())
        x = self.third(F.gelu(self.still(x + hidden)))
        return x * self.scale.to(x.dtype) + self.offset.to(x.dtype)


class Scaled(nn.Module):
    """Takes keywords."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(7, 7)

    def forward(self, *, x: Tensor, scale: Tensor) -> Tensor:
        return self.inner(x * scale)


class Keywords(MLP):
    """Its middle layer is such a one, and its arguments have another dtype."""

    def __init__(self):
        super().__init__()
        self.second = Scaled()

    def forward(self, x: Tensor) -> Tensor:
        x = F.gelu(self.first(x))
        return self.third(F.gelu(self.second(x=x.double(), scale=x.new_full((7,), 0.5).double())))


class Backwards(nn.Module):
    """A layer of two modules, the first of which is used last: of the two weights its one has its gradient first."""

    def __init__(self):
        super().__init__()
        self.after, self.before = (nn.Linear(7, 7, bias=False) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        return self.after(F.gelu(self.before(x.to(self.before.weight.dtype))).to(x.dtype))


class Crossed(MLP):
    """Its middle layer is such a one."""

    def __init__(self):
        super().__init__()
        self.second = Backwards()


class TwoTyped(Crossed):
    """And has two dtypes."""

    def double(self) -> "TwoTyped":
        super().double()
        self.second.before.float()
        return self


class Empty(nn.Module):
    """Has no parameters."""

    def forward(self, x: Tensor) -> Tensor:
        return x[:, :OUT] * 2


ZOO: dict[str, Callable[[], nn.Module]] = {
    "linear": lambda: nn.Linear(IN, OUT),  # two tensors only: with more ranks than that, some own none
    "mlp": MLP, "tied ends": TiedEnds, "tied": Tied, "frozen": Frozen, "unused": Unused, "seldom": Seldom,
    "buffered": Buffered, "mixed": Mixed, "halves": lambda: Mixed(torch.bfloat16, torch.float16), "empty": Empty,
    "odd": Odd, "keywords": Keywords, "deep": Deep, "turned": Turned, "crossed": Crossed, "two typed": TwoTyped,
    "buckets": lambda: Deep(8, 300),  # 5 MB: more than one bucket of 1 MiB
    "wide": lambda: Deep(17, 480), "wider": lambda: Deep(17, 560),  # 28 and 38 MB: seen from outside
    "gpt": lambda: TinyGPT(length=LENGTH, dim=4, n_layers=1, n_heads=2)}


def build(name: str, seed: int) -> nn.Module:
    """The model, its numbers drawn from `seed`; those of float64 have digits that float32 has not."""
    model = same_start(ZOO[name], seed).double()
    with torch.no_grad():
        for tensor in (*model.parameters(), *model.buffers()):
            if tensor.is_floating_point():
                tensor *= 1 + 2.0 ** -30
    return model


def digits_kept(parameters: dict[str, Tensor]) -> bool:
    """Whether some of these numbers have digits that float32 has not; True too where none are of float64."""
    double = [p for p in parameters.values() if p.dtype == torch.float64]
    return not double or any(not torch.equal(p, p.float().double()) for p in double)


def loss_rows(output: Tensor, y: Tensor) -> Tensor:
    """One loss for each row of the batch: (b, OUT) and (b, OUT), or the GPT's (b, T, V) and (b, T) → (b,)."""
    return next_byte_loss(output, y) if y.dtype == torch.int64 else ((output - y) ** 2).mean(1)
