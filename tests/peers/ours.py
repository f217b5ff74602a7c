"""What the planner says to the questions of answers.csv: with its own conventions, and with the peer's; and why they differ.

Each function's docstring is the reason that is printed. The second number is the planner's own formula, given the peer's
conventions as arguments; where the planner has no argument for what the peer does, the missing term stands here.
"""

import csv
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from tests.peers.ask import GLOBAL_BATCH, PEAK, TFLOPS, TOKENS
from utils.planner.conventions import DEEPSPEED_20, GIGABYTES, MEGATRON_18, ZERO_16, gigabytes
from utils.planner.layout import Layout
from utils.planner.memory import activations, device_parameters, layer_activations, model_state, sharded_state
from utils.planner.plan import plan
from utils.planner.published import MODELS, weak_scaling_runs
from utils.planner.shape import ModelShape
from utils.planner.times import Assumptions, days_for_tokens, flow_time
from utils.planner.traffic import step_traffic
from utils.planner.utilization import mfu, step_time, training_days
from utils.simulation.clusters import cluster_named

ANSWERS = Path(__file__).parent / "answers.csv"
WHOLE_NUMBERS = ("dp", "tp", "pp", "sp", "micro_batch", "zero")
GPT2 = ModelShape("GPT-2 1.5B", 48, 1600, 25, 50_257, 1024, learned_positions=True)
SHAPES = {**MODELS, GPT2.name: GPT2, **{run.shape.name: run.shape for run in weak_scaling_runs()}}
A100, SPEED = cluster_named("A100"), TFLOPS * 1e12
Both = tuple[float, float]


def questions() -> list[dict]:
    """The rows of answers.csv, numbers as numbers."""
    with open(ANSWERS, encoding="utf-8", newline="") as file:
        return [{**row, **{key: int(row[key]) for key in WHOLE_NUMBERS}, "answer": float(row["answer"] or "nan")}
                for row in csv.DictReader(file)]


def sizes(row: dict) -> dict:
    """What a peer must be told of a model. largest: the largest of its modules that have parameters of their own."""
    shape = SHAPES[row["model"]]
    return {"layers": shape.layers, "width": shape.width, "heads": shape.heads, "kv_heads": shape.kv_groups,
            "ffn": shape.ffn_size, "vocabulary": shape.vocabulary, "sequence": shape.sequence,
            "parameters": round(shape.parameters()), "largest": shape.width * max(shape.vocabulary, shape.ffn_size)}


def layout_of(row: dict) -> Layout:
    return Layout(dp=row["dp"], tp=row["tp"], pp=row["pp"], zero=row["zero"], micro_batch=row["micro_batch"],
                  sequence_parallel=row["sp"] > 1, recompute=row["recompute"])


def as_llm_analysis(shape: ModelShape) -> ModelShape:
    """A model as llm-analysis counts its parameters."""
    return replace(shape, gated=False, tied=True, biases=False, norm_vectors=1, learned_positions=False)


# ── memory ──


def deepspeed_state(shape: ModelShape, row: dict) -> Both:
    """ZeRO-2: 2 + 18/N bytes a parameter for the paper's 2 + 14/N: gradients in fp16 and in fp32. ZeRO-3: 18/N for 16/N,
    gradients in fp32; those in fp16 count, with gathered weights, for the largest module that has parameters of its own, a
    matrix, where the planner gathers a layer, or the embedding or the head if that is larger. ZeRO-1 has no estimator."""
    state = DEEPSPEED_20 if row["zero"] == 2 else MEGATRON_18
    theirs = sum(sharded_state(shape.parameters(), row["dp"], row["zero"], state))
    return sum(model_state(shape, layout_of(row), ZERO_16)), theirs + 4 * sizes(row)["largest"] * (row["zero"] == 3)


def deepspeed_print(shape: ModelShape, row: dict) -> Both:
    """What it prints as GB are GiB: more bytes, and yet a smaller number."""
    plain, theirs = deepspeed_state(shape, row)
    return gigabytes(plain, "GB"), gigabytes(theirs, "GiB")


def parameters(shape: ModelShape, row: dict) -> Both:
    """No biases, no positions, norms of one vector; the head is always the embedding, and an FFN always has two matrices, so
    that Llama 3 8B and 70B (8.03 and 70.55 billion in the released weights) lose a third of their FFN."""
    return shape.parameters(), as_llm_analysis(shape).parameters()


def state(shape: ModelShape, row: dict) -> Both:
    """18 bytes a parameter for ZeRO's 16 (gradients in fp32), and its count of parameters. Tensor-parallel ranks split
    norms, too; every stage has the last norm; with ZeRO-3 no layer is ever gathered."""
    own, layout = as_llm_analysis(shape), layout_of(row)
    norms, last = own.layers / row["pp"] * 2 * own.width, own.width
    split = (norms + last) * (1 / row["tp"] - 1) + last * (row["pp"] > 1)
    theirs = sharded_state(device_parameters(own, layout) + split, row["dp"], row["zero"], MEGATRON_18)
    return sum(model_state(shape, layout, ZERO_16)), sum(theirs)


def device(shape: ModelShape, row: dict) -> Both:
    """The data sheet's 80 GB are taken as GiB."""
    return A100.device.memory_bytes, 80 * GIGABYTES["GiB"]


def layer(shape: ModelShape, row: dict) -> Both:
    """No dropout mask behind the FFN: 33sbh for the paper's 34. By default norms' inputs are in fp32 (4sbh more), and fused
    attention keeps its result twice and 8 bytes a row and head (4sbh + 4as more; torch keeps what the planner says: tested).
    With full recomputation a layer's input is split over TP even without SP. Gated FFNs count two arrays, not three; shared
    key-value heads count as if each head had its own; and masks count in models that train without dropout."""
    layout, default = layout_of(row), row["settings"] == "default"
    own = replace(as_llm_analysis(shape), kv_heads=None)
    tokens = shape.sequence * row["micro_batch"]
    extra = (4 * default - 1) * tokens * shape.width / row["sp"]
    if default and row["recompute"] == "none":
        extra += 4 * tokens * (shape.width + shape.heads) / row["tp"]
    if row["recompute"] == "full":
        extra = 2 * tokens * shape.width * (1 / row["tp"] - 1 / row["sp"])
    return (layer_activations(shape, layout, dropout=not shape.gated, fused_attention=default),
            layer_activations(own, layout, fused_attention=default) + extra)


def all_layers(shape: ModelShape, row: dict) -> Both:
    """As for a layer. Logits (in 2 bytes) and the last norm's input count on every stage, and twice if the micro-batch is 1;
    the layer that is computed again and the embedding's dropout mask do not count."""
    layout, default = layout_of(row), row["settings"] == "default"
    plain = activations(shape, layout, layout.micro_batches(GLOBAL_BATCH), fused_attention=default)
    tokens, times = shape.sequence * row["micro_batch"], 2 if row["micro_batch"] == 1 else 1
    norm = (4 if default else 2) * tokens * shape.width / row["sp"] * (row["recompute"] != "full")
    logits = 2 * tokens * shape.vocabulary / row["tp"]
    return plain, shape.layers * layer(shape, row)[1] + times * (logits + norm)


# ── FLOPs and times ──


def forward(shape: ModelShape, row: dict) -> Both:
    """The same for GPT. Whatever the size of the FFN, it counts two matrices of 4h columns."""
    own = replace(as_llm_analysis(shape), ffn=None)
    return shape.forward_flops(row["micro_batch"]), own.forward_flops(row["micro_batch"])


def hardware(shape: ModelShape, row: dict) -> Both:
    """The same with no or selective recomputation; with full, it computes the logits again, too."""
    return _hardware(shape, row["recompute"], row["micro_batch"])


def _hardware(shape: ModelShape, recompute: str, batch: int) -> Both:
    flops = shape.hardware_flops(batch, recompute)
    return flops, flops + shape.forward_flops(batch).part("logits") * (recompute == "full")


def step(shape: ModelShape, row: dict) -> Both:
    """Its FLOPs over devices and speed, and nothing else. The planner, told that matrix products run at this speed, adds
    bubble, messages, elementwise work and the optimizer, and gives all logits to the last stage, once."""
    layout = layout_of(row)
    ours = plan(shape, layout, A100, GLOBAL_BATCH, assumptions=Assumptions(efficiency=SPEED / PEAK))
    logits = shape.forward_flops(GLOBAL_BATCH).part("logits")
    elsewhere = 3 * logits * (1 - 1 / row["pp"]) / (row["dp"] * row["tp"] * SPEED)
    once_more = logits / (layout.devices * SPEED) * (row["recompute"] == "full")
    return ours.time, ours.times["compute"] - elsewhere + once_more


def days(shape: ModelShape, row: dict) -> Both:
    """300 billion tokens at 140 TFLOP/s a device: whole steps only, and the logits again."""
    layout, tokens = layout_of(row), GLOBAL_BATCH * shape.sequence
    theirs = days_for_tokens(TOKENS // tokens * tokens, tokens, step(shape, row)[1])
    return training_days(shape, TOKENS, layout.devices, SPEED, row["recompute"]), theirs


def utilization(shape: ModelShape, row: dict) -> Both:
    """Of the same 140 TFLOP/s of hardware FLOPs more is recomputation: the logits again."""
    devices = layout_of(row).devices
    return tuple(mfu(shape, GLOBAL_BATCH, step_time(flops, devices, SPEED), devices, PEAK)
                 for flops in _hardware(shape, row["recompute"], GLOBAL_BATCH))


def messages(shape: ModelShape, row: dict) -> Both:
    """Of a micro-batch it counts the forward pass: two all-reduces a layer, without latency; no training time contains them.
    The planner counts four, with full recomputation six, with SP five, since inputs are gathered again; with latency."""
    layout = layout_of(row)
    flows = step_traffic(shape, layout, GLOBAL_BATCH, ZERO_16, A100.devices_per_node, axes=["TP"]).flows
    at_once = replace(A100, inside=replace(A100.inside, latency_s=0.0))
    ours, theirs = (sum(flow_time(flow, cluster) for flow in flows) / layout.micro_batches(GLOBAL_BATCH)
                    for cluster in (A100, at_once))
    return ours, theirs * 2 / (6 if row["recompute"] == "full" else 5 if layout.sequence_parallel else 4)


LLM_ANALYSIS = {
    "parameters": parameters, "state": state, "memory of an A100": device, "activations of a layer": layer,
    "activations": all_layers, "forward FLOPs": forward, "FLOPs with recomputation": hardware, "step": step, "days": days,
    "MFU": utilization, "TP messages": messages}
OURS: dict[tuple[str, str], Callable[[ModelShape, dict], Both]] = {
    ("deepspeed", "state"): deepspeed_state, ("deepspeed", "state, as printed"): deepspeed_print,
    **{("llm-analysis", question): answer for question, answer in LLM_ANALYSIS.items()}}


def ours(row: dict) -> Both:
    """The planner's answer, and its answer with the peer's conventions."""
    return tuple(map(float, OURS[row["peer"], row["question"]](SHAPES[row["model"]], row)))


def reason(row: dict) -> str:
    """Why the two differ."""
    return " ".join(OURS[row["peer"], row["question"]].__doc__.split())
