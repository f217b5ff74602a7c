"""A plan as plain numbers, texts and lists, for json and whatever reads it."""

from dataclasses import fields, is_dataclass
from typing import Any

from utils.planner.explained import LETTERS, Explained


def plan_as_dict(plan: Any) -> dict[str, Any]:
    """What was asked and what came out. Sizes are bytes, times seconds, shares between 0 and 1; each number has its unit."""
    cluster, device = plan.cluster, plan.cluster.device
    return {
        "model": {**_entries(plan.shape), "parameters": float(plan.shape.parameters())},
        "layout": {**_entries(plan.layout), "devices": plan.layout.devices, "in_words": str(plan.layout)},
        "cluster": {"name": cluster.name, "n_devices": cluster.n_devices, "devices_per_node": cluster.devices_per_node,
                    "device": _entries(device), "inside": _entries(cluster.inside), "source": cluster.source,
                    "between": _entries(cluster.between) if cluster.between else None},
        "global_batch": plan.global_batch, "state": _entries(plan.state), "assumptions": _entries(plan.assumptions),
        "framework": plan.framework,
        **({"off": number_as_dict(plan.off)} if plan.framework else {}), "usable": plan.usable, "dropout": plan.dropout,
        "order": list(plan.order), "fits": bool(plan.fits),
        "figures": {name: number_as_dict(number) for name, number in {
            "memory": plan.memory, "limit": plan.limit, "sent": plan.traffic.sent, "inside": plan.traffic.inside,
            "between": plan.traffic.between, "model_flops": plan.model_flops, "hardware_flops": plan.hardware_flops,
            "time": plan.time, "bubble": plan.bubble(), "mfu": plan.mfu, "hfu": plan.hfu,
            "tokens_per_s_device": plan.tokens_per_s_device}.items()},
        "memory_by_stage": [number_as_dict(stage) for stage in plan.memory_by_stage],
    }


def number_as_dict(number: Explained) -> dict[str, Any]:
    """Name, value, unit, formula, the formula with values, what stands for each letter, source, and the parts of a sum."""
    letters = set(LETTERS.findall(number.expression))
    return {"name": number.name, "value": float(number), "unit": number.unit, "formula": number.formula,
            "with_values": number.filled if number.expression else "", "source": number.source,
            "values": {letter: float(value) for letter, value in number.values.items() if letter in letters},
            "parts": [number_as_dict(part) for part in number.parts]}


def _entries(of: Any) -> dict[str, Any]:
    """A dataclass' fields that have a value, by name."""
    named = {field.name: _plain(getattr(of, field.name)) for field in fields(of)}
    return {name: value for name, value in named.items() if value is not None}


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        return _entries(value)
    if isinstance(value, dict):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    return value if value is None or isinstance(value, str | bool | int) else float(value)
