"""How cut_model must be done, and how it can fail."""

from grader.exercises.technique.arithmetic import arithmetic
from grader.judging.demands import inputs_kept
from grader.judging.exercise import Symptom
from grader.judging.symptoms import wrong_ranks

TECHNIQUE = arithmetic(
    demands=(inputs_kept("The whole model is no longer what it was: other ranks are cut from it, too. Make a dictionary of "
                         "your own.", gate=True),),
    fallbacks=(
        Symptom("names missing", "Parameters of this stage are missing: its layers, and at the ends what stands before or "
                "behind them.", wrong_ranks(lambda look, rank, found, right: found.keys() < right.keys())),
        Symptom("another stage's", "Here are the parameters of another stage. The last axis varies fastest: a rank's stage "
                "is its number // tp, modulo pp.", wrong_ranks(
                    lambda look, rank, found, right: not found.keys() <= right.keys() and not right.keys() <= found.keys())),
    ),
)
