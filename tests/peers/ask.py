"""Runs where the peers are installed, with nothing of ours: questions as JSON on stdin, answers on stdout's last line."""

import contextlib
import io
import json
import logging
import re
import sys

TOKENS, GLOBAL_BATCH, TFLOPS, PEAK = 300_000_000_000, 1536, 140, 312e12


# ── DeepSpeed, nothing offloaded; a node has 8 GPUs, which matters for the hosts' memory only ──


def _deepspeed(row: dict) -> float:
    from deepspeed.runtime.zero import stage3, stage_1_and_2

    gpus = {"num_gpus_per_node": 8, "num_nodes": row["dp"] // 8}
    if row["question"] == "state, as printed":
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            stage_1_and_2.estimate_zero2_model_states_mem_needs_all_cold(row["parameters"], **gpus)
        return float(re.search(r"\| +([\d.]+)GB \| offload_optimizer=none", printed.getvalue())[1])
    if row["zero"] == 2:
        return stage_1_and_2.estimate_zero2_model_states_mem_needs(row["parameters"], cpu_offload=False, **gpus)[1]
    return stage3.estimate_zero3_model_states_mem_needs(row["parameters"], row["largest"], cpu_offload=False,
                                                        cpu_offload_params=False, **gpus)[1]


# ── llm-analysis ──


def _analysis(row: dict):
    from llm_analysis.analysis import LLMAnalysis
    from llm_analysis.config import DtypeConfig, ModelConfig, ParallelismConfig, get_gpu_config_by_name
    from llm_analysis.logger import logger

    logger.setLevel(logging.CRITICAL)
    model = ModelConfig(row["model"], row["layers"], row["heads"], row["width"], row["vocabulary"], row["sequence"],
                        row["kv_heads"], ffn_embed_dim=row["ffn"], expansion_ratio=row["ffn"] / row["width"])
    degrees = ParallelismConfig(row["tp"], row["pp"], row["dp"], sp_size=row["sp"])
    return LLMAnalysis(model, get_gpu_config_by_name("a100-sxm-80gb"), DtypeConfig(), degrees, achieved_tflops=TFLOPS)


def _llm_analysis(row: dict) -> float:
    from llm_analysis.analysis import ActivationRecomputation, DSZeRO

    analysis, batch, sequence = _analysis(row), row["micro_batch"], row["sequence"]
    recompute = ActivationRecomputation[row["recompute"].upper()]
    keeps = {"flash_attn": False, "softmax_dropout": True, "layernorm_dtype_bytes": 2} if row["settings"] == "paper" else {}
    said = analysis.training(batch, global_batch_size=GLOBAL_BATCH, seq_len=sequence, total_num_tokens=TOKENS,
                             activation_recomputation=recompute, ds_zero=DSZeRO(row["zero"]), **keeps)
    a_layer = analysis.get_activation_memory_per_layer(batch, sequence, False, recompute, **keeps)
    model_flops = 3 * analysis.get_num_flops_fwd_total(GLOBAL_BATCH, sequence)
    return {
        "parameters": said["num_params_total"],
        "state": said["(weight+op_state+grad)_memory_per_gpu"],
        "activations of a layer": a_layer,
        "activations": said["activation_memory_per_gpu"],
        "memory of an A100": said["(weight+op_state+grad+act)_memory_per_gpu"] + said["memory_left_per_gpu"],
        "forward FLOPs": analysis.get_num_flops_fwd_total(batch, sequence),
        "FLOPs with recomputation": said["num_flops_total_per_micro_batch"],
        "step": said["latency_per_iter"],
        "days": said["total_training_latency"] / 86_400,
        "MFU": model_flops / (said["latency_per_iter"] * said["total_num_gpus"] * PEAK),
        "TP messages": said["latency_fwd_tp_comm"],
    }[row["question"]]


if __name__ == "__main__":
    asked = {"deepspeed": _deepspeed, "llm-analysis": _llm_analysis}
    print("\n" + json.dumps([asked[row["peer"]](row) for row in json.load(sys.stdin)]))
