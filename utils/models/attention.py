"""Attention to a part of the keys, with what is needed to merge such parts: log-sum-exps; and the cut of a causal sequence.

Shapes: B batch, H heads, S queries, T keys, K size of a head. All is plain matrix products on this rank; no message.
"""

import torch
from torch import Tensor


def attend(q_BHSK: Tensor, k_BHTK: Tensor, v_BHTK: Tensor, causal: bool = False) -> tuple[Tensor, Tensor]:
    """Attention of some queries to some keys: (o_BHSK, lse_BHS).

    lse is the logarithm of the sum of exp(score) over the keys, score = q·k/√K. causal: query i sees keys 0 to i of the
    ones given, so both must be the same stretch of the sequence.
    Cost: 4·B·H·S·T·K FLOPs.
    Raises: ValueError if causal and the numbers of queries and keys differ.
    """
    scores_BHST = _scores(q_BHSK, k_BHTK, causal)
    lse_BHS = torch.logsumexp(scores_BHST, -1)
    return torch.exp(scores_BHST - lse_BHS[..., None]) @ v_BHTK, lse_BHS


def attend_backward(do_BHSK: Tensor, q_BHSK: Tensor, k_BHTK: Tensor, v_BHTK: Tensor, o_BHSK: Tensor, lse_BHS: Tensor,
                    causal: bool = False) -> tuple[Tensor, Tensor, Tensor]:
    """What these keys contribute to the gradients: (dq_BHSK, dk_BHTK, dv_BHTK).

    o and lse: those of the *whole* attention, all keys merged; with them the probabilities of any part can be computed
    anew, part by part. The dq of all parts of the keys add up; so do the dk and dv of all queries.
    Cost: 10·B·H·S·T·K FLOPs.  Raises: as attend.
    Source: Dao et al., FlashAttention, 2205.14135, appendix B.
    """
    probabilities_BHST = torch.exp(_scores(q_BHSK, k_BHTK, causal) - lse_BHS[..., None])
    dprobabilities_BHST = do_BHSK @ v_BHTK.mT
    row_BHS = (do_BHSK * o_BHSK).sum(-1)
    dscores_BHST = probabilities_BHST * (dprobabilities_BHST - row_BHS[..., None]) * q_BHSK.shape[-1] ** -0.5
    return dscores_BHST @ k_BHTK, dscores_BHST.mT @ q_BHSK, probabilities_BHST.mT @ do_BHSK


def cut_zigzag(x: Tensor, n_ranks: int, dim: int = 2) -> list[Tensor]:
    """The shards of a causal sequence that give every rank the same work: of 2n chunks, rank r has r and 2n−1−r.

    Raises: ValueError if 2n does not divide the sequence.
    Source: the chunks of Llama 3's context parallelism, 2407.21783, section 3.3.2.
    """
    if x.shape[dim] % (2 * n_ranks):
        raise ValueError(f"a sequence of {x.shape[dim]} cannot be cut into 2·{n_ranks} equal chunks, two a rank; "
                         f"take a multiple of {2 * n_ranks}")
    chunks = x.chunk(2 * n_ranks, dim)
    return [torch.cat((chunks[r], chunks[-1 - r]), dim) for r in range(n_ranks)]


def join_zigzag(shards: list[Tensor], dim: int = 2) -> Tensor:
    """The whole sequence of which cut_zigzag made these shards."""
    halves = [shard.chunk(2, dim) for shard in shards]
    return torch.cat([first for first, _ in halves] + [second for _, second in reversed(halves)], dim)


def _scores(q_BHSK: Tensor, k_BHTK: Tensor, causal: bool) -> Tensor:
    scores_BHST = q_BHSK @ k_BHTK.mT * q_BHSK.shape[-1] ** -0.5
    if not causal:
        return scores_BHST
    n_queries, n_keys = scores_BHST.shape[-2:]
    if n_queries != n_keys:
        raise ValueError(f"causal: the queries and the keys must be the same stretch, got {n_queries} queries and {n_keys} "
                         "keys; where all keys come before all queries, leave causal out")
    hidden_ST = torch.ones(n_queries, n_keys, dtype=torch.bool, device=q_BHSK.device).triu(1)
    return scores_BHST.masked_fill(hidden_ST, float("-inf"))
