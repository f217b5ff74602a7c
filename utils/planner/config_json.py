"""A model's shape from the config.json that Hugging Face's transformers keep beside its weights.

Field names, and values that a file may leave out, are those of transformers 4.57. Which parts a family has (biases, norms,
windows) isn't in the file but in the library's code: FAMILIES has it.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from utils.checking import require_count
from utils.deadlocks.errors import BadType, BadValue
from utils.planner.shape import ModelShape

# What a shape needs, and what configs call it.
FIELDS = {
    "layers": ("num_hidden_layers", "n_layer", "n_layers", "num_layers"),
    "width": ("hidden_size", "n_embd", "d_model"),
    "heads": ("num_attention_heads", "n_head", "n_heads"),
    "vocabulary": ("vocab_size", "padded_vocab_size"),
    "sequence": ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length"),
    "kv_heads": ("num_key_value_heads", "num_kv_heads", "n_head_kv"),
    "head_size": ("head_dim",),
    "ffn": ("intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size"),
    "experts": ("n_routed_experts", "num_local_experts", "num_experts", "moe_num_experts"),
    "experts_per_token": ("num_experts_per_tok", "experts_per_token", "moe_top_k"),
}
COUNTS = ("moe_intermediate_size", "n_shared_experts", "shared_expert_intermediate_size", "first_k_dense_replace",
          "decoder_sparse_step", "kv_lora_rank", "q_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim",
          "sliding_window", "sliding_window_pattern", "max_window_layers", "word_embed_proj_dim")
LISTS = {"layer_types": str, "mlp_only_layers": int}
REQUIRED = ("layers", "width", "heads", "vocabulary")
NO_DECODERS = ("albert", "bart", "bert", "clip", "deberta", "deberta-v2", "distilbert", "electra", "mt5", "roberta", "t5",
               "vit", "wav2vec2", "whisper", "xlm-roberta")
NO_ATTENTION = ("mamba", "ssm", "rwkv", "linear_attn", "linear_num", "linear_key", "conv_kernel", "layers_block_type",
                "block_types", "lru_width", "attn_type_list")


class Family(NamedTuple):
    """A model type: what all of its models have, what the file may leave out, and what a shape doesn't count."""

    has: Mapping[str, Any]
    defaults: Mapping[str, Any] = {}
    left_out: str = ""


LAYER_NORM = {"gated": False, "biases": True, "norm_vectors": 2, "tied": True}
RMS = {"gated": True, "biases": False, "norm_vectors": 1, "tied": False}
QK_NORMS = "norms of queries and keys"
GEMMA_3 = {"vocab_size": 262_208, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256,
           "max_position_embeddings": 131_072, "sliding_window": 4096, "sliding_window_pattern": 6}
READ_BY_FIELDS = ", read by its fields"
FAMILIES = {
    "llama": Family(RMS), "mistral": Family(RMS), "mixtral": Family(RMS), "phi3": Family(RMS),
    "granite": Family({**RMS, "tied": True}), "smollm3": Family({**RMS, "tied": True}, {}),
    "qwen2": Family(RMS, {}, "biases of queries, keys and values"),
    "qwen2_moe": Family(RMS, {}, "biases of queries, keys and values, and the gate of the shared expert"),
    "qwen3": Family(RMS, {}, QK_NORMS), "qwen3_moe": Family(RMS, {}, QK_NORMS),
    "gemma": Family({**RMS, "tied": True}),
    "gemma2": Family({**RMS, "tied": True, "norms_per_layer": 4}, {"sliding_window_pattern": 2, "head_dim": 256}),
    "gemma3_text": Family({**RMS, "tied": True, "norms_per_layer": 4}, GEMMA_3, QK_NORMS),
    "gpt2": Family({**LAYER_NORM, "learned_positions": True}),
    "gpt_neox": Family({**LAYER_NORM, "tied": False, "parallel_ffn": True}),
    "gpt_oss": Family(RMS, {"sliding_window_pattern": 2}, "biases of attention, experts and router, and attention sinks"),
    "olmo": Family({**RMS, "norm_vectors": 0}), "olmo2": Family({**RMS, "norms_per_layer": 4}),
    "olmo3": Family({**RMS, "norms_per_layer": 4}, {"sliding_window_pattern": 4}),
    "olmoe": Family({**RMS, "norms_per_layer": 4}),
    "deepseek_v2": Family(RMS), "deepseek_v3": Family(RMS, {}, "balancing biases of experts"), "kimi_k2": Family(RMS),
    "phi": Family({**LAYER_NORM, "tied": False, "parallel_ffn": True, "norms_per_layer": 1}, {}, "biases of the head"),
    "nemotron": Family({**RMS, "gated": False, "norm_vectors": 2}),
    "cohere": Family({**RMS, "tied": True, "parallel_ffn": True, "norms_per_layer": 1}),
    "starcoder2": Family(LAYER_NORM), "bloom": Family(LAYER_NORM, {}, "the norm of the embedding"),
    "opt": Family({**LAYER_NORM, "learned_positions": True}, {}, "two rows of positions"),
}


def shape_from_config(source: str | Path | Mapping[str, Any], sequence: int | None = None,
                      name: str | None = None) -> ModelShape:
    """The shape that a config.json describes. source: the file, a folder that has it, or its contents as a dictionary.

    sequence: tokens of a training sequence; None: the longest that the file allows. The shape's `source` says from what it
    was read and which small parts its parameter count leaves out. A model type that isn't known is read by its fields.
    Raises: OSError, TypeError; ValueError with the fields that are missing, or for what is no transformer decoder.
    """
    config, place = _config(source)
    inner = config.get("text_config")
    note = ""
    if isinstance(inner, Mapping):
        config, note = {**config, **inner}, "the part that isn't text"
    _require_kinds(config, place)
    kind = str(config.get("model_type", ""))
    _require_decoder(config, kind, place)
    family = FAMILIES.get(kind) or _by_fields(config, kind, place)
    config = {key: value for key, value in {**family.defaults, **config}.items() if value is not None}
    sizes = {what: _first(config, names) for what, names in FIELDS.items()}
    if kind == "opt" and config.get("word_embed_proj_dim", sizes["width"]) != sizes["width"]:
        raise BadValue(f"{place}: an embedding narrower than the layers isn't modelled (word_embed_proj_dim)")
    _require_fields(sizes, sequence, kind, place)
    sizes["sequence"] = sizes["sequence"] if sequence is None else sequence
    require_count("sequence", sizes["sequence"])
    biases, left_out = _biases(config, family)
    left_out = ", ".join(filter(None, (family.left_out, left_out, note)))
    read = f"{place}, model_type {kind or 'not named'}" + ("" if kind in FAMILIES else READ_BY_FIELDS)
    known = {what: size for what, size in sizes.items() if size is not None and not what.startswith("expert")}
    return ModelShape(**{
        **family.has, **known, **_attention(config, place), **_window(config, kind, sizes["layers"]),
        **_experts(config, sizes, place), **_parallel(config), "biases": biases, "tied": _tied(config, family),
        "name": name or config.get("_name_or_path") or place.rpartition("/")[0] or kind or "a model",
        "source": read + (f"; not counted: {left_out}" if left_out else "")})


def _config(source: str | Path | Mapping[str, Any]) -> tuple[Mapping[str, Any], str]:
    """(the contents, what to call the place they came from)"""
    if isinstance(source, Mapping):
        return source, "config"
    if not isinstance(source, str | Path):
        raise BadType(f"a config is the path of a config.json, or its contents as a dictionary; got {source!r}")
    path = Path(source)
    path = path / "config.json" if path.is_dir() else path
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise BadValue(f"{path} is no JSON: {error}") from None
    if not isinstance(config, Mapping):
        raise BadValue(f"{path} must hold one JSON object, as a config.json does; it holds a {type(config).__name__}")
    return config, path.name if path.name != "config.json" or not path.parent.name else f"{path.parent.name}/{path.name}"


def _first(config: Mapping[str, Any], names: Sequence[str]) -> Any:
    return next((config[name] for name in names if config.get(name) is not None), None)


def _require_kinds(config: Mapping[str, Any], place: str) -> None:
    """Raises: TypeError, ValueError for an entry that is read and isn't the number or the list that it should be."""
    for name in (*(name for names in FIELDS.values() for name in names), *COUNTS):
        if config.get(name) is not None:
            require_count(f"{place}: {name}", config[name], least=0)
    for name, kind in LISTS.items():
        values = config.get(name)
        if values is not None and not (isinstance(values, list) and all(isinstance(each, kind) for each in values)):
            raise BadType(f"{place}: {name} must be a list of {'texts' if kind is str else 'numbers'}; got {values!r}")


def _require_decoder(config: Mapping[str, Any], kind: str, place: str) -> None:
    if kind in NO_DECODERS or config.get("is_encoder_decoder"):
        raise BadValue(f"{place}: {kind or 'an encoder-decoder'} is no decoder, and the planner knows decoders alone")
    other = next((key for key in config if key.startswith(NO_ATTENTION)), None)
    if other is not None:
        raise BadValue(f"{place}: {kind or 'the model'} has layers without attention ({other}), which aren't modelled")
    strange = {*(config.get("layer_types") or ())} - {"full_attention", "sliding_attention"}
    if strange or config.get("attention_chunk_size"):
        raise BadValue(f"{place}: {', '.join(sorted(strange)) or 'chunked attention'} isn't modelled")


def _by_fields(config: Mapping[str, Any], kind: str, place: str) -> Family:
    """Of a type that isn't known: as most models with that norm are."""
    tied = {"tied": True}  # transformers' own default
    if config.get("rms_norm_eps") is not None:
        return Family({**RMS, **tied})
    if _first(config, ("layer_norm_eps", "layer_norm_epsilon")) is not None:
        return Family({**LAYER_NORM, **tied})
    raise BadValue(f"{place}: model_type {kind!r} isn't known, and its fields don't say which norm it has (expected "
                   f"rms_norm_eps or layer_norm_eps). Known types: {', '.join(FAMILIES)}")


def _require_fields(sizes: Mapping[str, Any], sequence: int | None, kind: str, place: str) -> None:
    needed = [*REQUIRED, *["sequence"] * (sequence is None), *["ffn"] * (kind not in FAMILIES)]
    missing = [" or ".join(FIELDS[what][:2]) for what in needed if sizes[what] is None]
    if missing:
        raise BadValue(f"{place}: fields are missing that a shape needs: {', '.join(missing)}")


def _tied(config: Mapping[str, Any], family: Family) -> bool:
    return bool(config.get("tie_word_embeddings", family.has["tied"]))


def _biases(config: Mapping[str, Any], family: Family) -> tuple[bool, str]:
    """(whether all matrices have biases, those that aren't counted because only some have)"""
    said = [bool(config[key]) for key in ("attention_bias", "mlp_bias", "use_bias", "bias") if key in config]
    if "bias" in family.left_out or not said:
        return family.has["biases"], ""
    if family.has["biases"] or all(said):
        return all(said), ""
    return False, "biases of attention" if any(said) else ""


def _parallel(config: Mapping[str, Any]) -> dict[str, Any]:
    if "use_parallel_residual" in config:
        return {"parallel_ffn": bool(config["use_parallel_residual"])}
    return {}


def _attention(config: Mapping[str, Any], place: str) -> dict[str, Any]:
    """Latent attention, where a config has its ranks."""
    if config.get("kv_lora_rank") is None:
        return {}
    values, keys = config.get("v_head_dim"), config.get("qk_nope_head_dim")
    if values != keys or values is None:
        raise BadValue(f"{place}: latent attention is modelled with values as wide as the keys without rotation; got "
                       f"v_head_dim {values} and qk_nope_head_dim {keys}")
    return {"latent_rank": config["kv_lora_rank"], "query_rank": config.get("q_lora_rank"), "head_size": values,
            "rope_size": config.get("qk_rope_head_dim", 0), "kv_heads": None}


def _window(config: Mapping[str, Any], kind: str, layers: int) -> dict[str, Any]:
    """Windows: of all layers, of those that layer_types names, or of all but every sliding_window_pattern-th."""
    window = config.get("sliding_window")
    if window is None or not config.get("use_sliding_window", True):
        return {}
    types = config.get("layer_types")
    if types:
        return _windowed(window, [each == "sliding_attention" for each in types])
    if "sliding_window_pattern" in config:
        pattern = config["sliding_window_pattern"]
        return {"window": window, "windowed": (pattern - 1, pattern)} if pattern > 1 else {}
    if kind.startswith("qwen") and "max_window_layers" in config:
        return _windowed(window, [place >= config["max_window_layers"] for place in range(layers)])
    return {"window": window}


def _windowed(window: int, near: Sequence[bool]) -> dict[str, Any]:
    """The shortest (k, m) with the same k of every m layers; where there is none, as many of all layers."""
    if not any(near):
        return {}
    for length in range(1, len(near) + 1):
        first = sum(near[:length])
        if all(each == (place % length < first) for place, each in enumerate(near)):
            return {"window": window, "windowed": (first, length)}
    return {"window": window, "windowed": (sum(near), len(near))}


def _experts(config: Mapping[str, Any], sizes: Mapping[str, Any], place: str) -> dict[str, Any]:
    if not sizes["experts"] or sizes["experts"] == 1:
        return {}
    if sizes["experts_per_token"] is None:
        raise BadValue(f"{place}: {sizes['experts']} experts, but not how many a token goes to "
                       f"({' or '.join(FIELDS['experts_per_token'][:2])})")
    columns = config.get("moe_intermediate_size")
    shared, together = config.get("n_shared_experts") or 0, config.get("shared_expert_intermediate_size")
    if together:
        shared = together / (columns or sizes["ffn"])
        if shared != int(shared):
            raise BadValue(f"{place}: a shared expert of {together} columns is no multiple of the {columns} of the others")
    step = config.get("decoder_sparse_step") or config.get("moe_layer_freq") or 1
    dense = sizes["layers"] - sizes["layers"] // step if isinstance(step, int) else 0
    dense = max(dense, config.get("first_k_dense_replace") or 0, len(config.get("mlp_only_layers") or ()))
    return {"experts": sizes["experts"], "experts_per_token": sizes["experts_per_token"], "shared_experts": int(shared),
            "dense_layers": dense, "expert_ffn": columns}
