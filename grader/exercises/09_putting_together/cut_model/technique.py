"""How cut_model must be done, and how it can fail."""

from grader.exercises.technique.arithmetic import arithmetic
from grader.judging.compare import same
from grader.judging.demands import inputs_kept
from grader.judging.exercise import Symptom
from grader.judging.symptoms import wrong_ranks

TECHNIQUE = arithmetic(
    demands=(inputs_kept("The whole model is no longer what it was: other ranks are cut from it, too. Make a dictionary of "
                         "your own.", gate=True),),
    fallbacks=(
        Symptom("nothing there", "A rank has no parameters. Every rank has a stage, its number // tp, modulo pp.",
                wrong_ranks(lambda look, rank, found, right: found == {})),
        Symptom("names missing", "Parameters of this stage are missing. It has all that stage_of gives it: of its layers "
                "also what isn't cut, and at the ends what stands before or behind them.",
                wrong_ranks(lambda look, rank, found, right: found.keys() < right.keys())),
        Symptom("renamed", "The parameters are right, but their names are not: keep those of the whole model, also the "
                "numbers of the layers.", wrong_ranks(lambda look, rank, found, right: found.keys() != right.keys() and same(
                    [*found.values()], [*right.values()]))),
        Symptom("another stage's", "Here are the parameters of another stage. The last axis varies fastest: a rank's stage "
                "is its number // tp, modulo pp.", wrong_ranks(
                    lambda look, rank, found, right: not found.keys() <= right.keys() and not right.keys() <= found.keys())),
        Symptom("pieces of another size", "The names are right, but what is there of a parameter has another size: the tp "
                "ranks of a stage cut it among themselves along cut_dim(name), and where that is None it stays whole.",
                wrong_ranks(lambda look, rank, found, right: found.keys() == right.keys() and any(
                    found[name].shape != right[name].shape for name in right))),
        Symptom("pieces of another rank", "Names and sizes are right, but the numbers are those of other pieces. A rank's "
                "place along tp is its number modulo tp, and piece(x, place, n, dim) cuts pieces of neighbouring rows or "
                "columns.", wrong_ranks(lambda look, rank, found, right: found.keys() == right.keys() and all(
                    (found[name].shape, found[name].dtype) == (x.shape, x.dtype) for name, x in right.items()))),
    ),
)
