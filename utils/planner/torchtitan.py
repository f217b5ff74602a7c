"""A job from torchtitan's config file (TOML): degrees, batch, sequence, recomputation, number format.

Keys are those of torchtitan 0.2; older ones ([experimental], training.batch_size and the like) are read too.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from utils.checking import require_count
from utils.deadlocks.errors import BadType, BadValue
from utils.planner.conventions import BFLOAT16_8
from utils.planner.job import Job
from utils.planner.layout import Layout
from utils.planner.published import model_named, shape_of
from utils.planner.shape import ModelShape

MODELS = {
    ("llama3", "8B"): "Llama 3 8B", ("llama3", "70B"): "Llama 3 70B", ("llama3", "405B"): "Llama 3 405B",
    ("llama2", "7B"): "Llama 2 7B", ("llama2", "13B"): "Llama 2 13B", ("llama2", "70B"): "Llama 2 70B",
    ("deepseek_v3", "16B"): "DeepSeek-V2-Lite", ("deepseek_v3", "671B"): "DeepSeek-V3",
}
# What we call it: the places where it can stand, the newest first, and torchtitan's default.
KEYS = {
    "replicate": (("parallelism.data_parallel_replicate_degree", "training.data_parallel_replicate_degree"), 1),
    "shard": (("parallelism.data_parallel_shard_degree", "training.data_parallel_shard_degree",
               "training.data_parallel_degree"), -1),
    "tp": (("parallelism.tensor_parallel_degree", "training.tensor_parallel_degree"), 1),
    "pp": (("parallelism.pipeline_parallel_degree", "experimental.pipeline_parallel_degree",
            "training.pipeline_parallel_degree"), 1),
    "cp": (("parallelism.context_parallel_degree", "experimental.context_parallel_degree"), 1),
    "ep": (("parallelism.expert_parallel_degree",), 1),
    "schedule": (("parallelism.pipeline_parallel_schedule", "experimental.pipeline_parallel_schedule"), "1F1B"),
    "layers_per_stage": (("parallelism.pipeline_parallel_layers_per_stage",), None),
    "pipeline_micro_batch": (("parallelism.pipeline_parallel_microbatch_size",), 1),
    "pipeline_micro_batches": (("experimental.pipeline_parallel_microbatches",), None),
    "reshard": (("parallelism.fsdp_reshard_after_forward",), "default"),
    "async_tp": (("parallelism.enable_async_tensor_parallel", "experimental.enable_async_tensor_parallel"), False),
    "local_batch": (("training.local_batch_size", "training.batch_size"), 8),
    "global_batch": (("training.global_batch_size",), -1),
    "sequence": (("training.seq_len",), 2048),
    "dtype": (("training.dtype",), "float32"),
    "recompute": (("activation_checkpoint.mode",), "selective"),
    "selective": (("activation_checkpoint.selective_ac_option",), "op"),
    "converters": (("model.converters",), ()),
    "name": (("model.name",), ""), "flavor": (("model.flavor",), ""),
}
ASYNC_TP = 0.8  # of gathers and reductions that run beside their own product, as in frameworks.py
SCHEDULES = {"1f1b": "1F1B", "gpipe": "GPipe", "interleaved1f1b": "interleaved", "interleaved_1f1b": "interleaved"}
# What changes memory or time and isn't planned: key → a sentence.
NOT_PLANNED = {
    "training.enable_cpu_offload": "Parameters in the host's memory (enable_cpu_offload) aren't modelled.",
    "activation_checkpoint.selective_ac_option": "Selective recomputation is planned as that of operations (\"op\"), not of "
                                                 "every n-th layer (selective_ac_option).",
    "parallelism.expert_tensor_parallel_degree": "Experts are planned as split over the same tensor-parallel ranks.",
    "parallelism.pipeline_parallel_split_points": "Stages are planned as even as can be, not by their split points.",
    "experimental.pipeline_parallel_split_points": "Stages are planned as even as can be, not by their split points.",
    "parallelism.pipeline_parallel_schedule_csv": "A schedule of one's own (CSV) isn't read.",
    "fault_tolerance.enable": "torchft's replicas aren't modelled.",
}


def from_torchtitan(source: str | Path, devices: int | None = None, shape: ModelShape | str | None = None) -> Job:
    """A job from a config file, or its text. devices: needed where data_parallel_shard_degree is -1, "all the others".

    shape: the model, if the file names none that is published here (model.name and model.flavor).
    With a pipeline, torchtitan keeps gathered parameters until the step's end ("default"): reshard=False.
    Raises: OSError, TypeError; ValueError for what is no TOML, and for degrees that can't be.
    """
    config = _read(source)
    found = {what: _first(config, *places) for what, places in KEYS.items()}
    for what in ("replicate", "tp", "pp", "cp", "ep", "local_batch", "sequence", "pipeline_micro_batch"):
        require_count(KEYS[what][0][0], found[what])
    for what in ("shard", "global_batch", "layers_per_stage", "pipeline_micro_batches"):
        if found[what] is not None:
            require_count(KEYS[what][0][0], found[what], least=-1)
    found |= {what: str(found[what]) for what in ("name", "flavor")}
    ignored = [sentence for key, sentence in NOT_PLANNED.items() if config.get(key) and _matters(key, found)]
    model = _model(found, shape, ignored)
    shard = _shard_degree(found, devices)
    layout = _layout(found, shard, model, ignored)
    local, copies = found["local_batch"], layout.dp
    batch = found["global_batch"] if found["global_batch"] > 0 else local * copies
    if layout.pp > 1 and batch > local * copies:
        ignored.append("The pipeline is planned as filled once a step; torchtitan fills it for each local batch, "
                       f"{batch // (local * copies)} times a step.")
    eight_bits = any(name in str(found["converters"]) for name in ("float8", "mx")) or bool(
        config.get("float8.enable_float8_linear"))
    changes: dict[str, Any] = {"pipelined_tp": ASYNC_TP} if found["async_tp"] and layout.tp > 1 else {}
    if eight_bits and not any(key.endswith("enable_fsdp_float8_all_gather") and value for key, value in config.items()):
        changes["gathered_input_bytes"] = None
    read = {key for places, _ in KEYS.values() for key in places} | NOT_PLANNED.keys()
    others = [key for key in config if key not in read and not key.endswith("enable_fsdp_float8_all_gather")]
    if others:
        ignored.append(f"Without effect on a plan, or not known: {', '.join(others)}.")
    return Job("torchtitan", model, layout, batch, "float8_e4m3fn" if eight_bits else "bfloat16", changes,
               BFLOAT16_8 if found["dtype"] == "bfloat16" else None, ignored=tuple(ignored))


def _matters(key: str, found: Mapping[str, Any]) -> bool:
    """Whether a key that isn't planned has an effect beside the others."""
    if key.endswith("selective_ac_option"):
        return found["recompute"] == "selective" and found["selective"] != "op"
    if key.endswith("expert_tensor_parallel_degree"):
        return found["ep"] > 1 and found["tp"] > 1
    return True


def _read(source: str | Path) -> dict[str, Any]:
    """Every entry by its dotted key."""
    if not isinstance(source, str | Path):
        raise BadType(f"a torchtitan config is a path or the file's text; got {source!r}")
    is_text = isinstance(source, str) and "\n" in source
    text = source if is_text else Path(source).read_text(encoding="utf-8")
    try:
        config = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadValue(f"{'the text' if is_text else source} is no TOML: {error}") from None
    return dict(_flat(config, ""))


def _flat(config: Mapping[str, Any], before: str):
    for key, value in config.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{before}{key}.")
        else:
            yield before + key, value


def _first(config: Mapping[str, Any], places: tuple[str, ...], default: Any) -> Any:
    return next((config[place] for place in places if place in config), default)


def _model(found: Mapping[str, Any], shape: ModelShape | str | None, ignored: list[str]) -> ModelShape | None:
    if shape is not None:
        return shape_of(shape).with_sequence(found["sequence"])
    known = MODELS.get((found["name"], found["flavor"]))
    if known is None:
        named = " ".join(filter(None, (found["name"], found["flavor"]))) or "without a name"
        ignored.append(f"The model {named} is none that is published here; give its shape.")
        return None
    return model_named(known).with_sequence(found["sequence"])


def _shard_degree(found: Mapping[str, Any], devices: int | None) -> int:
    others = found["replicate"] * found["tp"] * found["pp"] * found["cp"]
    if devices is not None:
        require_count("devices", devices)
        shard = devices // others
        if shard * others != devices or found["shard"] not in (-1, shard):
            degrees = " · ".join(f"{what} {found[what]}" for what in ("replicate", "shard", "tp", "pp", "cp"))
            raise BadValue(f"{degrees} is not {devices:,} devices")
        return shard
    if found["shard"] == -1:
        raise BadValue("data_parallel_shard_degree is -1, all the other devices: say how many there are in all (devices=)")
    require_count("data_parallel_shard_degree", found["shard"])
    return found["shard"]


def _layout(found: Mapping[str, Any], shard: int, model: ModelShape | None, ignored: list[str]) -> Layout:
    copies, pp, cp = found["replicate"] * shard, found["pp"], found["cp"]
    zero = 3 if shard * cp > 1 else 0
    keeps = zero == 3 and (found["reshard"] == "never" or (found["reshard"] == "default" and pp > 1))
    schedule, chunks = _schedule(found, model, ignored) if pp > 1 else ("1F1B", 1)
    micro_batch = found["local_batch"]
    if pp > 1:
        micro_batch = found["pipeline_micro_batch"]
        if found["pipeline_micro_batches"]:
            micro_batch = max(found["local_batch"] // found["pipeline_micro_batches"], 1)
    recompute = found["recompute"]
    if recompute not in ("none", "selective", "full"):
        ignored.append(f"Recomputation by {recompute!r} isn't modelled and is planned as selective.")
        recompute = "selective"
    layout = Layout(dp=copies, tp=found["tp"], pp=pp, cp=cp, ep=found["ep"], zero=zero, schedule=schedule, chunks=chunks,
                    shard=shard * cp if found["replicate"] > 1 and zero else None, sequence_parallel=found["tp"] > 1,
                    micro_batch=micro_batch, recompute="products" if recompute == "selective" else recompute,
                    reshard=not keeps)
    uneven = model is not None and bool(model.layers % (pp * chunks))
    return replace(layout, uneven_stages=uneven)


def _schedule(found: Mapping[str, Any], model: ModelShape | None, ignored: list[str]) -> tuple[str, int]:
    """(the planner's schedule, chunks a device)"""
    name = str(found["schedule"])
    schedule = SCHEDULES.get(name.casefold())
    if schedule is None:
        ignored.append(f"The schedule {name} isn't modelled and is planned as ZB-H1.")
        return "ZB-H1", 1
    if schedule != "interleaved":
        return schedule, 1
    if model is None or not found["layers_per_stage"]:
        return schedule, 2  # torchtitan's own choice
    chunks = -(-model.layers // (found["layers_per_stage"] * found["pp"]))
    return (schedule, chunks) if chunks > 1 else ("1F1B", 1)
