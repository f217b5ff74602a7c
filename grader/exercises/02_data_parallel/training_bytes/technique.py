"""What training_bytes returns, and that it needs no message."""

from grader.judging.demands import only_calls
from grader.judging.exercise import Symptom, Technique
from grader.judging.symptoms import wrong_ranks

ITEMS = ("parameters", "gradients", "master parameters", "momentum", "variance")
TECHNIQUE = Technique(
    demands=(only_calls(id="communicates", hint="This is arithmetic: no message is needed."),),
    fallbacks=(
        Symptom("keys", f"The result is a dictionary with the keys {', '.join(map(repr, ITEMS))}.",
                wrong_ranks(lambda _, rank, found, right: not isinstance(found, dict) or set(found) != set(ITEMS))),
    ),
)
