"""HuntedTrainer is judged by what its methods do: each case looks for one fault."""

from grader.judging.exercise import Technique

TECHNIQUE = Technique(call="hunting:look_for")
