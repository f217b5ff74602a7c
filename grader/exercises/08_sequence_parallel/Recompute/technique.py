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
    """Where the weights are tied, slips say nothing; no more do these, or they would explain more cases than any slip."""
    return lambda look: not look.case.inputs[0]["tied"] and first_wrong_is(*parts)(look)


TECHNIQUE = Technique(
    demands=(
        only_calls(id="communicates", hint="Recomputing is a rank's own work: no message is needed."),
        Demand("inside kept", "between forward and backward only the input is kept",
               "The gradients are right, but what the layer computed inside is kept from forward to backward: the forward "
               "pass must record no graph, and save nothing but x, the parameters and the random state.",
               marked_at_most(_kept, KEPT, "bytes", "{amount:,} B are held after the forward pass, allowed {allowed:,} B")),
        *weighs_at_most({END: _held}),
        Demand("run calls", "run is called twice: once each way",
               "Right, but run must be called once in forward and once in backward: each call costs a forward pass.",
               _ran_twice),
    ),
    symptoms=(
        raised("One of the differentiated Tensors does not require grad", "You ask for a gradient of x or of a weight that "
               "needs none: ctx.needs_input_grad says which do. Return None for the others.", "gradient of what needs none"),
        raised("does not require grad and", "Inside backward autograd records nothing, so the second run made no graph: "
               "run it under torch.enable_grad(), on an x that requires a gradient.", "second run without graph"),
        *gradient_symptoms("None for run, then dx, then one for each parameter"),
    ),
    fallbacks=(
        Symptom("through the layers before", "Only where two layers share their weights is it wrong: run the layer again on "
                "x.detach(), else its graph reaches through x into the layers before, and they are counted twice.",
                lambda look: look.case.inputs[0]["tied"], alone=True),
        Symptom("random state moved by backward", "The gradients are right, but backward leaves another random state behind "
                "than it found: the next step draws other numbers than it would without recomputation. Put it back, or work "
                "inside torch.random.fork_rng().", _first_wrong_is("random after backward")),
        Symptom("other dropout", "The gradients are wrong where there is dropout: the second run drew another mask than the "
                "first. Save the random state before the first run, and set it before the second.",
                lambda look: look.case.inputs[0]["p"] > 0 and _first_wrong_is("dx", "dparameters")(look)),
        Symptom("wrong output", "y is wrong: forward returns run(x).", _first_wrong_is("y")),
        Symptom("wrong gradients", "y is right, the gradients are not: differentiate the second run with respect to the x "
                "that was given to *it* and to each parameter, start from dy, and return what autograd.grad gives as it is.",
                _first_wrong_is("dx", "dparameters")),
    ),
)
