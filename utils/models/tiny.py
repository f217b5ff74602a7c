"""The tiny models that every unit trains on bytes of text: a deep MLP, and a GPT.

Shapes: B batch, T bytes of text, D model, H heads, K size of a head, V vocabulary (the 256 values of a byte).
"""

import itertools

import torch
import torch.nn.functional as F
from torch import Tensor, nn

VOCABULARY = 256


class DeepMLP(nn.Module):
    """Predicts the byte after a window of text: GELU layers one after another, as in CS336 lecture 8.

    Shapes: tokens_BT (B, window) → logits (B, V).
    """

    def __init__(self, window: int = 16, dim: int = 64, n_layers: int = 6):
        super().__init__()
        sizes = [window] + [dim] * (n_layers - 1)
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in itertools.pairwise(sizes))
        self.head = nn.Linear(dim, VOCABULARY)

    def forward(self, tokens_BT: Tensor) -> Tensor:
        x_BD = tokens_BT.to(self.head.weight.dtype) / 64 - 1
        for layer in self.layers:
            x_BD = F.gelu(layer(x_BD))
        return self.head(x_BD)


class TinyGPT(nn.Module):
    """Predicts each next byte of a text: a decoder with learned positions, whose head is the embedding's own weight.

    Shapes: tokens_BT (B, T), T up to `length` → logits (B, T, V).
    """

    def __init__(self, length: int = 64, dim: int = 64, n_layers: int = 2, n_heads: int = 4, tied: bool = True):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, dim)
        self.positions = nn.Embedding(length, dim)
        self.blocks = nn.ModuleList(Block(dim, n_heads) for _ in range(n_layers))
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, VOCABULARY, bias=False)
        if tied:
            self.head.weight = self.embedding.weight
        for module in self.modules():
            if isinstance(module, (nn.Linear, nn.Embedding)):
                nn.init.normal_(module.weight, std=0.02)

    def forward(self, tokens_BT: Tensor) -> Tensor:
        x_BTD = self.embedding(tokens_BT) + self.positions(torch.arange(tokens_BT.shape[1], device=tokens_BT.device))
        for block in self.blocks:
            x_BTD = block(x_BTD)
        return self.head(self.norm(x_BTD))


class Block(nn.Module):
    """Causal self-attention, then an MLP of four times the width; each adds to its input.  Shapes: (B, T, D) → (B, T, D)."""

    def __init__(self, dim: int, n_heads: int):
        super().__init__()
        self.n_heads = n_heads
        self.attention_norm, self.mlp_norm = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.up, self.down = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)

    def forward(self, x_BTD: Tensor) -> Tensor:
        x_BTD = x_BTD + self.out(self._attention(self.attention_norm(x_BTD)))
        return x_BTD + self.down(F.gelu(self.up(self.mlp_norm(x_BTD))))

    def _attention(self, x_BTD: Tensor) -> Tensor:
        q_BHTK, k_BHTK, v_BHTK = (part.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)
                                  for part in self.qkv(x_BTD).chunk(3, dim=-1))
        y_BHTK = F.scaled_dot_product_attention(q_BHTK, k_BHTK, v_BHTK, is_causal=True)
        return y_BHTK.transpose(1, 2).flatten(2)


def next_byte_loss(logits: Tensor, tokens: Tensor) -> Tensor:
    """Cross-entropy of each row of the batch, (B,).

    tokens: the bytes to be predicted, (B,) for the MLP's (B, V) logits, (B, T) for the GPT's (B, T, V).
    """
    losses = F.cross_entropy(logits.flatten(0, -2), tokens.flatten(), reduction="none")
    return losses.view(len(tokens), -1).mean(1) if tokens.numel() else losses.new_zeros(0) + losses.sum()


def n_parameters(model: nn.Module) -> int:
    """How many numbers are trained; a weight used twice counts once."""
    return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)


def same_start(model: type[nn.Module], seed: int = 0, **options) -> nn.Module:
    """A model with weights drawn from `seed`, on the default device; torch's own random state stays as it is.

    They are drawn on the CPU, wherever they go: a GPU would draw other ones.
    """
    # Where there is no GPU, torch.manual_seed would write down three times who called it, for kinds of devices to come.
    seeded = torch.manual_seed if torch.cuda.is_available() else torch.default_generator.manual_seed
    with torch.random.fork_rng(devices=[]), torch.device("cpu"):
        seeded(seed)
        drawn = model(**options)
    return drawn.to(torch.get_default_device())
