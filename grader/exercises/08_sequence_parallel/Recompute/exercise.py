"""Keep only a layer's input, and run the layer again in backward: activation recomputation as an autograd function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from grader.calling.rings import RUN, layer
from grader.calling.sharding import HELD
from grader.exercises.shared.cases import each_rank
from grader.exercises.shared.one_process import TOLERANCE
from grader.exercises.technique.sharding import first_wrong
from grader.judging.compare import same
from grader.judging.demands import only_calls
from grader.judging.exercise import Case, Demand, Draw, Exercise, Look, Symptom, Technique
from grader.judging.symptoms import raised, wrong_ranks

ROWS, WIDER = 32, 16  # a layer's inside is 16 times as wide as its input: what is kept shows


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    def case(n_layers: int, dim: int, p: float, dtype: torch.dtype = torch.float64, x_trained: bool = True,
             down_trained: bool = True) -> Case:
        def numbers(*shape: int) -> torch.Tensor:
            return (draw.tensor(*shape) / 50).to(dtype)

        layers = [{"up": numbers(dim, WIDER * dim), "down": numbers(WIDER * dim, dim)} for _ in range(n_layers)]
        what = [f"{n_layers} layer{'s' * (n_layers > 1)}", f"dropout {p}", str(dtype).removeprefix("torch.")]
        what += ["x needs no gradient"] * (not x_trained) + ["a frozen weight"] * (not down_trained)
        return Case(", ".join(what), ({"x": numbers(ROWS, dim), "layers": layers, "p": p, "weights": numbers(ROWS, dim),
                                       "seed": draw.integer(0, 10**6), "x_trained": x_trained,
                                       "down_trained": down_trained},))

    cases = [case(1, 3, 0.0), case(3, 5, 0.3), case(2, 4, 0.5, torch.float32), case(2, 3, 0.2, x_trained=False),
             case(2, 3, 0.2, down_trained=False), case(2, 3, 0.1, torch.bfloat16)]
    return [*cases, case(draw.integer(4, 6), 7, 0.4)] if grading else cases


def _plain(case: Case, rank: int, unit_gradient: bool = False) -> dict[str, Any]:
    """All layers with everything kept. Wrong way: each layer's gradient as if 1 came from above."""
    inputs = case.inputs[rank]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(inputs["seed"])
        x = inputs["x"].clone().requires_grad_(inputs["x_trained"])
        pairs = [(one["up"].clone().requires_grad_(), one["down"].clone().requires_grad_(inputs["down_trained"]))
                 for one in inputs["layers"]]
        ys = [x]
        for up, down in pairs:
            ys.append(layer(ys[-1].detach().requires_grad_() if unit_gradient and len(ys) > 1 else ys[-1], up, down,
                            inputs["p"]))
        random = torch.rand(3), torch.rand(3)
    if unit_gradient:
        torch.stack(ys[1:]).sum().backward()
    else:
        (ys[-1] * inputs["weights"]).sum().backward()
    return {"y": ys[-1].detach(), "dx": x.grad, "dparameters": [[one.grad for one in pair] for pair in pairs],
            "random after forward": random[0], "random after backward": random[1]}


def _kept(look: Look) -> tuple[bool, str]:
    """After the forward pass: a layer's output, and a random state for each."""
    state = torch.get_rng_state().nbytes
    for rank in look.working:
        inputs = look.case.inputs[rank]
        allowed = len(inputs["layers"]) * (3 * inputs["x"].nbytes + 2 * state)
        found = max((s.facts["bytes"] for s in look.evidence.trace.spans if s.rank == rank and s.name == HELD), default=0)
        if found > allowed:
            return False, f"{found:,} B stand after the forward pass, allowed {allowed:,} B"
    return True, ""


def _runs(look: Look) -> list[int]:
    called = [s.facts["layer"] for s in look.evidence.trace.spans if s.name == RUN]
    return [called.count(number) for number in range(len(look.case.inputs[0]["layers"]))]


def _ran_twice(look: Look) -> tuple[bool, str]:
    found = _runs(look)
    return set(found) == {2}, f"run was called {max(found)} times for one layer, wanted 2"


def _gradient_as(test: Callable[[Look, Any, Any], bool]) -> Callable[[Look], bool]:
    return wrong_ranks(lambda look, rank, found, expected: isinstance(found, dict)
                       and same(found["y"], expected["y"], 2e-2) and test(look, found, expected))


def _lost(found: Any) -> bool:
    return all(one is None or not one.any() for pair in found["dparameters"] for one in pair)


def _doubled(look: Look, found: Any, expected: Any) -> bool:
    twice = [[None if one is None else 2 * one for one in pair] for pair in expected["dparameters"]]
    return same(found["dx"], expected["dx"]) and same(found["dparameters"], twice)


PARTS = ("y", "dx", "dparameters", "random after forward", "random after backward")


def _first_wrong_is(*parts: str) -> Callable[[Look], bool]:
    return lambda look: first_wrong(look, PARTS) in parts


_REWOUND = ("The forward pass must move the random state on as the layer itself does: here the next layer's dropout draws "
            "the same numbers again. Read the state before the run; set it back only in backward.")

EXERCISE = Exercise(
    title="Run the layer again in backward",
    parameters=("run", "x", "*parameters"),
    make_cases=_cases,
    oracle=each_rank(_plain),
    tolerance=TOLERANCE,
    points={"values": 4, "technique": 4},
    technique=Technique(
        demands=(
        only_calls(id="communicates", hint="Recomputing is a rank's own work: no message is needed."),
        Demand("inside kept", "between forward and backward only the input stands",
               "The gradients are right, but what the layer computed inside stands from forward to backward: the forward "
               "pass must record no graph, and save nothing but x, the parameters and the random state.", _kept),
        Demand("run calls", "run is called twice: once each way",
               "Right, but run must be called once in forward and once in backward: each call costs a forward pass.",
               _ran_twice),
    ),
        symptoms=(
        raised("does not require grad", "Inside backward autograd records nothing, so the second run made no graph: run it "
               "under torch.enable_grad(), on an x that requires a gradient.", "second run without graph"),
        raised("number of gradients", "backward returns one value for each argument of forward after ctx: None for run, "
               "then dx, then one for each parameter.", "too few gradients"),
        Symptom("gradient from above ignored", "Each layer's gradients are those of the plain sum of its outputs: the "
                "second run's backward must start from dy.", _gradient_as(
                    lambda look, found, _: same(found["dparameters"], _plain(look.case, 0, True)["dparameters"], 2e-2))),
        Symptom("parameter gradients twice", "The parameters' gradients are exactly twice the right ones: "
                "torch.autograd.backward has already added them to p.grad, and then they are returned as well. Do one of "
                "the two.", _gradient_as(_doubled)),
        Symptom("parameter gradients lost", "x gets its gradient, the parameters get none: ask for theirs too and return "
                "them after dx, in the order of forward's arguments.",
                _gradient_as(lambda look, found, _: _lost(found))),
        Symptom("input gradient lost", "The last layer's parameters have their gradients, the input has none, so everything "
                "before it learns nothing: return dx, the gradient of the second run's input.", _gradient_as(
                    lambda look, found, expected: expected["dx"] is not None
                    and (found["dx"] is None or not found["dx"].any())
                    and same(found["dparameters"][-1], expected["dparameters"][-1], 2e-2))),
        Symptom("random state rewound in forward", _REWOUND, lambda look: _first_wrong_is("random after forward")(look) or (
            look.case.inputs[0]["p"] > 0 and len(look.case.inputs[0]["layers"]) > 1 and _first_wrong_is("y")(look))),
        Symptom("random state moved by backward", "The gradients are right, but backward leaves another random state behind "
                "than it found: the next step draws other numbers than it would without recomputation. Put it back, or work "
                "inside torch.random.fork_rng().", _first_wrong_is("random after backward")),
        Symptom("other dropout", "The gradients are wrong where there is dropout: the second run drew another mask than the "
                "first. Save the random state before the first run, and set it before the second.", lambda look: (
                    look.case.inputs[0]["p"] > 0 and _first_wrong_is("dx", "dparameters")(look))),
        Symptom("wrong output", "y is wrong: forward returns run(x).", _first_wrong_is("y")),
        Symptom("wrong gradients", "y is right, the gradients are not: those of run(x), started from dy, with respect to x "
                "and to each parameter.", _first_wrong_is("dx", "dparameters")),
    ),
    ),
)
