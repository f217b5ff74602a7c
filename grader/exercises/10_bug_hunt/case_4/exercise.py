"""1F1B: the first stage warms up longest."""

from grader.exercises.shared.hunted import LR, Inputs, hunted, worlds
from grader.judging.exercise import Draw
from utils.models.hunted_plain import Notes, pipeline_steps, plain_pipeline

MICRO_BATCHES = {3: 4, 2: 2, 4: 2}  # by the number of stages


def _inputs(n: int, draw: Draw) -> Inputs:
    """What goes in and what should come out, each from a seed of its own."""
    ins, outs = (pipeline_steps(MICRO_BATCHES.get(n, 3), seed=draw.seed()) for _ in range(2))
    return [{"steps": [[xs, ys] for (xs, _), (_, ys) in zip(ins, outs, strict=True)], "lr": LR}] * n


def _plain(inputs: Inputs) -> list[Notes]:
    return plain_pipeline(inputs[0]["steps"], LR, len(inputs))


EXERCISE = hunted("Case 4: it hangs", ("steps", "lr", "group"), worlds(_inputs, (3, 4), (1,)), _plain)
