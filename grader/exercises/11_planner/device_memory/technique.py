"""How device_memory must be done, and where it first differs."""

from collections.abc import Callable
from typing import Any

from grader.exercises.technique.arithmetic import arithmetic
from grader.judging.compare import same
from grader.judging.exercise import Look, Symptom

OF_WEIGHTS = ("parameters", "gradients", "optimizer state")


def _wrong(found: Any, right: dict[str, float]) -> set[str]:
    """The categories that are wrong; none where the result is no such dictionary."""
    if not isinstance(found, dict) or found.keys() != right.keys():
        return set()
    return {part for part in right if not same(found[part], right[part], 1e-9)}


def _only(*parts: str) -> Callable[[Look], bool]:
    """Some of these are wrong, and nothing else."""
    return lambda look: set() < _wrong(look.outputs[0], look.right[0]) <= set(parts)


TECHNIQUE = arithmetic(
    fallbacks=(
        Symptom("other names", "Return a dictionary with the five names of the contract: parameters, gradients, optimizer "
                "state, activations, logits.",
                lambda look: not isinstance(look.outputs[0], dict) or look.outputs[0].keys() != look.right[0].keys()),
        Symptom("activations wrong", "Only the activations are wrong: layers of the stage × micro-batches in flight × what "
                "a layer keeps of one, by the table.", _only("activations")),
        Symptom("logits wrong", "Only the logits are wrong: 4 bytes for each position of one micro-batch and each word, "
                "divided by tp.", _only("logits")),
        Symptom("weights wrong", "Activations and logits are right; the bytes of the weights are not. Count the numbers of "
                "one device first, layers and embedding; then by bytes_of, divided over dp or not.", _only(*OF_WEIGHTS)),
        Symptom("several wrong", "Both the weights and what is computed from them are wrong, or the device is another: "
                "compare one stage with the table, by hand, before you compare stages.",
                lambda look: len(_wrong(look.outputs[0], look.right[0])) > 1),
    ),
)
