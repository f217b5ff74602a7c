"""Cases of models: each with 1 to 4 ranks, some in groups, every odd model at least once."""

from collections.abc import Callable, Sequence
from typing import Any

from grader.evidence.case import WEIGHED
from grader.exercises.shared.cases import group_case, ranks
from grader.exercises.shared.one_process import batch
from grader.judging.exercise import Case, Draw

SEEDS = 1 << 30
IN_WORDS = {"mlp": "MLP", "tied": "tied weights", "tied ends": "tied weights", "frozen": "a frozen layer",
            "unused": "an unused layer", "seldom": "layers that some passes skip", "buffered": "buffers",
            "mixed": "two dtypes",
            "halves": "two dtypes of 16 bits", "empty": "no parameters", "odd": "a half-frozen block and buffers",
            "keywords": "keyword arguments",
            "turned": "13 layers, turned round", "gpt": "GPT", "wide": "weighed", "wider": "weighed"}
Inputs = Callable[[str, int, int], list[dict[str, Any]]]  # (model, ranks n, seed) -> one dictionary a rank


def model_cases(draw: Draw, grading: bool, models: Sequence[str], inputs: Inputs) -> list[Case]:
    """The models in turn on 1, 2, 3 and 4 ranks (and 5 for grading), and the first one in two groups at once.

    Where that is an ordinary one, it comes on 3 ranks too: most of the points are for ordinary inputs.
    """
    worlds = [1, 2, 3, 4] + [5] * grading
    count = max(len(worlds), len(models))
    cases = []
    for number in range(count):
        model = models[number % len(models)]
        n = worlds[number] if number < len(worlds) else draw.integer(2, 4)
        cases.append(Case(f"{ranks(n)}, {IN_WORDS.get(model, model)}", tuple(inputs(model, n, draw.integer(0, SEEDS)))))
    of_group = group_case(lambda n: inputs(models[0], n, draw.integer(0, SEEDS)), IN_WORDS.get(models[0], models[0]))
    ordinary = f"{ranks(3)}, {IN_WORDS['mlp']}"
    if models[0] != "mlp" or any(case.name == ordinary for case in cases):
        return [*cases, of_group]
    return [*cases, of_group, Case(ordinary, tuple(inputs("mlp", 3, draw.integer(0, SEEDS))))]


def weighed_case(inputs: Inputs, grading: bool, model: str = "wide", n: int = 2, **more: Any) -> list[Case]:
    """Ranks with a model so large that their memory shows from outside; for grading only. more: changed inputs."""
    of_ranks = [own | {WEIGHED: True} | more for own in inputs(model, n, 1)] if grading else []
    return [Case(f"{ranks(n)}, {IN_WORDS[model]}", tuple(of_ranks))] if grading else []


def with_batches(draw: Draw, rows: Callable[[int], int], steps: int, **more: Any) -> Inputs:
    """Every rank the same seed and `steps` batches of its own, of rows(n) rows."""

    def inputs(model: str, n: int, seed: int) -> list[dict[str, Any]]:
        of_ranks = [[batch(draw, model, rows(n)) for _ in range(steps)] for _ in range(n)]
        return [{"model": model, "seed": seed, "xs": [x for x, _ in batches], "ys": [y for _, y in batches], **more}
                for batches in of_ranks]

    return inputs
