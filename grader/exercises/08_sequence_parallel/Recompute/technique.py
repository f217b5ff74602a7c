"""How Recompute must be done, and how it can fail."""

from collections.abc import Callable

import torch

from grader.calling.rings import RUN
from grader.calling.sequences import KEPT
from grader.calling.weighing import END
from grader.exercises.technique.sequences import facts, first_wrong_is, gradient_symptoms, marked_at_most
from grader.exercises.technique.weights import weighs_at_most
from grader.judging.demands import only_calls
from grader.judging.exercise import Demand, Look, Symptom, Technique
from grader.judging.symptoms import raised


def _kept(look: Look, rank: int) -> int:
    """After the forward pass: each layer's input and random state, the result, and half a tensor to spare."""
    inputs, state = look.case.inputs[rank], torch.get_rng_state().nbytes
    return len(inputs["layers"]) * (inputs["x"].nbytes + state) + inputs["x"].nbytes // 2


def _held(look: Look, rank: int) -> float:
    """Copies of x and the weights, and what is kept."""
    inputs = look.case.inputs[rank]
    return _kept(look, rank) + 2 * inputs["x"].nbytes + sum(w.nbytes for pair in inputs["layers"] for w in pair.values())


def _ran_twice(look: Look) -> tuple[bool, str]:
    called = [layer for rank in look.working for layer in facts(look, rank, RUN, "layer")]
    runs = [called.count(number) for number in range(len(look.case.inputs[0]["layers"]))]
    return set(runs) == {2}, f"run was called {max(runs)} times for one layer, wanted 2"


def _first_wrong_is(*parts: str) -> Callable[[Look], bool]:
    """Not where the weights are tied, or these would explain more cases than any mistake that does not show there."""
    return lambda look: not look.case.inputs[0]["tied"] and first_wrong_is(*parts)(look)


TECHNIQUE = Technique(
    demands=(
        only_calls(id="communicates"),
        Demand("inside kept", "between forward and backward only the input is kept",
               marked_at_most(_kept, KEPT, "bytes", "{amount:,} B are held after the forward pass, allowed {allowed:,} B")),
        *weighs_at_most({END: _held}),
        Demand("run calls", "run is called twice: once each way", _ran_twice),
    ),
    symptoms=(
        raised("One of the differentiated Tensors does not require grad", "gradient of what needs none"),
        raised("does not require grad and", "second run without graph"),
        *gradient_symptoms(),
    ),
    fallbacks=(
        Symptom("through the layers before", lambda look: look.case.inputs[0]["tied"], alone=True),
        Symptom("random state moved by backward", _first_wrong_is("random after backward")),
        Symptom("other dropout", lambda look: look.case.inputs[0]["p"] > 0 and _first_wrong_is("dx", "dparameters")(look)),
        Symptom("wrong output", _first_wrong_is("y")),
        Symptom("wrong gradients", _first_wrong_is("dx", "dparameters")),
    ),
)
