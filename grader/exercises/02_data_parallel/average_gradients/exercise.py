"""Average the gradients: all of them in one flat all-reduce for each type of number."""

from grader.exercises.shared.cases import each_group
from grader.exercises.shared.one_process import OF_A_MEAN, REPLICAS, batch, mean_gradients
from grader.exercises.shared.training_cases import model_cases
from grader.judging.exercise import Case, Draw, Exercise


def _cases(draw: Draw, grading: bool) -> list[Case]:
    def inputs(model: str, n: int, seed: int) -> list[dict]:
        pairs = [batch(draw, model, 2) for _ in range(n)]
        return [{"model": model, "seed": seed, "x": x, "y": y} for x, y in pairs]

    return model_cases(draw, grading, ("mlp", "tied", "frozen", "unused", "mixed", "gpt", "halves"), inputs)


EXERCISE = Exercise(
    title="One all-reduce for all gradients",
    parameters=("model", "group"),
    make_cases=_cases,
    oracle=each_group(lambda case, r: mean_gradients(
        case, r, list(zip(case.peers_inputs(r, "x"), case.peers_inputs(r, "y"), strict=True)))),
    trains=True,
    forbidden=REPLICAS,
    tolerance=OF_A_MEAN,
)
