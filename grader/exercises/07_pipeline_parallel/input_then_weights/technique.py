"""How input_then_weights must be done, and how it can fail."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

from grader.calling.rings import FLOPS
from grader.calling.schedules_run import CHAINED, DONE
from grader.exercises.technique.rank_by_rank import spans_called
from grader.judging.demands import only_calls
from grader.judging.exercise import Demand, Look, Symptom, Technique
from grader.judging.symptoms import every_rank, raised, wrong_ranks


def _marks(look: Look) -> Iterator[tuple[dict[str, Any], bool]]:
    """What the layers told, in order, and whether it was within a call of input_then_weights."""
    inside = False
    for span in sorted(spans_called(look, 0, DONE), key=lambda span: span.start_s):
        if span.facts["kind"] in ("begin", "later"):
            inside = span.facts["kind"] == "begin"
        yield span.facts, inside


def _not_early(look: Look) -> tuple[bool, str]:
    """No weight's gradient is computed before input_then_weights has returned; the products that it takes come later."""
    for facts, inside in _marks(look):
        if inside and facts["kind"] == "W":
            return False, f"layer {facts['micro']}'s weights: computed before weights() was called"
    inputs = look.case.inputs[0]
    told = Counter(facts["micro"] for facts, inside in _marks(look) if facts["kind"] == "W")
    for number in range(len(inputs["weights"])):
        if f"{number}.1.weight" not in inputs["frozen"] and told[number] < len(inputs["xs"]):
            return False, f"layer {number}'s weights: autograd computed them for {told[number]} of {len(inputs['xs'])}"
    of_layers = [2 * len(inputs["xs"][0]) * weight.numel() for weight, *_ in inputs["weights"]]
    trained = sum(count for number, count in enumerate(of_layers) if f"{number}.1.weight" not in inputs["frozen"])
    for done in (span.facts for span in spans_called(look, 0, FLOPS)):
        if done["weights"] < trained:
            return False, f"{done['weights']:,} FLOPs in weights(), at least {trained:,}"
    return True, ""


def _input_at_once(look: Look) -> tuple[bool, str]:
    """The input's gradient, and so every layer's, is there when it returns, and no layer's is computed again."""
    passed: set[int] = set()
    for facts, inside in _marks(look):
        if facts["kind"] == "begin":
            passed.clear()
        elif facts["kind"] == CHAINED:
            if not inside:
                return False, f"went back through layer {facts['micro']} again in weights()"
            if facts["micro"] in passed:
                return False, f"went back through layer {facts['micro']} more than once"
            passed.add(facts["micro"])
    inputs = look.case.inputs[0]
    most = sum(2 * len(inputs["xs"][0]) * weight.numel() for weight, *_ in inputs["weights"])
    computed = max(span.facts["input"] for span in spans_called(look, 0, FLOPS))
    return computed <= most, f"{computed:,} FLOPs before weights() was called, at most {most:,}"


def _left_out(look: Look, rank: int, found: Any, right: Any) -> bool:
    return any(gradient is None and expected[name] is not None for gradients, expected in zip(
        found["gradients"], right["gradients"], strict=True) for name, gradient in gradients.items())


def _zeros_for_none(look: Look, rank: int, found: Any, right: Any) -> bool:
    return any(right["gradients"][0][name] is None and gradient is not None and not gradient.any()
               for name, gradient in found["gradients"][0].items())


def _first_right_only(look: Look, rank: int, found: Any, right: Any) -> bool:
    """What is wrong came with a later micro-batch; dx is right."""
    return look.same({**found, "gradients": found["gradients"][:1]}, {**right, "gradients": right["gradients"][:1]})


def _dx_right(look: Look, rank: int, found: Any, right: Any) -> bool:
    return look.same(found["dx"], right["dx"])


def _only_gradient_of_x(look: Look, rank: int, found: Any, right: Any) -> bool:
    return look.same({**found, "early": []}, right) and set(found["early"]) == {"x"}


TECHNIQUE = Technique(
    demands=(
        only_calls(id="communicates"),
        Demand("weights early", "no weight's gradient before weights() is called", _not_early),
        Demand("computed twice", "back through each layer once", _input_at_once),
    ),
    symptoms=(
        raised("does not require grad", "x without gradient"),
        raised("a second time", "graph freed"),
        raised("not have been used", "weight not used"),
        Symptom("x's gradient set", wrong_ranks(_only_gradient_of_x)),
        Symptom("gradients set early", every_rank(lambda look, rank, found, right: found["early"] != [])),
    ),
    fallbacks=(
        Symptom("zeros for none", wrong_ranks(_zeros_for_none)),
        Symptom("gradients in one memory", wrong_ranks(_first_right_only),
                refuted=lambda look: len(look.case.inputs[0]["weights"][0]) == 2),
        Symptom("wrong dx", wrong_ranks(lambda *seen: not _dx_right(*seen))),
        raised("Mismatch in shape", "gradients of other layers"),
        Symptom("parameters left out", wrong_ranks(_left_out)),
        Symptom("gradients of other layers", wrong_ranks(_dx_right)),
    ),
)
