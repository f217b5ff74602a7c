"""Models and runs from print, as the planner's shapes and layouts; rows that cannot be right are refused with the reason."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from utils.checking import require_count, require_kind, require_name, require_positive
from utils.costs.tables import read_table
from utils.deadlocks.errors import BadValue
from utils.models.tiny import VOCABULARY
from utils.planner.layout import Layout, reasons_against
from utils.planner.shape import ModelShape
from utils.simulation.cluster import Device
from utils.simulation.clusters import A100, B200, H100, H200, H800, TPU_V4, TPU_V5E, TPU_V5P, V100

MEGATRON_VOCABULARY, MEGATRON_SEQUENCE = 51_200, 2048
DEVICES = {"V100": V100, "A100": A100, "H100": H100, "H800": H800, "H200": H200, "B200": B200, "TPU v4": TPU_V4,
           "TPU v5e": TPU_V5E, "TPU v5p": TPU_V5P}
MFU_TOLERANCE = 1.0  # points: both figures are rounded
SUFFIXES = {"": (1,), "k": (10**3, 2**10), "M": (10**6, 2**20), "B": (10**9,)}


def _gpt(name: str, layers: int, width: int, heads: int, source: str, vocabulary: int = MEGATRON_VOCABULARY) -> ModelShape:
    return ModelShape(name, layers, width, heads, vocabulary, MEGATRON_SEQUENCE, learned_positions=True, source=source)


def _rms(name: str, layers: int, width: int, heads: int, vocabulary: int, sequence: int, ffn: int, source: str,
         **others: Any) -> ModelShape:
    """As most since 2022: gated FFN, RMSNorm, no biases, rotary positions."""
    usual = {"gated": True, "biases": False, "norm_vectors": 1, "tied": False}
    return ModelShape(name, layers, width, heads, vocabulary, sequence, ffn=ffn, source=source, **{**usual, **others})


KORTHIKANTI, LLAMA, LLAMA2 = "2205.05198, table 3", "Llama 3 (2407.21783), table 3", "Llama 2 (2307.09288), table 1"
GEMMA, OLMO, OLMO2 = "Gemma 2 (2408.00118), table 1", "OLMo (2402.00838), table 1", "OLMo 2 (2501.00656), table 1"
GEMMA_2 = {"tied": True, "norms_per_layer": 4, "window": 4096, "windowed": (1, 2)}

MODELS = {shape.name: shape for shape in (
    _gpt("GPT-3 175B", 96, 12288, 96, "GPT-3 (2005.14165), table 2.1", vocabulary=50_257),
    _gpt("GPT 22B", 48, 6144, 64, KORTHIKANTI), _gpt("GPT 175B", 96, 12288, 96, KORTHIKANTI),
    _gpt("GPT 530B", 105, 20480, 128, KORTHIKANTI), _gpt("GPT 1T", 128, 25600, 160, KORTHIKANTI),
    _gpt("MT-NLG 530B", 105, 20480, 128, "MT-NLG (2201.11990), section 3"),
    _rms("Llama 3 8B", 32, 4096, 32, 128_256, 8192, 14_336, LLAMA, kv_heads=8),
    _rms("Llama 3 70B", 80, 8192, 64, 128_256, 8192, 28_672, LLAMA, kv_heads=8),
    _rms("Llama 3 405B", 126, 16384, 128, 128_256, 8192, 53_248, LLAMA, kv_heads=8),
    _rms("DeepSeek-V3", 61, 7168, 128, 129_280, 4096, 18_432, "DeepSeek-V3 (2412.19437), section 4.2", head_size=128,
         experts=256, experts_per_token=8, shared_experts=1, dense_layers=3, expert_ffn=2048, query_rank=1536,
         latent_rank=512, rope_size=64, routed_nodes=4),
    _rms("DeepSeek-V2-Lite", 27, 2048, 16, 102_400, 4096, 10_944, "DeepSeek-V2 (2405.04434), appendix B", head_size=128,
         experts=64, experts_per_token=6, shared_experts=2, dense_layers=1, expert_ffn=1408, latent_rank=512, rope_size=64),
    _rms("Llama 2 7B", 32, 4096, 32, 32_000, 4096, 11_008, LLAMA2),
    _rms("Llama 2 13B", 40, 5120, 40, 32_000, 4096, 13_824, LLAMA2),
    _rms("Llama 2 70B", 80, 8192, 64, 32_000, 4096, 28_672, LLAMA2, kv_heads=8),
    _rms("Mistral 7B", 32, 4096, 32, 32_000, 8192, 14_336, "Mistral 7B (2310.06825), table 1", kv_heads=8, window=4096),
    _rms("Mixtral 8x7B", 32, 4096, 32, 32_000, 32_768, 14_336, "Mixtral (2401.04088), table 1", kv_heads=8, experts=8,
         experts_per_token=2),
    ModelShape("GPT-NeoX 20B", 44, 6144, 64, 50_432, 2048, tied=False, parallel_ffn=True,
               source="GPT-NeoX (2204.06745), section 2"),
    ModelShape("BLOOM 176B", 70, 14_336, 112, 250_880, 2048, source="BLOOM (2211.05100), table 3, without embedding's norm"),
    _rms("Nemotron-4 340B", 96, 18_432, 96, 256_000, 4096, 73_728, "Nemotron-4 340B (2406.11704), table 1", kv_heads=8,
         gated=False, norm_vectors=2),
    _rms("PaLM 540B", 118, 18432, 48, 256_000, 2048, 73_728, "PaLM (2204.02311), table 1: one norm a layer", tied=True,
         head_size=256, kv_heads=1, norms_per_layer=1, parallel_ffn=True),
    _rms("Gemma 2 2B", 26, 2304, 8, 256_128, 8192, 9216, GEMMA, kv_heads=4, head_size=256, **GEMMA_2),
    _rms("Gemma 2 9B", 42, 3584, 16, 256_128, 8192, 14_336, GEMMA, kv_heads=8, head_size=256, **GEMMA_2),
    _rms("Gemma 2 27B", 46, 4608, 32, 256_128, 8192, 36_864, GEMMA, kv_heads=16, head_size=128, **GEMMA_2),
    _rms("OLMo 7B", 32, 4096, 32, 50_304, 2048, 11_008, OLMO, norm_vectors=0),
    _rms("OLMo 2 7B", 32, 4096, 32, 100_352, 4096, 11_008, OLMO2, norms_per_layer=4),
    _rms("OLMo 2 13B", 40, 5120, 40, 100_352, 4096, 13_824, OLMO2, norms_per_layer=4),
    _rms("OLMo 2 32B", 64, 5120, 40, 100_352, 4096, 27_648, OLMO2, kv_heads=8, norms_per_layer=4),
)}


def model_named(name: Any) -> ModelShape:
    """A published model by its name.  Raises: ValueError with the nearest name."""
    require_name("model", name, MODELS, "; any other is a ModelShape(...) of your own")
    return MODELS[name]


def shape_of(model: ModelShape | str) -> ModelShape:
    """A model, or the published one of this name.  Raises: TypeError, ValueError with the nearest name."""
    if isinstance(model, str):
        return model_named(model)
    require_kind("shape", model, ModelShape)
    return model


@dataclass(frozen=True)
class PublishedRun:
    """A model, how it was laid out, and what was measured; None for what is not printed.

    device: as the row has it: a name, or a Device. global_batch: sequences a step. tflops: of a device; whether
    recomputation counts differs by paper, see `source`.
    """

    shape: ModelShape
    devices: int | None
    device: str | Device | None
    layout: Layout | None
    global_batch: int | None
    tflops: float | None
    mfu_percent: float | None
    source: str

    @property
    def missing(self) -> list[str]:
        """What is not printed, of what a plan needs."""
        needed = {"devices and degrees": self.layout, "sequences a step": self.global_batch}
        return [what for what, value in needed.items() if value is None]


def real_runs() -> list[PublishedRun]:
    """The rows of real_runs.csv, one by one checked."""
    return [run_of(row) for row in read_table("real_runs")]


def run_of(row: Mapping[str, Any]) -> PublishedRun:
    """A row with the columns of real_runs.csv as a run. An empty dp follows from the others; other empty degrees are 1.

    model: a name, or a ModelShape. device: a name, or a Device (utils.simulation.cluster) with its peak. dtype: the number
    format of the products, for whose peak TFLOP/s and MFU are printed: one that the device has; bfloat16 if it is left out
    (float16 where there is no bfloat16).
    Raises: ValueError with every reason why the row cannot be right: devices that are not the product of the degrees, tokens
    that are no whole number of sequences for each data-parallel rank, heads that cannot be split, more than the peak, an MFU
    of more FLOP/s than are printed (which may count recomputation too, and so be more).
    """
    require_kind("row", row, Mapping)
    model = row.get("model")
    shape, layout = model if isinstance(model, ModelShape) else model_named(model), _layout(row)
    if row.get("seq"):
        require_count(f"{shape.name}: seq", row["seq"])
        shape = shape.with_sequence(row["seq"])
    batch = _global_batch(row.get("tokens_per_batch"), shape.sequence, layout.dp if layout else 1)
    reasons = reasons_against(layout, shape, row.get("devices")) if layout else []
    if row.get("tokens_per_batch") and batch is None:
        reasons.append(f"{row['tokens_per_batch']} tokens a batch are no whole number of sequences of {shape.sequence:,} "
                       f"for each of {layout.dp if layout else 1} data-parallel ranks.")
    reasons += _speed_reasons(row, shape.name)
    if reasons:
        raise BadValue(f"the row of {shape.name} on {row.get('devices')} devices cannot be right: {' '.join(reasons)}")
    return PublishedRun(shape, row.get("devices"), row.get("device"), layout, batch, row.get("TFLOPs_per_device"),
                        row.get("MFU_percent"), row.get("source") or "")


def _speed_reasons(row: Mapping[str, Any], model: str) -> list[str]:
    """Why FLOP/s and MFU cannot be right."""
    tflops, percent = (row.get(what) for what in ("TFLOPs_per_device", "MFU_percent"))
    for what in ("TFLOPs_per_device", "MFU_percent"):
        if row.get(what) is not None:
            require_positive(f"{model}: {what}", row[what])
    reasons = [f"An MFU of {percent} % cannot be."] * (percent is not None and percent >= 100)
    if row.get("device") is None:
        return reasons
    name, dtype, peak = _peak_of(row["device"], row.get("dtype"))
    if tflops and tflops > peak:
        reasons.append(f"{tflops} TFLOP/s are more than the peak of {name}, {peak:g} in {dtype}; for "
                       "another precision, name it as the row's dtype.")
    elif tflops and percent and percent > 100 * tflops / peak + MFU_TOLERANCE:
        reasons.append(f"An MFU of {percent} % is more than {tflops} of {peak:g} TFLOP/s.")
    return reasons


def _peak_of(device: Any, dtype: str | None) -> tuple[str, str, float]:
    """(the device's name, the dtype that counts, its TFLOP/s)"""
    if not isinstance(device, Device):
        require_name("device", device, DEVICES, '; any other is a Device(...) of your own, such as '
                     'Device("TPU v3", {"bfloat16": 123e12}, 32e9, 0.9e12)')
    name, known = (device.name, device) if isinstance(device, Device) else (device, DEVICES[device])
    if dtype is None:
        dtype = next((usual for usual in ("bfloat16", "float16") if usual in known.flops), next(iter(known.flops)))
    require_name(f"dtype with a peak on {name}", dtype, known.flops)
    return name, dtype, known.flops[dtype] / 1e12


def _layout(row: Mapping[str, Any]) -> Layout | None:
    """None if the row does not say on how many devices. Stages may differ: no table prints whether they do."""
    if row.get("devices") is None:
        return None
    degrees = {axis: row.get(axis) or 1 for axis in ("tp", "cp", "pp", "ep")}
    for what, degree in {"devices": row.get("devices"), **degrees}.items():
        require_count(what, degree)
    copies = row.get("devices") // (degrees["tp"] * degrees["cp"] * degrees["pp"])
    zero = {"FSDP": 3, None: 0}.get(row.get("zero"), row.get("zero"))
    return Layout(dp=row.get("dp") or max(copies, 1), zero=zero, shard=row.get("shard"), uneven_stages=True, **degrees)


def _global_batch(tokens: Any, sequence: int, dp: int) -> int | None:
    """The multiple of dp sequences that rounds to the printed tokens ("16M": 16·10⁶ or 16·2²⁰, what is nearer), or None."""
    match = re.fullmatch(r"(\d+(?:\.(\d+))?)([kMB]?)", str(tokens or ""))
    if not match:
        return None
    number, decimals, suffix = match.groups()
    digits = -len(decimals or "") if suffix else len(number) - len(number.rstrip("0"))  # 4000000 is a rounded number too
    found = []
    for unit in SUFFIXES[suffix]:
        sequences = round(float(number) * unit / (sequence * dp)) * dp
        off = abs(sequences * sequence / unit - float(number))
        if sequences and off <= 0.5 * 10 ** digits:
            found.append((off, sequences))
    return min(found)[1] if found else None


def weak_scaling_runs() -> list[PublishedRun]:
    """Table 1 of 2104.04473: 1.7B to 1T, all layers recomputed; tflops count that (HFU)."""
    runs = []
    for row in read_table("ptdp_table1_weak_scaling"):
        shape = _gpt(f"GPT {row['params_B']}B", row["layers"], row["hidden"], row["heads"], "2104.04473, table 1")
        a_chunk = row["layers_per_vstage_script"]
        chunks = row["layers"] // (row["pp"] * a_chunk) if a_chunk else 1
        layout = Layout(dp=row["gpus"] // (row["tp"] * row["pp"]), tp=row["tp"], pp=row["pp"], micro_batch=row["mbs_script"],
                        schedule="interleaved" if chunks > 1 else "1F1B", chunks=chunks, recompute="full")
        runs.append(PublishedRun(shape, row["gpus"], "A100", layout, row["batch"], row["tflops_gpu"], None, shape.source))
    return runs


@dataclass(frozen=True)
class OneGPURun:
    """Training steps of the course's own GPT on one H100, alone. step_s: seconds. peak_bytes: by torch's allocator."""

    shape: ModelShape
    batch: int
    step_s: float
    peak_bytes: float


def one_gpu_runs() -> list[OneGPURun]:
    """The rows of h100_gpt_steps.csv: AdamW, everything in bfloat16 (BFLOAT16_8), fused attention, no dropout."""
    return [OneGPURun(ModelShape(f"GPT {row['model']}", row["layers"], row["width"], row["heads"], VOCABULARY, row["length"],
                                 learned_positions=True, source=row["source"]),
                      row["batch"], row["step_ms"] / 1e3, row["peak_GB"] * 1e9) for row in read_table("h100_gpt_steps")]
