"""Micro-batches of any sizes: each row counts the same."""

from grader.exercises.shared.hunted import LR, Inputs, hunted, of, worlds
from grader.judging.exercise import Draw
from utils.models.hunted_plain import Notes, micro_shares, plain_micro_batches

SIZES = {3: (8, 8), 2: (3, 9, 4), 1: (4, 1)}  # of the micro-batches, by the number of ranks; ROWS in all, but of a lone one


def _inputs(n: int, draw: Draw) -> Inputs:
    return [{"steps": micro_shares(1, SIZES[n], seed=draw.seed())[0], "lr": LR} for _ in range(n)]


def _plain(inputs: Inputs) -> list[Notes]:
    return plain_micro_batches(of(inputs, "steps"), LR)


CASES = worlds(_inputs, (3,), (1, 2))

EXERCISE = hunted("Case 1: a quarter of the learning rate", ("steps", "lr", "group"), CASES, _plain)
