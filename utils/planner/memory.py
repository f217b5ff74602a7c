"""Bytes on one device: parameters, gradients, optimizer state, activations, on every stage and on the fullest.

Left out: what a kernel needs while it runs; the framework itself, communication buffers and fragmentation are counted only
as far as they are given.
Letters as in shape.py; c context-parallel ranks, B sequences of a micro-batch, p stages of devices, v chunks a device,
m micro-batches, i the device's place in the pipeline, N ranks that ZeRO shards over, z bytes of a number that is kept.
"""

import functools
from dataclasses import replace

from utils.checking import require_count, require_flag, require_kind, require_number, require_positive
from utils.deadlocks.errors import BadValue
from utils.planner.conventions import StateBytes
from utils.planner.explained import Explained, explain, given, total
from utils.planner.layout import ZERO_STAGES, Layout, reasons_against
from utils.planner.shape import ModelShape

KORTHIKANTI = "Korthikanti 2022, 2205.05198, section 4"
ZERO = "Rajbhandari 2020, 1910.02054, section 5"
QI = "Qi 2024, 2401.10241, section 2"
IN_FLIGHT = {"GPipe": ("m", "Huang 2019, 1811.06965"), "1F1B": ("min(p - i, m)", "Narayanan 2021, 2104.04473"),
             "interleaved": ("min((v*p + p - 1 - 2*i)/v, m)", "Korthikanti 2022: p(1 + (p−1)/(pv)) on the first"),
             "ZB-H1": ("min(p, m)", QI), "ZB-H2": ("min(2*p - 1, m)", QI)}


def device_memory(shape: ModelShape, layout: Layout, global_batch: int, state: StateBytes, dropout: bool = True,
                  fused_attention: bool = False, number_bytes: float = 2, logit_bytes: float = 4, fragmentation: float = 0,
                  library_bytes: float = 0, operand_bytes: float | None = None) -> Explained:
    """Bytes on the fullest device, by category.

    global_batch: sequences a step. state: bytes a parameter, such as conventions.ZERO_16. dropout: its masks are kept, as
    in Korthikanti's 34; models of recent years train without (False). fused_attention: FlashAttention keeps no scores, only
    one number a row and head, in fp32. number_bytes: of a number that is kept for the backward pass. logit_bytes,
    fragmentation, library_bytes: as in Assumptions.
    Raises: ValueError with every reason why the layout cannot run.
    Source: ZeRO 4P + 12P/N, 2P + 14P/N, 16P/N (1910.02054); activations sbh(34 + 5as/h) and what becomes of it (2205.05198).
    """
    require_kind("shape", shape, ModelShape)
    require_kind("layout", layout, Layout)
    require_kind("state", state, StateBytes)
    require_flag("dropout", dropout)
    require_flag("fused_attention", fused_attention)
    require_positive("number_bytes", number_bytes)
    stages = memory_by_stage(shape, layout, global_batch, state, dropout, fused_attention, number_bytes, False, logit_bytes,
                             fragmentation, library_bytes, operand_bytes)
    return max(stages, key=float)


def memory_by_stage(shape: ModelShape, layout: Layout, global_batch: int, state: StateBytes, dropout: bool = True,
                    fused_attention: bool = False, number_bytes: float = 2, all_stages: bool = True, logit_bytes: float = 4,
                    fragmentation: float = 0, library_bytes: float = 0,
                    operand_bytes: float | None = None) -> list[Explained]:
    """Bytes on a device at each place of the pipeline; arguments as for device_memory.

    all_stages=False: only at the last, and at the first with each mixture of layers, which is the fullest of its kind,
    because no later one holds more micro-batches.
    """
    reasons = reasons_against(layout, shape, global_batch=global_batch)
    if reasons:
        raise BadValue(f"{shape.name} cannot run as {layout}: {' '.join(reasons)}")
    mixtures = device_layers(shape, layout.pp, layout.chunks)
    chosen = range(layout.pp) if all_stages else sorted({*map(mixtures.index, set(mixtures)), 0, layout.pp - 1})
    micro_batches = layout.micro_batches(global_batch)
    devices = []
    for place in chosen:
        parts = [*model_state(shape, layout, state, place),
                 activations(shape, layout, micro_batches, dropout, fused_attention, place, number_bytes, logit_bytes,
                             operand_bytes)]
        if fragmentation:
            parts.append(explain("held by the allocator, not in use", "bytes", "share*used", share=fragmentation,
                                 used=sum(map(float, parts))))
        if library_bytes:
            parts.append(given(library_bytes, "bytes", "framework and libraries"))
        devices.append(total(f"device at place {place} of {layout.pp}", "bytes", parts))
    return devices


@functools.cache
def device_layers(shape: ModelShape, pp: int, chunks: int = 1) -> tuple[tuple[int, int], ...]:
    """For each device of a pipeline (layers without experts, layers with).

    Where stages differ, the last and the first have a layer less, which makes room for head and embedding, as in Llama 3.
    The fullest has never fewer than ⌈layers/pp⌉.
    """
    stages = pp * chunks
    sizes = [-(-shape.layers // stages)] * stages
    ends = [place for pair in zip(reversed(range(stages)), range(stages), strict=True) for place in pair]
    for place in ends[:sum(sizes) - shape.layers]:
        sizes[place] -= 1
    dense = shape.layers - shape.moe_layers
    kinds = [min(max(dense - start, 0), size) for start, size in zip(_starts(sizes), sizes, strict=True)]
    return tuple((sum(kinds[device::pp]), sum(sizes[device::pp]) - sum(kinds[device::pp])) for device in range(pp))


def layer_counts(shape: ModelShape, layout: Layout, moe_only: bool = False) -> list[int]:
    """Layers, or those with experts, of the device at each place of the pipeline."""
    return [moe if moe_only else dense + moe for dense, moe in device_layers(shape, layout.pp, layout.chunks)]


def _starts(sizes: list[int]) -> list[int]:
    return [sum(sizes[:stage]) for stage in range(len(sizes))]


# What the model and its optimizer take


def device_parameters(shape: ModelShape, layout: Layout, place: int = 0) -> Explained:
    """Parameters that a device holds before ZeRO shards them; a last stage has a copy of a tied embedding."""
    _require_place(layout, place)
    return total("parameters", "parameters", _parameter_parts(shape, layout, place))


def _require_place(layout: Layout, place: int) -> None:
    """Raises: TypeError, ValueError for a place that the pipeline has not."""
    require_kind("layout", layout, Layout)
    require_count("place", place, least=0)
    if place >= layout.pp:
        raise BadValue(f"places of a pipeline of {layout.pp} stages are 0 to {layout.pp - 1}; got {place}")


def _parameter_parts(shape: ModelShape, layout: Layout, place: int) -> list[Explained]:
    dense, moe = device_layers(shape, layout.pp, layout.chunks)[place]
    parts = [explain(f"{count} layers" + " with experts" * with_experts, "parameters", "layers*layer", layers=count,
                     layer=layer_parameters(shape, with_experts, layout))
             for count, with_experts in ((dense, False), (moe, True)) if count]
    return parts + _ends(shape, layout, place)


def _ends(shape: ModelShape, layout: Layout, place: int) -> list[Explained]:
    """The embedding on the first device, the last norm and the head on the last."""
    first = [shape.embedding_parameters(layout.tp)] * (place == 0)
    return first + [shape.end_parameters(layout.tp, own_copy=layout.pp > 1)] * (place == layout.pp - 1)


def layer_parameters(shape: ModelShape, moe: bool, layout: Layout) -> Explained:
    """Of one layer on one rank of a layout, before ZeRO."""
    return _layer_parameters(shape, moe, layout.tp, layout.ep, layout.expert_tp)


@functools.cache
def _layer_parameters(shape: ModelShape, moe: bool, tp: int, ep: int, expert_tp: int | None) -> Explained:
    return shape.layer_parameters(moe, tp, ep, expert_tp)


def held_by_place(shape: ModelShape, layout: Layout) -> tuple[tuple[float, float], ...]:
    """For each place of the pipeline (parameters without routed experts, those of routed experts), before ZeRO."""
    return _held_by_place(shape, Layout(tp=layout.tp, pp=layout.pp, ep=layout.ep, chunks=layout.chunks,
                                        expert_tp=layout.expert_tp))


@functools.cache
def _held_by_place(shape: ModelShape, layout: Layout) -> tuple[tuple[float, float], ...]:
    """Of a layout that says nothing else."""
    held = []
    for place, (_, moe) in enumerate(device_layers(shape, layout.pp, layout.chunks)):
        routed = float(routed_parameters(shape, layout, moe)) if moe else 0.0
        held.append((float(device_parameters(shape, layout, place)) - routed, routed))
    return tuple(held)


def routed_parameters(shape: ModelShape, layout: Layout, moe_layers: int) -> Explained:
    """Parameters of routed experts that a device holds of so many layers, before ZeRO shards them."""
    of_a_layer = layer_parameters(shape, True, layout).part("routed experts")
    return explain("routed experts", "parameters", "layers*routed", layers=moe_layers, routed=of_a_layer)


def model_state(shape: ModelShape, layout: Layout, state: StateBytes, place: int = 0) -> list[Explained]:
    """Bytes of parameters, gradients and optimizer state on a device. place: its own in the pipeline, from 0.

    With ZeRO-3 also those of the largest layer while it is gathered, and of its gradients before they are reduced.
    """
    held, ranks = device_parameters(shape, layout, place), layout.shard_ranks
    moe = device_layers(shape, layout.pp, layout.chunks)[place][1]
    parts = _state_with_experts(shape, layout, state, held, moe) if moe else sharded_state(held, ranks, layout.zero, state)
    if layout.zero == 3 and ranks > 1:
        name, gathered = "largest layer, gathered, and its gradients", _largest_gathered(shape, layout, place)
        if not layout.reshard:
            name, gathered = "all layers, gathered, and their gradients", held
        parts.append(explain(name, "bytes", "(weight + gradient)*P", weight=state.gathered_bytes,
                             gradient=state.reduced_bytes, P=gathered))
    return parts


def _largest_gathered(shape: ModelShape, layout: Layout, place: int) -> Explained:
    """What ZeRO-3 gathers at once: a layer, or the embedding or the head where they are larger."""
    kinds = enumerate(device_layers(shape, layout.pp, layout.chunks)[place])
    units = [layer_parameters(shape, bool(moe), layout) for moe, count in kinds if count]
    return max(units + _ends(shape, layout, place), key=float)


def _state_with_experts(shape: ModelShape, layout: Layout, state: StateBytes, held: Explained, moe: int) -> list[Explained]:
    """Routed experts have fewer copies than the rest, dp·cp/ep, and so fewer ranks to be sharded over."""
    ranks = layout.shard_ranks
    routed = routed_parameters(shape, layout, moe)
    rest = explain("parameters without routed experts", "parameters", "held - routed", held=held, routed=routed)
    both = zip(sharded_state(rest, ranks, layout.zero, state),
               sharded_state(routed, layout.expert_ranks(ranks), layout.zero, state), strict=True)
    return [total(of_rest.name, "bytes", [of_rest, of_experts]) for of_rest, of_experts in both]


def sharded_state(parameters: float, ranks: int, zero: int, state: StateBytes) -> list[Explained]:
    """Bytes for parameters, gradients, optimizer state of P parameters, sharded over N ranks by ZeRO's stage 0 to 3."""
    require_number("parameters", parameters)
    require_count("ranks", ranks)
    require_kind("state", state, StateBytes)
    if parameters < 0:
        raise BadValue(f"parameters must not be negative; got {parameters!r}")
    if zero not in ZERO_STAGES or isinstance(zero, bool):
        raise BadValue(f"zero is a stage from 0 to 3; got {zero!r}")
    kinds = {"parameters": (state.parameter, 3), "gradients": (state.gradient, 2), "optimizer state": (state.optimizer, 1)}
    return [explain(name, "bytes", "each*P/N" if zero >= since else "each*P", ZERO, each=each, P=parameters, N=ranks)
            for name, (each, since) in kinds.items()]


# What the forward pass keeps


def in_flight(layout: Layout, micro_batches: int, place: int = 0) -> Explained:
    """Micro-batches whose activations a device holds at most: GPipe m, 1F1B p, interleaved p(1 + (p−1)/(pv)), ZB-H2 2p−1."""
    _require_place(layout, place)
    formula, source = IN_FLIGHT[layout.schedule]
    if layout.pp == 1:
        formula, source = "1", ""
    return explain("micro-batches in flight", "", formula, source, p=layout.pp, v=layout.chunks, m=micro_batches, i=place)


def activations(shape: ModelShape, layout: Layout, micro_batches: int, dropout: bool = True, fused_attention: bool = False,
                place: int = 0, number_bytes: float = 2, logit_bytes: float = 4,
                operand_bytes: float | None = None) -> Explained:
    """Bytes of activations on a device: layers times micro-batches in flight, what is computed again, embedding, logits."""
    dense, moe = device_layers(shape, layout.pp, layout.chunks)[place]
    flying = in_flight(layout, micro_batches, place)
    kinds = [(count, with_experts, _kept_of_a_layer(shape, layout, with_experts, dropout, fused_attention, number_bytes,
                                                    operand_bytes))
             for count, with_experts in ((dense, False), (moe, True)) if count]
    away = min(layout.offload_layers, dense + moe)
    parts = []
    for count, with_experts, layer in kinds:
        formula = "(layers - away*layers/all)*flying*layer" if away else "layers*flying*layer"
        parts.append(explain(f"{count} layers" + " with experts" * with_experts, "bytes", formula, layers=count,
                             flying=flying, layer=layer, away=away, all=dense + moe))
    if away:  # one on its way to the host, or from it, while its neighbour is computed
        parts.append(explain("layers on their way to the host and back", "bytes", "ways*layer", ways=min(away, 2),
                             layer=max((layer for *_, layer in kinds), key=float)))
    again = _computed_again(layout, _layer_parts(shape, layout, moe > 0, dropout, fused_attention, number_bytes,
                                                 operand_bytes))
    common = {"B": layout.micro_batch, "c": layout.cp, "t": layout.tp, "T": _split(layout), "z": number_bytes}
    if place == 0 and dropout:
        parts.append(shape.explain("embedding's dropout mask", "bytes", "flying*B*s/c*h/T", KORTHIKANTI, flying=flying,
                                   **common))
    if place == layout.pp - 1:
        kept = micro_batches if layout.schedule == "GPipe" and layout.pp > 1 else 1
        head = shape.explain("last norm, head, logits", "bytes", "kept*B*s/c*(2*z*h/T + each*V/t)", KORTHIKANTI, kept=kept,
                             each=logit_bytes, **common)
        # a micro-batch's logits are gone before its last layer is computed again
        again = [*again, head] if kept > 1 else [max([*again, head], key=float)]
    return total("activations", "bytes", [*parts, *again])


def offloaded_bytes(shape: ModelShape, layout: Layout, micro_batches: int, dropout: bool, fused_attention: bool,
                    number_bytes: float, operand_bytes: float | None) -> Explained:
    """What a device sends to its host in a step, and gets back: of the fullest one, by what a layer keeps."""
    own = max(device_layers(shape, layout.pp, layout.chunks), key=sum)
    layers = [_kept_of_a_layer(shape, layout, with_experts, dropout, fused_attention, number_bytes, operand_bytes)
              for with_experts, count in enumerate(own) if count]
    return explain("sent to the host in a step", "bytes", "m*layers*layer", m=micro_batches,
                   layers=min(layout.offload_layers, sum(own)), layer=max(layers, key=float))


def _kept_of_a_layer(shape: ModelShape, layout: Layout, moe: bool, dropout: bool, fused_attention: bool, number_bytes: float,
                     operand_bytes: float | None) -> Explained:
    """The mean of those that are computed again and the others."""
    layer = layer_activations(shape, layout, moe, dropout, fused_attention, number_bytes, operand_bytes)
    share = layout.recomputed_share(shape.layers)
    if share == 1 or layout.recompute == "none":
        return layer
    whole = layer_activations(shape, replace(layout, recompute="none", recompute_layers=None), moe, dropout, fused_attention,
                              number_bytes, operand_bytes)
    return explain("a layer in the mean", "bytes", "share*layer + (1 - share)*whole", layer=layer, whole=whole, share=share)


def _split(layout: Layout) -> int:
    """Among how many ranks what tensor parallel leaves whole is split."""
    return layout.tp if layout.sequence_parallel else 1


def _computed_again(layout: Layout, layer: tuple[Explained, ...]) -> list[Explained]:
    """What one layer needs while its forward runs again."""
    again = {"none": [], "selective": [layer[SCORES]]}.get(layout.recompute, layer)
    return [total("one layer computed again", "bytes", again)] if again else []


def layer_activations(shape: ModelShape, layout: Layout, moe: bool = False, dropout: bool = True,
                      fused_attention: bool = False, number_bytes: float = 2,
                      operand_bytes: float | None = None) -> Explained:
    """Bytes that one layer keeps of one micro-batch.

    For GPT sbh(34 + 5as/h); TP sbh(10 + 24/t + 5as/(ht)); with SP all of it /t; selective recomputation leaves out 5as/h;
    full keeps the layer's input, 2sbh, which SP splits too. "products" keeps the layer's input, the attention core's output
    and what every second product writes: queries or keys and values, half of the FFN's hidden columns, its output.
    Source: 2205.05198, table 2.
    """
    require_kind("shape", shape, ModelShape)
    require_kind("layout", layout, Layout)
    if layout.recompute == "full":
        return shape.explain("input of a layer", "bytes", "z*B*s/c*h/T", KORTHIKANTI, B=layout.micro_batch, c=layout.cp,
                             z=number_bytes, T=_split(layout))
    if layout.recompute in KEPT_PRODUCTS:
        name, attention, ffn = KEPT_PRODUCTS[layout.recompute]
        columns = ffn.replace("f", "k*x") if moe else ffn
        return shape.explain(name, "bytes", f"z*B*s/c*(2*h/T + ({attention} + {columns})/t)", "our own count",
                             B=layout.micro_batch, c=layout.cp, t=layout.tp, z=number_bytes, T=_split(layout))
    parts = list(_layer_parts(shape, layout, moe, dropout, fused_attention, number_bytes, operand_bytes))
    if layout.recompute == "selective":
        del parts[SCORES]
    return total("activations of a layer", "bytes", parts)


# What is kept of the products with weights, beside the layer's input and its attention's output.
KEPT_PRODUCTS = {"products": ("every second product of a layer", "2*a*d + g*d", "f*(m - 1)/2"),
                 "elementwise": ("products of a layer", "a*d + 2*g*d", "f*(m - 1)")}
SCORES = 1  # the attention core's place among a layer's parts


def _layer_parts(shape: ModelShape, layout: Layout, moe: bool, dropout: bool, fused: bool,
                 number_bytes: float, operand_bytes: float | None) -> tuple[Explained, ...]:
    return _activation_parts(shape, layout.micro_batch, layout.cp, layout.tp, _split(layout), moe, dropout, fused,
                             number_bytes, operand_bytes)


@functools.cache
def _activation_parts(shape: ModelShape, micro_batch: int, cp: int, tp: int, whole_over: int, moe: bool, dropout: bool,
                      fused: bool, number_bytes: float, operand_bytes: float | None) -> tuple[Explained, ...]:
    """z bytes a number (two, in print), o an input of a product, one a mask.

    Whole without SP: inputs of norms, attention, FFN, and masks. Experts: as many tokens on every rank (balanced).
    """
    values = {"B": micro_batch, "c": cp, "t": tp, "T": whole_over, "mask": int(dropout), "z": number_bytes}
    core = "B*s/c*4*a/t" if fused else "B*s/c*(z + (z + 1)*mask)*a*y/t"
    if operand_bytes in (None, number_bytes):
        inputs = "B*s/c*(z*n + z*min(n, 2) + mask*2)*h/T"
        attention = ("B*s/c*(z*(q + u + r) + (2*z*a*(d + r) + 2*z*a*d)/t)" if shape.latent_rank
                     else "B*s/c*(2*z*a*d/t + 2*z*max(g/t, 1)*d)")
        ffn = "B*s/c*(z*k*h/T + z*m*x*(k + S)/t)" if moe else "B*s/c*z*m*f/t"
    else:
        values["o"] = operand_bytes
        inputs = "B*s/c*(z*n + o*min(n, 2) + mask*2)*h/T"
        attention = ("B*s/c*(o*(q + u) + z*r + (2*z*a*(d + r) + (z + o)*a*d)/t)" if shape.latent_rank
                     else "B*s/c*((z + o)*a*d/t + 2*z*max(g/t, 1)*d)")
        ffn = "B*s/c*(o*k*h/T + (z*(m - 1) + o)*x*(k + S)/t)" if moe else "B*s/c*(z*(m - 1) + o)*f/t"
    lines = {"inputs of norms, attention, FFN, and masks": inputs, "attention core": core,
             "queries, keys, values, output": attention, "experts" if moe else "FFN": ffn}
    return tuple(shape.explain(name, "bytes", formula, KORTHIKANTI, **values) for name, formula in lines.items())
