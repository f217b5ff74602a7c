"""A whole transformer block with named parts, as Korthikanti et al. count it, and a GPT made of such blocks.

Shapes: S sequence, B batch, D model, H heads, K size of a head, M = 4·D, V vocabulary. The sequence comes first, as in
Megatron: a piece of the sequence is then one piece of memory, and can be sent as it is.
"""

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from utils.models.tiny import VOCABULARY

Dropout = Callable[[Tensor], Tensor]


class MaskDropout(nn.Module):
    """Dropout that keeps one byte a number for the backward pass (on a CPU nn.Dropout keeps the mask in x's dtype)."""

    def __init__(self, p: float):
        super().__init__()
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        return torch.native_dropout(x, self.p, True)[0] if self.training and self.p else x


class Scores(nn.Module):
    """Causal scores.  Shapes: (B, H, S, K), (B, H, S, K) → (B, H, S, S)."""

    def forward(self, q_BHSK: Tensor, k_BHSK: Tensor) -> Tensor:
        scores = q_BHSK @ k_BHSK.transpose(-1, -2) * q_BHSK.shape[-1] ** -0.5
        length = scores.shape[-1]
        return scores + scores.new_full((length, length), -torch.inf).triu(1)  # adding keeps nothing for backward


class Mix(nn.Module):
    """Weights times values.  Shapes: (B, H, S, S), (B, H, S, K) → (S, B, H·K)."""

    def forward(self, weights_BHSS: Tensor, v_BHSK: Tensor) -> Tensor:
        return (weights_BHSS @ v_BHSK).permute(2, 0, 1, 3).flatten(2)


class Attention(nn.Module):
    """The core of attention, written out.  Shapes: qkv (S, B, heads·3·K) → (S, B, heads·K), for any number of heads.

    The numbers of qkv are ordered by head: q, k and v of the first one, then of the second, and so on. So n equal pieces
    are n sets of heads.
    """

    def __init__(self, head_size: int, p: float):
        super().__init__()
        self.head_size = head_size
        self.scores, self.softmax, self.dropout, self.mix = Scores(), nn.Softmax(-1), MaskDropout(p), Mix()

    def forward(self, qkv_SBQ: Tensor, dropout: Dropout | None = None) -> Tensor:
        q_BHSK, k_BHSK, v_BHSK = self.heads(qkv_SBQ)
        return self.mix((dropout or self.dropout)(self.softmax(self.scores(q_BHSK, k_BHSK))), v_BHSK)

    def heads(self, qkv_SBQ: Tensor) -> tuple[Tensor, ...]:
        """q, k, v, each (B, H, S, K): views."""
        return qkv_SBQ.unflatten(-1, (-1, 3, self.head_size)).permute(3, 1, 2, 0, 4).unbind()


class FusedAttention(Attention):
    """The same by a kernel of torch's that never has all scores in memory; without dropout."""

    def forward(self, qkv_SBQ: Tensor, dropout: Dropout | None = None) -> Tensor:
        y_BHSK = F.scaled_dot_product_attention(*self.heads(qkv_SBQ), is_causal=True)
        return y_BHSK.permute(2, 0, 1, 3).flatten(2)


class TransformerBlock(nn.Module):
    """LayerNorm, attention, dropout; LayerNorm, MLP of four times the width, dropout; each half adds to its input.

    Shapes: (S, B, D) → (S, B, D).  dropouts: three callables instead of the block's own, after softmax, `out` and `down`.
    Raises: ValueError if the heads do not divide D.
    """

    def __init__(self, dim: int, n_heads: int, p: float = 0.1):
        super().__init__()
        if dim % n_heads:
            raise ValueError(f"{n_heads} heads do not divide a width of {dim}: choose dim as a multiple of n_heads")
        self.n_heads, self.p = n_heads, p
        self.attention_norm, self.qkv = nn.LayerNorm(dim), nn.Linear(dim, 3 * dim)
        self.attention, self.out, self.attention_dropout = Attention(dim // n_heads, p), nn.Linear(dim, dim), MaskDropout(p)
        self.mlp_norm, self.up, self.gelu = nn.LayerNorm(dim), nn.Linear(dim, 4 * dim), nn.GELU()
        self.down, self.mlp_dropout = nn.Linear(4 * dim, dim), MaskDropout(p)

    def forward(self, x_SBD: Tensor, dropouts: Sequence[Dropout] | None = None) -> Tensor:
        first, second, third = dropouts or (None, self.attention_dropout, self.mlp_dropout)
        x_SBD = x_SBD + second(self.out(self.attention(self.qkv(self.attention_norm(x_SBD)), first)))
        return x_SBD + third(self.down(self.gelu(self.up(self.mlp_norm(x_SBD)))))


class BlockGPT(nn.Module):
    """A byte-level GPT of TransformerBlocks, the sequence first.  Shapes: tokens (S, B) → logits (S, B, V)."""

    def __init__(self, length: int = 64, dim: int = 64, n_layers: int = 2, n_heads: int = 4, p: float = 0.0):
        super().__init__()
        self.embedding, self.positions = nn.Embedding(VOCABULARY, dim), nn.Embedding(length, dim)
        self.blocks = nn.ModuleList(TransformerBlock(dim, n_heads, p) for _ in range(n_layers))
        self.norm, self.head = nn.LayerNorm(dim), nn.Linear(dim, VOCABULARY, bias=False)
        for module in self.modules():
            if isinstance(module, (nn.Linear, nn.Embedding)):
                nn.init.normal_(module.weight, std=0.02)

    def forward(self, tokens_SB: Tensor) -> Tensor:
        length = len(tokens_SB)
        x_SBD = self.embedding(tokens_SB) + self.positions(torch.arange(length, device=tokens_SB.device))[:, None]
        for block in self.blocks:
            x_SBD = block(x_SBD)
        return self.head(self.norm(x_SBD))
