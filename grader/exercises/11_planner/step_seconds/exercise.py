"""A step's seconds by what they are spent on: computing, messages that nothing hides, the bubble."""

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

from grader.exercises.shared.cases import counted, each_rank
from grader.exercises.shared.formula_cases import FORMULAS, formula, single
from grader.judging.exercise import VALUES, Case, Draw, Exercise, Slip

Given = dict[str, Any]
AXES = ("tp", "pp", "dp")


# ── the parts, each as a function that a slip replaces ──


def compute_s(given: Given) -> Fraction:
    """What every device computes, the work being divided evenly."""
    how = given["layout"]
    return Fraction(given["flops"]) / (how["dp"] * how["tp"] * how["pp"]) / Fraction(given["machine"]["flops_per_s"])


def span(given: Given, axis: str) -> int:
    """Devices from the first of a group to the last, counted along the machine."""
    how = given["layout"]
    return {"tp": how["tp"], "pp": how["tp"] * how["pp"], "dp": how["tp"] * how["pp"] * how["dp"]}[axis]


def sending_s(given: Given, axis: str, spans: Callable[[Given, str], int] = span, alphas: Callable[[int], int] = int,
              inverse: bool = False) -> Fraction:
    """alphas: how many latencies so many messages cost; inverse: multiplied by the bandwidth."""
    machine = given["machine"]
    link = machine["inside" if spans(given, axis) <= machine["devices_per_node"] else "between"]
    bandwidth = Fraction(link["bytes_per_s"])
    size = Fraction(given["traffic"][axis])
    return alphas(given["messages"][axis]) * Fraction(link["alpha_s"]) + (size * bandwidth if inverse else size / bandwidth)


def exposed_s(given: Given, axis: str, compute: Fraction, sending: Fraction) -> Fraction:
    return max(Fraction(0), sending - Fraction(given["hidden"][axis]) * compute)


def bubble_s(given: Given, compute: Fraction, exposed: dict[str, Fraction]) -> Fraction:
    return _bubbles(given) * (compute + exposed["tp"] + exposed["pp"])


def _bubbles(given: Given, **others: int) -> Fraction:
    how = given["layout"] | others
    return Fraction(how["pp"] - 1, how["chunks"] * how["n_micro"])


USUAL = {"compute": compute_s, "sending": sending_s, "exposed": exposed_s, "bubble": bubble_s}


def spent(given: Given, **ways: Callable) -> dict[str, float]:
    """ways: parts that are counted otherwise."""
    use = USUAL | ways
    compute = use["compute"](given)
    exposed = {axis: use["exposed"](given, axis, compute, use["sending"](given, axis)) for axis in AXES}
    parts = {"compute": compute, **exposed, "bubble": use["bubble"](given, compute, exposed)}
    return {part: float(seconds) for part, seconds in parts.items()}


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    links = {"inside": {"alpha_s": 2e-6, "bytes_per_s": 3e11}, "between": {"alpha_s": 5e-6, "bytes_per_s": 2.5e10}}

    def case(dp: int, tp: int, pp: int, n_micro: int, chunks: int = 1, hidden: Sequence[float] = (0.0, 0.0, 0.0),
             busy_s: float = 1.0, per_node: int = 8) -> Case:
        """busy_s: about how long a device computes."""
        sizes = {"tp": tp, "pp": pp, "dp": dp}
        traffic = {axis: draw.integer(10, 90) * 1e8 * (size > 1) for axis, size in sizes.items()}
        messages = {axis: draw.integer(2000, 9000) * (size > 1) for axis, size in sizes.items()}
        flops = dp * tp * pp * busy_s * draw.integer(10, 19) * 1e13
        return single(f"dp {dp}, tp {tp}, pp {pp}, {n_micro} micro-batches, {counted(chunks, 'chunk')}, "
                      f"nodes of {per_node}, hidden {'/'.join(f'{share:g}' for share in hidden)}",
                      flops=flops, traffic=traffic, messages=messages,
                      layout=sizes | {"n_micro": n_micro, "chunks": chunks},
                      machine={"flops_per_s": 1.5e14, "devices_per_node": per_node, **links},
                      hidden=dict(zip(AXES, hidden, strict=True)))

    cases = [case(1, 1, 1, 3), case(16, 8, 4, 32), case(4, 2, 1, 5, busy_s=0.1), case(2, 2, 4, 6),
             case(2, 1, 4, 10, hidden=(0, 0.125, 0.0625)), case(64, 8, 8, 24, chunks=3, hidden=(0.0, 0.03125, 0.25)),
             case(3, 6, 2, draw.integer(4, 9), per_node=6, hidden=(0.015625, 0.0, 0.03125)),
             case(2, 8, 2, 4, chunks=2, busy_s=0.2, hidden=(1.0, 0.0, 0.5)), case(2, 3, 2, 4)]
    if grading:
        cases += [case(draw.integer(2, 9), 4, 2, draw.integer(2, 9), hidden=(0, 0, draw.integer(0, 4) / 64))
                  for _ in range(3)]
    return cases


# ── other counts ──


def _on(**sizes: Callable[[Given, str], int]) -> Callable[[Given, str], Fraction]:
    """Links chosen by other spans."""
    return lambda given, axis: sending_s(given, axis, spans=sizes["spans"])


def _devices(given: Given, axis: str) -> int:
    return given["layout"][axis]


def _all_but(axis_left_out: str) -> Callable[[Given, Fraction, dict[str, Fraction]], Fraction]:
    return lambda given, compute, exposed: _bubbles(given) * sum(
        (seconds for axis, seconds in exposed.items() if axis not in ("dp", axis_left_out)), compute)


def _bubble_with(count: Callable[[Given], Fraction]) -> Callable[[Given, Fraction, dict[str, Fraction]], Fraction]:
    """So often the time of all passes."""
    return lambda given, compute, exposed: count(given) * (compute + exposed["tp"] + exposed["pp"])


def _of_total(given: Given) -> Fraction:
    how = given["layout"]
    return Fraction(how["pp"] - 1, how["chunks"] * how["n_micro"] + how["pp"] - 1)


def _slip(id: str, hint: str, **ways: Callable) -> Slip:
    return formula(id, lambda given: spent(given, **ways), hint)


EXERCISE = Exercise(
    title="Where the seconds go",
    forbidden=FORMULAS,
    parameters=("flops", "traffic", "messages", "layout", "machine", "hidden"),
    make_cases=_cases,
    oracle=each_rank(lambda case, rank: spent(case.inputs[rank])),
    tolerance=1e-9,
    points={VALUES: 3},
    slips=(
        _slip("compute not divided", "`flops` are those of the whole step: dp·tp·pp devices share them.",
              compute=lambda given: compute_s(given) * span(given, "dp")),
        _slip("compute divided by dp only", "Tensor and pipeline parallelism divide the work as well: dp·tp·pp devices.",
              compute=lambda given: compute_s(given) * span(given, "pp")),
        _slip("always between nodes", "A group that lies inside a node uses the link inside: tp consecutive devices are a "
              "tensor group, tp·pp a pipeline.", sending=_on(spans=lambda given, axis: 10**9)),
        _slip("always inside nodes", "A group that reaches beyond a node waits for its slowest link, the one between nodes.",
              sending=_on(spans=lambda given, axis: 0)),
        _slip("tensor inside, others between", "Which link an axis uses depends on how far its group reaches: in a small "
              "world pp, or even dp, can lie inside a node.",
              sending=_on(spans=lambda given, axis: 0 if axis == "tp" else 10**9)),
        _slip("group size for its reach", "A group of dp devices is not dp neighbours: between two of them lie tp·pp "
              "others. Count from the group's first device to its last.", sending=_on(spans=_devices)),
        _slip("latency forgotten", "Every message costs α as well, before its first byte.",
              sending=lambda given, axis: sending_s(given, axis, alphas=lambda messages: 0)),
        _slip("latency once", "α is the price of each message, not of an axis.",
              sending=lambda given, axis: sending_s(given, axis, alphas=lambda messages: int(messages > 0))),
        _slip("times bandwidth", "bytes_per_s is a bandwidth: bytes are divided by it.",
              sending=lambda given, axis: sending_s(given, axis, inverse=True)),
        _slip("hidden ignored", "What runs beside computing does not prolong the step: take away hidden[axis] · compute.",
              exposed=lambda given, axis, compute, sending: sending),
        _slip("share of the sending hidden", "hidden[axis] is a share of the computing time beside which messages can run, "
              "not a share of the messages.",
              exposed=lambda given, axis, compute, sending: sending * (1 - Fraction(given["hidden"][axis]))),
        _slip("less than nothing", "Messages that take less than they could hide take no time, not a negative one.",
              exposed=lambda given, axis, compute, sending: sending - Fraction(given["hidden"][axis]) * compute),
        _slip("the longer of the two", "Part of the messages is hidden, behind hidden[axis] · compute; what is longer than "
              "that remains, not all of it.",
              exposed=lambda given, axis, compute, sending:
              sending if sending > Fraction(given["hidden"][axis]) * compute else Fraction(0)),
        _slip("bubble of computing alone", "A stage that waits waits for whole passes of the others, with the messages "
              "inside them: compute, tp and pp.", bubble=lambda given, compute, exposed: _bubbles(given) * compute),
        _slip("bubble without tp", "A micro-batch's pass has tensor-parallel messages in it, and who waits for the pass "
              "waits for them.", bubble=_all_but("tp")),
        _slip("bubble without pp", "A pass ends when its result has arrived: what of pp is not hidden prolongs the bubble "
              "too.", bubble=_all_but("pp")),
        _slip("bubble of all", "Gradients are reduced once, after the last pass: dp is no part of what repeats, so not of "
              "the bubble.", bubble=lambda given, compute, exposed: _bubbles(given) * sum(exposed.values(), compute)),
        _slip("share of the total", "(p − 1)/(m + p − 1) is the bubble's share of the total time. Here it is added to the "
              "ideal time, so (p − 1)/m of that.", bubble=_bubble_with(_of_total)),
        _slip("bubble of p", "The last of p stages waits for p − 1 others.",
              bubble=_bubble_with(lambda given: _bubbles(given, pp=given["layout"]["pp"] + 1))),
        _slip("chunks forgotten", "With v chunks a device waits for passes of a v-th of its layers: the bubble is divided "
              "by v.", bubble=_bubble_with(lambda given: _bubbles(given, chunks=1))),
        _slip("chunks prolong", "Chunks shorten the bubble: a device waits for passes of a v-th of its layers.",
              bubble=_bubble_with(lambda given: _bubbles(given, chunks=1) * given["layout"]["chunks"])),
        _slip("bubble for one micro-batch", "The passes' time is that of all n_micro micro-batches; p − 1 of them are the "
              "bubble, so divide by n_micro.", bubble=_bubble_with(lambda given: _bubbles(given, n_micro=1))),
        _slip("no bubble", "The pipeline's first and last stage wait for each other: p − 1 passes of one micro-batch.",
              bubble=_bubble_with(lambda given: Fraction(0))),
    ),
)
