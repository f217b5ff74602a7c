"""The command line's options, and what they say: a model, a cluster, a layout, assumptions."""

import argparse
import itertools
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from utils.checking import require_name
from utils.deadlocks.errors import BadValue
from utils.planner import conventions
from utils.planner.cluster_json import cluster_from_json
from utils.planner.config_json import READ_BY_FIELDS, shape_from_config
from utils.planner.frameworks import FRAMEWORKS
from utils.planner.layout import SCHEDULES, WAYS_TO_RECOMPUTE, ZERO_STAGES, Layout
from utils.planner.plan import Plan, plan
from utils.planner.published import model_named
from utils.planner.shape import ModelShape
from utils.simulation.cluster import Cluster, Torus
from utils.simulation.clusters import cluster_named

STATES = {name: value for name, value in vars(conventions).items() if isinstance(value, conventions.StateBytes)} \
    | conventions.OPTIMIZERS
AXES = ("tp", "cp", "ep", "pp", "dp")
DTYPES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32", "fp8": "float8_e4m3fn", "float8": "float8_e4m3fn"}
LAYOUT = tuple(field.name for field in fields(Layout))
CASES = (*LAYOUT, "device", "devices", "batch", "sequence")
SUFFIXES = {"": 1, "k": 1e3, "M": 1e6, "B": 1e9, "T": 1e12}


# What can be asked


def add_model(parser: argparse.ArgumentParser) -> None:
    """Which model."""
    group = parser.add_argument_group("model")
    group.add_argument("--model", metavar="NAME|FILE", help="a published model's name (see `models`), or a config.json")
    group.add_argument("--sequence", type=int, metavar="TOKENS", help="of a training sequence; default: the model's longest")
    group.add_argument("--batch", type=int, metavar="SEQUENCES", help="sequences a step, on all devices together")


def add_job(parser: argparse.ArgumentParser) -> None:
    """A job of another tool, in place of model and layout."""
    group = parser.add_argument_group("a job of another tool, in place of model, batch and layout")
    group.add_argument("--job", metavar="FILE", help="torchtitan's .toml, or a script with Megatron-LM's arguments")
    group.add_argument("--vocabulary", type=int, metavar="TOKENS", help="where Megatron-LM's arguments have none")


def add_cluster(parser: argparse.ArgumentParser) -> None:
    """Which devices."""
    group = parser.add_argument_group("devices")
    group.add_argument("--devices", type=int, metavar="N", help="how many of them")
    group.add_argument("--device", default="H100", metavar="NAME|FILE",
                       help="a cluster's name (see `clusters`), or a .json of your own; default H100")


def add_layout(parser: argparse.ArgumentParser) -> None:
    """Which layout."""
    group = parser.add_argument_group("layout")
    for axis, words in {"dp": "data parallel; default: all the devices that are left", "tp": "tensor parallel",
                        "pp": "pipeline stages", "cp": "context parallel", "ep": "expert parallel"}.items():
        group.add_argument(f"--{axis}", type=int, metavar="N", help=words)
    group.add_argument("--zero", type=int, choices=ZERO_STAGES, help="ZeRO's stage; FSDP is 3")
    group.add_argument("--shard", type=int, metavar="N", help="ranks that share one copy of what ZeRO shards")
    group.add_argument("--sequence-parallel", "--sp", action="store_true", default=None, help="beside tensor parallelism")
    group.add_argument("--schedule", choices=SCHEDULES, help="of the pipeline")
    group.add_argument("--chunks", type=int, metavar="N", help="model chunks a device, for the interleaved schedule")
    group.add_argument("--micro-batch", type=int, metavar="SEQUENCES", help="sequences at once on a device")
    group.add_argument("--recompute", choices=WAYS_TO_RECOMPUTE, help="what the backward pass computes again")
    group.add_argument("--recompute-layers", type=int, metavar="N", help="of so many layers of each device; default: all")
    group.add_argument("--offload-layers", type=int, metavar="N", help="what so many layers keep goes to the host's memory")
    _add_uneven(group)


def add_search(parser: argparse.ArgumentParser) -> None:
    """How far a search goes."""
    group = parser.add_argument_group("search")
    group.add_argument("--keep", type=int, default=10, metavar="N", help="how many plans are listed; default 10")
    _add_uneven(group)


def _add_uneven(group: Any) -> None:
    group.add_argument("--uneven-stages", action="store_true", default=None, help="stages may differ by a layer")


def add_cases(parser: argparse.ArgumentParser) -> None:
    """What is compared."""
    group = parser.add_argument_group("what is compared (--device may name several clusters, with commas)")
    group.add_argument("--layout", action="append", metavar="tp=8,pp=4", help="a layout; give it several times")
    group.add_argument("--vary", metavar="tp=1,2,4", help=f"values of one setting: {', '.join(CASES)}")


def add_assumptions(parser: argparse.ArgumentParser) -> None:
    """What no formula knows."""
    group = parser.add_argument_group("assumptions")
    group.add_argument("--framework", metavar="NAME", help=f"as this one trains: {', '.join(FRAMEWORKS)}; default: what "
                       "such layouts usually run in, for models since 2022")
    group.add_argument("--dtype", type=lambda name: DTYPES.get(name, name), help="of matrix products: bf16, fp16, fp8, or a "
                       "dtype of torch's such as float8_e4m3fn")
    group.add_argument("--fused-attention", action="store_true", default=None, help="FlashAttention: no scores are stored")
    group.add_argument("--causal", action="store_true", default=None, help="scores that the mask hides are skipped")
    group.add_argument("--hidden", type=_shares, metavar="dp=1,tp=0.5", help="shares of traffic that computation hides")
    group.add_argument("--rails", type=int, metavar="N", help="ports to other nodes that one group's ring uses")
    group.add_argument("--efficiency", type=float, metavar="SHARE", help="of the peak that matrix products reach")
    group.add_argument("--attention-efficiency", type=float, metavar="SHARE", help="of the 16-bit peak, for attention cores")
    group.add_argument("--state", choices=sorted(STATES), metavar="NAME",
                       help=f"bytes a parameter, by the optimizer or a convention: {', '.join(sorted(STATES))}")
    group.add_argument("--usable", type=float, metavar="SHARE", help="of a device's memory that may be planned for")
    group.add_argument("--dropout", action=argparse.BooleanOptionalAction, default=None, help="keep dropout's masks")


def add_budget(parser: argparse.ArgumentParser) -> None:
    """What a training run costs."""
    group = parser.add_argument_group("the whole training run")
    group.add_argument("--tokens", type=amount, metavar="N", help="such as 15e12 or 15T")
    group.add_argument("--days", type=float, metavar="N", help="instead of tokens: of so many days")
    group.add_argument("--price", type=float, metavar="DOLLARS", help="of a device's hour")
    group.add_argument("--watts", type=float, metavar="W", help="that a device draws, with its part of the node")
    group.add_argument("--pue", type=float, default=1.0, metavar="RATIO",
                       help="the building's power by that of its computers; default 1")
    group.add_argument("--device-mtbf", type=float, metavar="HOURS", help="between failures of one device, on average")
    group.add_argument("--storage", type=float, default=1e11, metavar="BYTES/S",
                       help="at which all devices together write a checkpoint; default 1e11")
    group.add_argument("--restart", type=float, default=600.0, metavar="S",
                       help="seconds from a failure to training again; default 600")


def add_steps(parser: argparse.ArgumentParser) -> None:
    """What devices are calibrated by."""
    parser.add_argument("--steps", metavar="FILE.csv", help="measured steps, with the columns of "
                        "utils/costs/data/published_steps.csv; default: those published steps")


def add_bench(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seconds", type=float, default=60.0, metavar="S", help="how long it may take; default 60")
    parser.add_argument("--on", choices=("cpu", "cuda"), help="default: a GPU, if there is one")


def add_tables(parser: argparse.ArgumentParser) -> Any:
    """Where a table goes."""
    group = parser.add_argument_group("outputs (- is standard output)")
    group.add_argument("--json", metavar="FILE", help="plain numbers with their formulas")
    group.add_argument("--csv", metavar="FILE", help="the table, numbers unrounded")
    return group


def add_outputs(parser: argparse.ArgumentParser) -> None:
    """Where results go."""
    add_tables(parser).add_argument("--html", metavar="FILE", help="a page to hand to somebody")


def amount(text: str) -> float:
    """A number that may end in k, M, B or T.  Raises: ArgumentTypeError."""
    found = re.fullmatch(r"(\d+(?:\.\d*)?(?:[eE]\+?\d+)?)([kMBT]?)", text)
    if not found:
        raise argparse.ArgumentTypeError(f"expected a number such as 300e9 or 15T; got {text!r}")
    return float(found[1]) * SUFFIXES[found[2]]


def _shares(text: str) -> dict[str, float]:
    """ "dp=1,tp=0.5" as {"hidden_dp": 1.0, "hidden_tp": 0.5}"""
    found = re.fullmatch(r"(?:(?:tp|cp|ep|pp|dp)=[\d.]+,?)+", text)
    if not found:
        raise argparse.ArgumentTypeError(f"expected shares such as dp=1,tp=0.5 of {', '.join(AXES)}; got {text!r}")
    return {f"hidden_{axis}": float(share) for axis, share in (each.split("=") for each in text.split(",") if each)}


# What it means


def required(asked: argparse.Namespace, what: str) -> Any:
    """An option's value.  Raises: ValueError if it wasn't given."""
    value = getattr(asked, what)
    if value is None:
        raise BadValue(f"--{what} is needed")
    return value


def model_of(asked: argparse.Namespace) -> ModelShape:
    """A file's model, or a published one."""
    name = required(asked, "model")
    if Path(name).exists() or name.endswith(".json"):
        shape = shape_from_config(name, asked.sequence)
        if READ_BY_FIELDS in shape.source:
            print(f"Note: {shape.source}, as a decoder of equal layers", file=sys.stderr)
        return shape
    shape = model_named(name)
    return shape if asked.sequence is None else shape.with_sequence(asked.sequence)


def cluster_of(name: str, devices: int | None) -> Cluster:
    """A file's or a ready cluster, with more devices where its nodes' network can have more."""
    cluster = cluster_from_json(name) if name.endswith(".json") else cluster_named(name)
    grows = cluster.between is not None and not isinstance(cluster.topology, Torus)
    return replace(cluster, n_devices=devices) if grows and devices and devices > cluster.n_devices else cluster


def layout_of(asked: argparse.Namespace, usual: Layout | None = None) -> Layout:
    """The layout; data-parallel ranks are what the other degrees leave of the devices, if they aren't given.

    usual: a layout of which only what is given changes; it has the devices.
    """
    given = {name: getattr(asked, name, None) for name in LAYOUT}
    given = {name: value for name, value in given.items() if value is not None}
    if given.get("chunks", 1) > 1:
        given.setdefault("schedule", "interleaved")
    layout = replace(usual or Layout(), **given)
    if "dp" in given:
        return layout
    devices, each = usual.devices if usual else required(asked, "devices"), layout.tp * layout.pp * layout.cp
    if devices % each or devices < each:
        raise BadValue(f"tp {layout.tp} · pp {layout.pp} · cp {layout.cp} = {each} does not divide {devices:,} devices")
    return replace(layout, dp=devices // each)


def options_for(layout: Layout) -> str:
    """A layout as `plan`'s options."""
    usual, words = Layout(), []
    for name in LAYOUT:
        value = getattr(layout, name)
        if value == getattr(usual, name) or name in ("dp", "reshard", "expert_tp", "across_nodes"):
            continue
        words.append(f"--{name.replace('_', '-')}" + ("" if value is True else f" {value}"))
    return " ".join(words)


def plan_of(asked: argparse.Namespace, shape: ModelShape) -> Plan:
    """The plan that the options ask for.  Raises: TypeError, ValueError."""
    layout = layout_of(asked)
    if asked.devices is not None and layout.devices != asked.devices:
        raise BadValue(f"{layout} takes {layout.devices:,} devices, not {asked.devices:,}")
    cluster, batch = cluster_of(asked.device, layout.devices), required(asked, "batch")
    options = options_of(asked, lambda: plan_with(shape, layout, cluster, batch, asked, {}))
    return plan_with(shape, layout, cluster, batch, asked, options)


def plan_with(shape: ModelShape, layout: Layout, cluster: Cluster, batch: int, asked: argparse.Namespace,
              options: dict[str, Any]) -> Plan:
    """A plan with further options, by the framework that is asked for."""
    return plan(shape, layout, cluster, batch, **{**framework_of(asked), **options})


def options_of(asked: argparse.Namespace, usual: Callable[[], Plan]) -> dict[str, Any]:
    """What plan and search take beside their first arguments. usual: a plan without them, whose assumptions are changed."""
    options = {**framework_of(asked), **{name: getattr(asked, name) for name in ("usable", "dropout")
                                         if getattr(asked, name) is not None}}
    if asked.state:
        options["state"] = STATES[asked.state]
    changed = {name: getattr(asked, name) for name in ("fused_attention", "causal", "rails", "efficiency",
                                                        "attention_efficiency")
               if getattr(asked, name) is not None}
    changed |= asked.hidden or {}
    if not changed and not asked.dtype:
        return options
    before = usual()
    if before.framework:
        options["framework"] = before.framework
    options["assumptions"] = replace(before.assumptions, **changed, **{"dtype": asked.dtype} if asked.dtype else {})
    return options


def framework_of(asked: argparse.Namespace) -> dict[str, Any]:
    """The framework and the number format, which assumptions depend on."""
    return {name: getattr(asked, name) for name in ("framework", "dtype") if getattr(asked, name) is not None}


def cases_of(asked: argparse.Namespace) -> Iterator[argparse.Namespace]:
    """The options of each case: every cluster with every layout and every value of what varies."""
    layouts = [_entries(text) for text in asked.layout or [""]]
    varied = [{}]
    if asked.vary:
        name, values = _one(asked.vary)
        varied = [{name: _value(name, each)} for each in values.split(",")]
    for device, layout, change in itertools.product(asked.device.split(","), layouts, varied):
        settings = {"device": device.strip(), **layout, **change}
        label = ", ".join(f"{name}={value}" for name, value in settings.items())
        yield argparse.Namespace(**{**vars(asked), **settings, "label": label})


def _entries(text: str) -> dict[str, Any]:
    return {name: _value(name, value) for name, value in (_one(each) for each in text.split(",") if each)}


def _one(text: str) -> tuple[str, str]:
    """ "tp=1,2" as ("tp", "1,2")"""
    name, equals, value = text.partition("=")
    name = name.strip().replace("-", "_")
    name = {"sp": "sequence_parallel"}.get(name, name)
    require_name("setting", name, CASES)
    if not equals or not value:
        raise BadValue(f"{text!r} says no value: write {name}=..., such as tp=8")
    return name, value


def _value(name: str, text: str) -> Any:
    """A number, a flag, or a word."""
    text = text.strip()
    if name in ("sequence_parallel", "uneven_stages", "reshard"):
        require_name(f"value of {name}", text, ("0", "1"))
        return text == "1"
    if name in ("schedule", "recompute", "device"):
        return text
    if not text.isdigit():
        raise BadValue(f"{name} must be a whole number; got {text!r}")
    return int(text)
