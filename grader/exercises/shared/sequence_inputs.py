"""Cases and oracles that the exercises about pieces of a sequence share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from grader.calling.sequences import KEPT, NUMBERS, RANDOM_CHANGED
from grader.exercises.technique.sharding import first_wrong
from grader.judging.demands import group_size
from grader.judging.exercise import Case, Demand, Look
from utils.models.sequence_shards import CUT_DIMS
from utils.trace.trace import Call


def part(name: str, parts: tuple[str, ...]) -> Callable[[Look], bool]:
    """The first part of a result, a dictionary, that is wrong on any rank is `name`."""
    return lambda look: name == first_wrong(look, parts)


def not_refused(hint: str) -> Callable[[Look], bool]:
    """Sizes that do not divide were expected to be refused, and were not, or not in words that name both sizes."""
    return lambda look: any(isinstance(expected, dict) and "refused" in expected for expected in look.right)


def joined(case: Case, rank: int, name: str = "x") -> Tensor:
    """The whole tensor of which each member has a piece along the sequence, which is dim 0."""
    return torch.cat(case.peers_inputs(rank, name))


def own_piece(case: Case, rank: int, whole: Tensor, dim: int = 0) -> Tensor:
    """This rank's piece."""
    return whole.chunk(len(case.members(rank)), dim)[case.group_rank(rank)].clone()


def gradients_of(module: nn.Module) -> dict[str, Tensor]:
    """Name → gradient."""
    return {name: p.grad for name, p in module.named_parameters()}


def cut_by_name(case: Case, rank: int, named: dict[str, Tensor]) -> dict[str, Tensor]:
    """Of a plain block's or GPT's tensors, what this rank holds: pieces of those that cut_block cuts."""
    def dim_of(name: str) -> int | None:
        return CUT_DIMS.get(".".join(name.split(".")[-2:]))

    return {name: one if dim_of(name) is None else own_piece(case, rank, one, dim_of(name)) for name, one in named.items()}


def calls_within(look: Look, rank: int, *phases: str) -> list[Call]:
    """The calls that one rank made in the named spans."""
    spans = [s for s in look.evidence.trace.spans if s.rank == rank and s.name in phases]
    return [c for c in look.evidence.trace.of(rank) if any(s.start_s <= c.start_s <= s.end_s for s in spans)]


def only_within(phases: tuple[str, ...], *allowed: str, id: str, hint: str) -> Demand:
    """Gate: in the named spans no collective other than `allowed`."""

    def judge(look: Look) -> tuple[bool, str]:
        used = sorted({f"{c.op} in {phase}" for rank in look.working for phase in phases
                       for c in calls_within(look, rank, phase) if c.op not in allowed})
        return not used, ", ".join(used)

    return Demand(id, f"only {' and '.join(allowed)} in {' and '.join(phases)}", hint, judge, gate=True)


def kept_at_most(limit: Callable[[Look, int], float], label: str, hint: str, id: str = "whole kept") -> Demand:
    """Between forward and backward each rank of several holds at most limit(look, rank) bytes beyond inputs and result."""

    def judge(look: Look) -> tuple[bool, str]:
        for rank in look.working:
            if group_size(look, rank) > 1:
                allowed = limit(look, rank)
                for found in facts(look, rank, KEPT, "bytes"):
                    if found > allowed:
                        return False, f"rank {rank} kept {found:,} B, allowed {allowed:,.0f} B"
        return True, ""

    return Demand(id, label, hint, judge)


def numbers_at_most(limit: Callable[[Look, int], int]) -> Demand:
    """Each rank's parameters have at most limit(look, rank) numbers."""

    def judge(look: Look) -> tuple[bool, str]:
        for rank in look.working:
            for count in facts(look, rank, NUMBERS, "count"):
                if count > limit(look, rank):
                    return False, f"rank {rank} holds {count:,} numbers, its share is {limit(look, rank):,}"
        return True, ""

    return Demand("weights not cut", "each rank holds its shard of qkv, out, up and down",
                  "The result is right, but ranks hold weights that they do not use: keep what cut_block gives only.",
                  judge)


def random_state_kept(hint: str) -> Demand:
    """The process's own random state is as it was."""

    def judge(look: Look) -> tuple[bool, str]:
        changed = [s.rank for s in look.evidence.trace.spans if s.name == RANDOM_CHANGED]
        return not changed, f"rank {changed[0]}'s random state was changed" if changed else ""

    return Demand("random state changed", "torch's own random state as it was", hint, judge)


def facts(look: Look, rank: int, name: str, fact: str) -> list[Any]:
    """What one rank's marks called `name` say."""
    return [s.facts[fact] for s in look.evidence.trace.spans if s.rank == rank and s.name == name]
