"""What a plan assumes, in sentences for a reader who hasn't seen its arguments."""

from dataclasses import fields
from typing import Any

from utils.planner.explained import in_words, plain

AXES = ("tp", "cp", "ep", "pp", "dp")
SAID = {"dtype", "efficiency", "fused_attention", "causal", "rails", "attention_efficiency", "kernels", "link_efficiency",
        "memory_efficiency", "pipelined_tp", "contention", "call_s", "gather_ahead", "logit_bytes", "dispatch",
        "library_bytes", "fragmentation", "host_bytes_per_s", *(f"hidden_{axis}" for axis in AXES)}


def assumptions_in_words(plan: Any) -> list[str]:
    """A sentence for each thing that the plan takes for granted; settings that are as usual and say nothing are left out."""
    assumed, cluster = plan.assumptions, plan.cluster
    efficiency = assumed.efficiency or cluster.device.efficiency
    usable = in_words(plan.usable, "share")
    sentences = [
        *_framework(plan),
        f"Matrix products run in {assumed.dtype} and reach {in_words(efficiency, 'share')} of the {cluster.device.name}'s "
        f"peak, {in_words(plan.peak_flops, 'FLOP/s')}.",
        *_attention(assumed),
        f"A parameter costs {plan.state.total:g} bytes: {plan.state.parameter:g} for itself, {plan.state.gradient:g} for "
        f"its gradient, {plan.state.optimizer:g} for the optimizer.",
        f"{usable} of a device's {in_words(cluster.device.memory_bytes, 'bytes')} may be used.",
        "Attention is fused: its scores are never stored." if assumed.fused_attention else
        "Attention stores its scores for the backward pass.",
        "Scores that the causal mask hides are skipped." if assumed.causal else
        "Scores that the causal mask hides are computed, and counted in MFU.",
        "Dropout's masks are kept." if plan.dropout else "There is no dropout.",
        _hidden(assumed), *_beside(assumed), _links(cluster), *_reached(assumed), *_ports(assumed),
        f"The loss keeps {assumed.logit_bytes:g} bytes for each logit.", *_taken(assumed), *_host(plan),
    ]
    usual = type(assumed)()
    others = [field.name for field in fields(assumed) if field.name not in SAID
              and getattr(assumed, field.name) != getattr(usual, field.name)]
    return [*sentences, *(f"{name.replace('_', ' ').capitalize()}: {_shown(getattr(assumed, name))}." for name in others)]


def _framework(plan: Any) -> list[str]:
    if not plan.framework:
        return []
    off = in_words(round(float(plan.off), 3), "share")
    return [f"It is planned as {plan.framework} trains. Seconds that were planned so were off by {off} on the mean, "
            "compared with measured steps."]


def _host(plan: Any) -> list[str]:
    if not plan.layout.offload_layers:
        return []
    return [f"What {plan.layout.offload_layers} layers of each device keep goes to the host's memory and comes back, at "
            f"{in_words(plan.assumptions.host_bytes_per_s, 'bytes/s')} each way, beside the computation."]


def _attention(assumed: Any) -> list[str]:
    if assumed.attention_efficiency is None:
        return []
    return [f"Attention cores reach {in_words(assumed.attention_efficiency, 'share')} of the 16-bit peak."]


def _reached(assumed: Any) -> list[str]:
    """What collectives and kernels reach of data sheets."""
    if assumed.link_efficiency == assumed.memory_efficiency == 1:
        return []
    return [f"Collectives reach {in_words(assumed.link_efficiency, 'share')} of a link's bandwidth, and kernels "
            f"{in_words(assumed.memory_efficiency, 'share')} of the memory's. Small kernels are {assumed.kernels.name}."]


def _taken(assumed: Any) -> list[str]:
    """Memory that nothing of the model is in."""
    if not assumed.library_bytes and not assumed.fragmentation:
        return []
    return [f"The framework takes {in_words(assumed.library_bytes, 'bytes')} of memory for itself, and its allocator can't "
            f"use {in_words(assumed.fragmentation, 'share')} of what it holds."]


def _hidden(assumed: Any) -> str:
    """Which traffic runs beside computation."""
    shares = {axis.upper(): getattr(assumed, f"hidden_{axis}") for axis in AXES}
    shown = [f"{in_words(share, 'share')} of {axis}'s" for axis, share in shares.items() if share]
    if not shown:
        return "No communication is hidden behind computation."
    return f"Communication that runs beside computation, as far as there is any to hide behind: {', '.join(shown)}."


def _beside(assumed: Any) -> list[str]:
    """What else is said of communication, where it is."""
    pipelined, contention = in_words(assumed.pipelined_tp, "share"), in_words(assumed.contention, "share")
    said = {
        f"{pipelined} of tensor parallelism's gathers and reductions run beside their own product.": assumed.pipelined_tp,
        f"Hidden communication lengthens computation by {contention} of its own time.": assumed.contention,
        "With ZeRO-1 and 2, parameters are gathered beside the next forward pass.": assumed.gather_ahead,
        f"A collective takes {in_words(assumed.call_s, 's')} to start.": assumed.call_s,
        "A token is sent once to each node that has experts for it.": assumed.dispatch == "nodes"}
    return [sentence for sentence, holds in said.items() if holds]


def _links(cluster: Any) -> str:
    inside = f"{cluster.inside.name} carries {in_words(cluster.inside.bytes_per_s, 'B/s')} a device inside a node of " \
             f"{cluster.devices_per_node}"
    if cluster.between is None:
        return inside + "."
    return f"{inside}, {cluster.between.name} {in_words(cluster.between.bytes_per_s, 'B/s')} between nodes."


def _ports(assumed: Any) -> list[str]:
    if assumed.rails is None:
        return ["A group sends to other nodes through the ports of all its neighbours in a node."]
    return [f"A group sends to other nodes through {assumed.rails} port{'s' * (assumed.rails > 1)}."]


def _shown(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(getattr(value, "name", value))
    return plain(value)
