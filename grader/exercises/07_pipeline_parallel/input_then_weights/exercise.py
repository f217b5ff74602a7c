"""Half a backward, and the other half: the gradient of the input at once, those of the weights later."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import torch

from grader.calling.schedules_run import CHAINED, DONE
from grader.evidence.evidence import RETURNED
from grader.exercises.shared.one_process import TOLERANCE
from grader.judging.compare import same
from grader.judging.demands import only_calls
from grader.judging.exercise import Case, Demand, Draw, Exercise, Look, Symptom, Technique
from grader.judging.symptoms import raised


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    def number(*shape: int) -> torch.Tensor:
        return draw.tensor(*shape, dtype=torch.float64) / 60

    def case(name: str, sizes: Sequence[int], n: int, loss: bool = False, tokens: bool = False, frozen=()) -> Case:
        weights = [[number(a, b), number(b)] for a, b in itertools.pairwise(sizes)]
        xs = [number(3, sizes[0]) for _ in range(n)]
        dys = [None if loss else number(3, sizes[-1]) for _ in range(n)]
        return Case(name, ({"weights": weights, "xs": xs, "dys": dys, "x_needs_gradient": not tokens,
                            "frozen": list(frozen)},))

    cases = [case("1 layer, 1 micro-batch", (3, 5), 1), case("3 layers, 2 micro-batches", (3, 5, 4, 2), 2),
             case("the first stage: x without gradient", (5, 3, 2), 2, tokens=True),
             case("the last stage: a loss, no dy", (2, 5, 3), 2, loss=True),
             case("a weight and a bias frozen", (4, 3, 5), 2, frozen=("0.1.weight", "1.1.bias"))]
    return cases + [case("5 layers, 3 micro-batches", (3, 2, 6, 2, 4, 3), 3)] * grading


def _plain(case: Case, factor: float = 1.0, last_only: bool = False, chained: bool = False) -> dict[str, Any]:
    """One backward in one piece for each micro-batch.

    Wrong ways: gradients times factor; those of the last call only; chained, a layer's z gets the paths through the later
    ones a second time, because all are asked at once.
    """
    inputs = case.inputs[0]
    parameters = [[one.clone().requires_grad_(f"{number}.1.{kind}" not in inputs["frozen"])
                   for kind, one in zip(("weight", "bias"), both, strict=True)]
                  for number, both in enumerate(inputs["weights"])]
    found: dict[str, Any] = {"dx": [], "early": [], "gradients": []}
    named = {f"{number}.1.{kind}": one for number, both in enumerate(parameters)
             for kind, one in zip(("weight", "bias"), both, strict=True)}
    trained = {name: one for name, one in named.items() if one.requires_grad}
    total = dict.fromkeys(named)
    for x, dy in zip(inputs["xs"], inputs["dys"], strict=True):
        start = y = x.clone().requires_grad_(inputs["x_needs_gradient"])
        zs = []
        for weight, bias in parameters:
            y = torch.tanh(y) @ weight + bias
            zs.append(y)
        root = y.sum() if dy is None else y
        wanted = [*trained.values()] + [start] * start.requires_grad
        one = torch.autograd.grad(root, wanted, dy, retain_graph=True)
        found["dx"].append(one[-1] if start.requires_grad else None)
        if chained:
            dzs = torch.autograd.grad(root, zs, dy, retain_graph=True)
            one = torch.autograd.grad(zs, [*trained.values()], dzs)
        for name, gradient in zip(trained, one, strict=False):
            before = None if last_only else total[name]
            total[name] = gradient * factor if before is None else before + gradient * factor
        found["gradients"].append(dict(total))
    return found


def _gradients_as(**other: Any) -> Callable[[Look], bool]:
    """dx is right, and the weights' gradients are those of a wrong way."""

    def matches(look: Look) -> bool:
        if look.evidence.ending != RETURNED:
            return False
        found, expected = look.outputs[0], look.right[0]
        wrong = not same(found["gradients"], expected["gradients"])
        return wrong and same(found["dx"], expected["dx"]) and same(
            found["gradients"], _plain(look.case, **other)["gradients"])

    return matches


def _marks(look: Look) -> list[dict[str, Any]]:
    return [s.facts for s in sorted(look.evidence.trace.spans, key=lambda s: s.start_s) if s.name == DONE]


def _not_early(look: Look) -> tuple[bool, str]:
    """No weight's gradient is computed before input_then_weights has returned."""
    inside = False
    for facts in _marks(look):
        if facts["kind"] in ("begin", "later"):
            inside = facts["kind"] == "begin"
        elif inside and facts["kind"] == "W":
            return False, f"layer {facts['micro']}'s weights: computed before weights() was called"
    return True, ""


def _input_at_once(look: Look) -> tuple[bool, str]:
    """The input's gradient, and so every layer's, is there when it returns, and no layer's is computed again."""
    counts: dict[tuple[int, int], int] = {}
    call, inside = -1, False
    for facts in _marks(look):
        if facts["kind"] == "begin":
            call, inside = call + 1, True
        elif facts["kind"] == "later":
            inside = False
        elif facts["kind"] == CHAINED:
            if not inside:
                return False, f"went back through layer {facts['micro']} again in weights()"
            counts[call, facts["micro"]] = counts.get((call, facts["micro"]), 0) + 1
    twice = [layer for (_, layer), count in counts.items() if count > 1]
    return not twice, f"went back through layer {twice[0]} more than once" if twice else ""


def _dx(look: Look) -> bool:
    return look.evidence.ending == RETURNED and not same(look.outputs[0]["dx"], look.right[0]["dx"])


EXERCISE = Exercise(
    title="Half a backward, and the other half",
    parameters=("x", "y", "dy", "layers"),
    make_cases=_cases,
    oracle=lambda case: [_plain(case)],
    tolerance=TOLERANCE,
    points={"values": 2, "technique": 2},
    technique=Technique(
        demands=(
        only_calls(id="communicates", hint="Autograd alone does this: no message is needed."),
        Demand("weights early", "no weight's gradient before weights() is called",
               "The weights' gradients are computed in the first half already. Ask autograd.grad for the gradients of x and "
               "of the layers' outputs only; the weights' come from those, later.", _not_early),
        Demand("computed twice", "back through each layer once",
               "The numbers are right, but you go back through the layers twice. Ask for the gradients of all z in the "
               "first half; in the second each layer's weights come from its own z alone.", _input_at_once),
    ),
        symptoms=(
        raised("does not require grad", "x of the first stage needs no gradient (x.requires_grad is False): do not ask for "
               "one; frozen weights are not in the list of parameters.", "x without gradient"),
        raised("a second time", "The first half freed the graph that the second needs: retain_graph=True.", "graph freed"),
        Symptom("gradients set early", "After the first half gradients are set already: that is a whole backward. The "
                                       "weights' wait until weights() is called.",
                lambda look: look.evidence.ending == RETURNED and look.outputs[0]["early"] != []),
        Symptom("paths counted twice", "Gradients are too large in all layers but the last: with all z asked at once each "
                                       "gradient also flows on into the layers below, where it is counted a second time. "
                                       "Ask layer by layer.", _gradients_as(chained=True)),
        Symptom("not added", "weights() must add to .grad: what earlier micro-batches left is gone.",
                _gradients_as(last_only=True)),
        Symptom("doubled", "The weights' gradients are twice too large.", _gradients_as(factor=2.0)),
        Symptom("wrong dx", "dx is wrong: it is torch.autograd.grad(y, x, dy), None where x needs none.", _dx),
    ),
    ),
)
