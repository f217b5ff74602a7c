"""A job from Megatron-LM's arguments: a command line, a script that has it, or a list.

Names and defaults are those of Megatron Core 0.14's training arguments.
"""

import itertools
import math
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from utils.checking import require_count
from utils.deadlocks.errors import BadType, BadValue
from utils.planner.conventions import PLAIN_16
from utils.planner.job import Job
from utils.planner.layout import Layout
from utils.planner.shape import ModelShape

REQUIRED = ("num-layers", "hidden-size", "num-attention-heads", "seq-length", "micro-batch-size")
# What changes memory or time and isn't planned: argument → a sentence.
NOT_PLANNED = {
    "add-qkv-bias": "Biases of queries, keys and values aren't counted.",
    "qk-layernorm": "Norms of queries and keys aren't counted.",
    "mtp-num-layers": "Layers that predict further tokens (MTP) aren't modelled.",
    "window-size": "Windows of attention aren't read from Megatron's arguments.",
    "recompute-modules": "Selective recomputation is planned as that of the attention core alone, whatever "
                         "--recompute-modules names.",
    "rampup-batch-size": "The batch is planned at its full size, without --rampup-batch-size.",
    "expert-tensor-parallel-size": "Experts are planned as split over all tensor-parallel ranks.",
    "moe-expert-capacity-factor": "Experts are planned as evenly loaded, without a capacity.",
    "optimizer-cpu-offload": "Optimizer state in the host's memory (--optimizer-cpu-offload) isn't modelled.",
    "use-precision-aware-optimizer": "Optimizer state in fewer bits isn't read; give state= for it.",
    "fp8-param-gather": "Parameters are gathered in 16 bits, not in FP8.",
    "pipeline-model-parallel-layout": "Stages are planned as even as can be, not as --pipeline-model-parallel-layout says.",
    "decoder-first-pipeline-num-layers": "Stages are planned as even as can be; first and last are those with fewer layers.",
    "decoder-last-pipeline-num-layers": "Stages are planned as even as can be; first and last are those with fewer layers.",
}
TP_OVERLAP = 0.8  # of gathers and reductions that run beside their own product, as in frameworks.py
UNEVEN = ("pipeline-model-parallel-layout", "decoder-first-pipeline-num-layers", "decoder-last-pipeline-num-layers",
          "account-for-embedding-in-pipeline-split", "account-for-loss-in-pipeline-split")
USED = {
    *REQUIRED, *UNEVEN,
    "accumulate-allreduce-grads-in-fp32", "attention-backend", "attention-dropout", "bf16", "context-parallel-size",
    "cpu-offloading", "cpu-offloading-num-layers",
    "data-parallel-sharding-strategy", "disable-bias-linear", "expert-model-parallel-size", "ffn-hidden-size", "fp16",
    "fp8-e4m3", "fp8-format", "fp8-hybrid", "global-batch-size", "group-query-attention", "hidden-dropout", "kv-channels",
    "kv-lora-rank", "max-position-embeddings", "moe-ffn-hidden-size", "moe-layer-freq", "moe-router-topk",
    "moe-shared-expert-intermediate-size", "multi-latent-attention", "nnodes", "no-position-embedding", "normalization",
    "nproc-per-node", "num-experts", "num-layers-per-virtual-pipeline-stage", "num-query-groups",
    "num-virtual-stages-per-pipeline-rank", "overlap-grad-reduce", "overlap-moe-expert-parallel-comm",
    "overlap-param-gather", "pipeline-model-parallel-size", "position-embedding-type", "q-lora-rank", "qk-head-dim",
    "qk-pos-emb-head-dim", "recompute-activations", "recompute-granularity", "recompute-method", "recompute-num-layers",
    "sequence-parallel", "swiglu", "tensor-model-parallel-size", "tp-comm-overlap", "transformer-impl",
    "untie-embeddings-and-output-weights", "use-distributed-optimizer", "use-flash-attn", "use-megatron-fsdp",
    "use-rotary-position-embeddings", "use-torch-fsdp2", "v-head-dim", "vocab-size",
}


def from_megatron(arguments: str | Path | Sequence[str], devices: int | None = None, vocabulary: int | None = None) -> Job:
    """A job from the arguments of pretrain_gpt.py. arguments: a command line, a script's path or text, or a list.

    Shell variables are filled in where the text itself gives them a value. devices: where torchrun's --nproc-per-node and
    --nnodes aren't in it. vocabulary: where --vocab-size isn't, because it is the tokenizer's.
    Raises: OSError, TypeError; ValueError with the arguments that are missing, and for degrees that can't be.
    """
    words = _words(arguments)
    given = _Given(_values(words))
    missing = [f"--{name}" for name in REQUIRED if name not in given.values]
    if missing:
        raise BadValue(f"Megatron's arguments lack what a plan needs: {', '.join(missing)}")
    if given.has("hybrid-override-pattern") or given.has("is-hybrid-model") or given.has("hybrid-layer-pattern"):
        raise BadValue("the arguments describe layers without attention (a hybrid model), which aren't modelled")
    ignored = [sentence for name, sentence in NOT_PLANNED.items() if given.has(name)]
    if "then" in words:
        ignored.append("The script's conditions aren't evaluated: arguments of all branches are read, the last one counts.")
    shape = _shape(given, vocabulary)
    layout = _layout(given, shape, devices, ignored)
    batch = given.number("global-batch-size", given.number("micro-batch-size") * layout.dp)
    others = [f"--{name}" for name in given.values if name not in USED and name not in NOT_PLANNED]
    if others:
        ignored.append(f"Without effect on a plan, or not known: {', '.join(others)}.")
    half = given.has("bf16") or given.has("fp16")
    return Job("Megatron-LM", shape, layout, batch, _dtype(given), _changes(given), None if half else PLAIN_16,
               any(given.real(name, 0.1) > 0 for name in ("hidden-dropout", "attention-dropout")),
               tuple(dict.fromkeys(ignored)))


class _Given:
    """The arguments by name, without dashes in front."""

    def __init__(self, values: Mapping[str, list[str]]):
        self.values = values

    def has(self, name: str) -> bool:
        return name in self.values

    def text(self, name: str, default: str = "") -> str:
        return " ".join(self.values[name]) if self.values.get(name) else default

    def number(self, name: str, default: int | None = None) -> Any:
        """A whole number.  Raises: ValueError for anything else."""
        if not self.has(name):
            return default
        text = self.text(name)
        if not re.fullmatch(r"\d+", text):
            why = ", a variable whose value isn't in the text" if "$" in text else ""
            raise BadValue(f"--{name} must be a whole number; got {text!r}{why}")
        return int(text)

    def real(self, name: str, default: float) -> float:
        try:
            return float(self.text(name, str(default)))
        except ValueError:
            raise BadValue(f"--{name} must be a number; got {self.text(name)!r}") from None


def _words(arguments: str | Path | Sequence[str]) -> list[str]:
    if isinstance(arguments, Path) or (isinstance(arguments, str) and "--" not in arguments):
        arguments = Path(arguments).read_text(encoding="utf-8")
    if isinstance(arguments, str):
        try:
            code = re.sub(r"(^|\s)#.*", r"\1", arguments, flags=re.MULTILINE)  # in a comment no \\ continues a line
            return shlex.split(re.sub(r"\w+\+?=\(", " ", _filled_in(code.replace("\\\n", " "))))  # arrays lie open
        except ValueError as error:
            raise BadValue(f"Megatron's arguments can't be read as a command line: {error}") from None
    if not isinstance(arguments, Sequence) or not all(isinstance(word, str) for word in arguments):
        raise BadType(f"Megatron's arguments are a command line or a list of texts; got {arguments!r}")
    return list(arguments)


def _filled_in(text: str) -> str:
    """Shell variables replaced by the values that the text gives them: NAME=8, NAME=${1:-8}, NAME=$(($A*$B))."""
    known: dict[str, str] = {}

    def value(match: re.Match) -> str:
        name, default = match["name"] or match["plain"], match["default"]
        return known.get(name, default if default is not None else match[0])

    lines = []
    for line in text.split("\n"):
        line = re.sub(r"\$\{(?P<name>\w+)(?::-(?P<default>[^}]*))?\}|\$(?P<plain>\w+)", value, line)
        line = re.sub(r"\$\(\(([\d\s*]+)\)\)", lambda product: str(math.prod(map(int, product[1].split("*")))), line)
        if assigned := re.fullmatch(r"\s*(?:export\s+)?(\w+)=(\"[^\"]*\"|'[^']*'|[^\s(]+)\s*(#.*)?", line):
            known[assigned[1]] = assigned[2].strip("\"'")
        lines.append(line)
    return "\n".join(lines)


def _values(words: Sequence[str]) -> dict[str, list[str]]:
    """Argument → the words after it."""
    values: dict[str, list[str]] = {}
    name = ""
    for word in itertools.chain.from_iterable(each.split() if each.startswith("--") else [each] for each in words):
        if word.startswith("--") and len(word) > 2:
            name, equals, value = word[2:].partition("=")
            name = name.replace("_", "-")
            values[name] = [value] * bool(equals)
        elif name and word not in (")", "\\"):
            values[name].append(word.removesuffix(")") if "(" not in word else word)
    return {name: _of_argument(name, found) for name, found in values.items()}


def _of_argument(name: str, found: list[str]) -> list[str]:
    """Without what follows in a script: arguments have one value, but for a few."""
    return found if name in ("rampup-batch-size", "recompute-modules", "moe-layer-freq") else found[:1]


def _shape(given: _Given, vocabulary: int | None) -> ModelShape:
    width, layers, heads = (given.number(name) for name in ("hidden-size", "num-layers", "num-attention-heads"))
    vocabulary = vocabulary or given.number("vocab-size")
    if vocabulary is None:
        raise BadValue("the arguments have no --vocab-size, which the tokenizer decides: give the vocabulary")
    gated, rms = given.has("swiglu"), given.text("normalization", "LayerNorm") == "RMSNorm"
    ffn = given.number("ffn-hidden-size", int(4 * width * 2 / 3 / 64) * 64 if gated else 4 * width)
    positions = given.text("position-embedding-type", "learned_absolute")
    learned = (positions == "learned_absolute" and not given.has("use-rotary-position-embeddings")
               and not given.has("no-position-embedding"))
    return ModelShape(
        f"{layers} layers of {width:,}", layers, width, heads, vocabulary, given.number("seq-length"),
        kv_heads=given.number("num-query-groups") if given.has("group-query-attention") else None, ffn=ffn, gated=gated,
        tied=not given.has("untie-embeddings-and-output-weights"), learned_positions=learned,
        biases=not given.has("disable-bias-linear"), norm_vectors=1 if rms else 2, source="Megatron-LM's arguments",
        **_heads(given), **_experts(given, layers, ffn))


def _heads(given: _Given) -> dict[str, Any]:
    if not given.has("multi-latent-attention"):
        return {"head_size": given.number("kv-channels")}
    values, keys = given.number("v-head-dim", 128), given.number("qk-head-dim", 128)
    if values != keys:
        raise BadValue("latent attention is modelled with values as wide as the keys without rotation; got --v-head-dim "
                       f"{values} and --qk-head-dim {keys}")
    return {"head_size": values, "latent_rank": given.number("kv-lora-rank", 32), "query_rank": given.number("q-lora-rank"),
            "rope_size": given.number("qk-pos-emb-head-dim", 64)}


def _experts(given: _Given, layers: int, ffn: int) -> dict[str, Any]:
    experts = given.number("num-experts")
    if not experts:
        return {}
    columns = given.number("moe-ffn-hidden-size", ffn)
    require_count("--moe-ffn-hidden-size", columns)
    shared = given.number("moe-shared-expert-intermediate-size", 0)
    if shared % columns:
        raise BadValue(f"a shared expert of {shared} columns is no multiple of the {columns} of the others")
    return {"experts": experts, "experts_per_token": given.number("moe-router-topk", 2), "expert_ffn": columns,
            "shared_experts": shared // columns, "dense_layers": _dense_layers(given.text("moe-layer-freq", "1"), layers)}


def _dense_layers(pattern: str, layers: int) -> int:
    """Layers without experts: of "([0]*3+[1]*58)", of a list of 0 and 1, or all but every n-th."""
    pattern = re.sub(r"[\s'\"()]", "", pattern)
    if pattern.isdigit() and int(pattern) > 0:
        return layers - -(-layers // int(pattern))
    pieces = re.findall(r"\[([01,]+)\](?:\*(\d+))?", pattern)
    kinds = [int(kind) for piece, times in pieces for kind in piece.split(",") * int(times or 1) if kind]
    if len(kinds) != layers:
        raise BadValue(f"--moe-layer-freq {pattern!r} must say 0 or 1 for each of {layers} layers, as "
                       f"([0]*1+[1]*{layers - 1})")
    return kinds.count(0)


def _layout(given: _Given, shape: ModelShape, devices: int | None, ignored: list[str]) -> Layout:
    tp, pp, cp, ep = (given.number(f"{name}-size", 1) for name in (
        "tensor-model-parallel", "pipeline-model-parallel", "context-parallel", "expert-model-parallel"))
    for name, degree in {"tp": tp, "pp": pp, "cp": cp, "ep": ep}.items():
        require_count(name, degree)
    devices = _devices(given) if devices is None else devices
    require_count("devices", devices)
    dp, left = divmod(devices, tp * pp * cp)
    if left or not dp:
        raise BadValue(f"tp {tp} · pp {pp} · cp {cp} = {tp * pp * cp} does not divide {devices:,} devices")
    chunks = _chunks(given, shape.layers, pp)
    sharded = given.has("use-megatron-fsdp") or given.has("use-torch-fsdp2")
    zero = 1 if given.has("use-distributed-optimizer") else 0
    if sharded:
        strategy = given.text("data-parallel-sharding-strategy", "optim_grads_params")
        zero = {"no_shard": 0, "optim": 1, "optim_grads": 2, "optim_grads_params": 3}.get(strategy, 3)
    return Layout(dp=dp, tp=tp, pp=pp, cp=cp, ep=ep, zero=zero, sequence_parallel=given.has("sequence-parallel") and tp > 1,
                  schedule="interleaved" if chunks > 1 else "1F1B", chunks=chunks,
                  micro_batch=given.number("micro-batch-size"), **_recompute(given, shape.layers, pp, chunks),
                  uneven_stages=any(map(given.has, UNEVEN)) or bool(shape.layers % (pp * chunks)),
                  offload_layers=given.number("cpu-offloading-num-layers", 0) if given.has("cpu-offloading") else 0)


def _devices(given: _Given) -> int:
    if not (given.has("nproc-per-node") or given.has("nnodes")):
        raise BadValue("the arguments don't say how many devices there are (torchrun's --nproc-per-node and --nnodes): give "
                       "devices=")
    return given.number("nproc-per-node", 1) * given.number("nnodes", 1)


def _chunks(given: _Given, layers: int, pp: int) -> int:
    if given.has("num-virtual-stages-per-pipeline-rank"):
        return given.number("num-virtual-stages-per-pipeline-rank")
    each = given.number("num-layers-per-virtual-pipeline-stage")
    if not each or pp == 1:
        return 1
    chunks, left = divmod(layers, pp * each)
    if left:
        raise BadValue(f"{layers} layers on pp {pp} cannot be cut into stages of {each} "
                       "(--num-layers-per-virtual-pipeline-stage)")
    return chunks


def _recompute(given: _Given, layers: int, pp: int, chunks: int) -> dict[str, Any]:
    way = given.text("recompute-granularity", "selective" if given.has("recompute-activations") else "none")
    if way not in ("none", "selective", "full"):
        raise BadValue(f"--recompute-granularity is selective or full; got {way!r}")
    if way == "full" and given.text("recompute-method") == "block":
        some = given.number("recompute-num-layers", 1) * chunks
        return {"recompute": "full", "recompute_layers": some} if 0 < some * pp < layers else {"recompute": "full"}
    return {"recompute": way}


def _dtype(given: _Given) -> str:
    if any(given.has(name) for name in ("fp8-format", "fp8-hybrid", "fp8-e4m3")):
        return "float8_e4m3fn"
    return "bfloat16" if given.has("bf16") else "float16" if given.has("fp16") else "float32"


def _changes(given: _Given) -> dict[str, Any]:
    """Assumptions that the arguments change: Megatron-LM is planned with fused attention and its messages of DP hidden."""
    changes: dict[str, Any] = {}
    if given.text("attention-backend") in ("unfused", "local") or (
            given.text("transformer-impl") == "local" and not given.has("use-flash-attn")):
        changes["fused_attention"] = False
    if not given.has("overlap-grad-reduce"):
        changes["hidden_dp"] = 0.0
    if not given.has("overlap-param-gather"):
        changes["gather_ahead"] = False
    if given.has("tp-comm-overlap"):
        changes["pipelined_tp"] = TP_OVERLAP
    if given.has("overlap-moe-expert-parallel-comm"):
        changes["hidden_ep"] = 1.0
    return changes
