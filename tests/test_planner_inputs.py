"""Models and jobs as other tools write them: published configs give published counts, and nothing is lost in silence."""

import json

import pytest

from utils.planner import Assumptions, Layout, from_megatron, from_torchtitan, plan, shape_from_config
from utils.planner.conventions import BFLOAT16_8, MEGATRON_18, PLAIN_16
from utils.planner.published import model_named

LLAMA = {"model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
         "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256, "max_position_embeddings": 8192,
         "rms_norm_eps": 1e-5, "tie_word_embeddings": False, "attention_bias": False, "mlp_bias": False}
LLAMA_32_1B = {**LLAMA, "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16, "head_dim": 64,
               "max_position_embeddings": 131072, "tie_word_embeddings": True}
MISTRAL = {"model_type": "mistral", "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
           "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 32000, "max_position_embeddings": 32768,
           "rms_norm_eps": 1e-5, "sliding_window": 4096, "tie_word_embeddings": False}
MIXTRAL = {**MISTRAL, "model_type": "mixtral", "sliding_window": None, "num_local_experts": 8, "num_experts_per_tok": 2}
QWEN25 = {"model_type": "qwen2", "hidden_size": 3584, "intermediate_size": 18944, "num_hidden_layers": 28,
          "num_attention_heads": 28, "num_key_value_heads": 4, "vocab_size": 152064, "max_position_embeddings": 131072,
          "rms_norm_eps": 1e-6, "sliding_window": 131072, "use_sliding_window": False, "max_window_layers": 28,
          "tie_word_embeddings": False}
QWEN3_30B = {"model_type": "qwen3_moe", "hidden_size": 2048, "intermediate_size": 6144, "num_hidden_layers": 48,
             "head_dim": 128, "num_attention_heads": 32, "num_key_value_heads": 4, "vocab_size": 151936,
             "max_position_embeddings": 40960,
             "rms_norm_eps": 1e-6, "num_experts": 128, "num_experts_per_tok": 8, "moe_intermediate_size": 768,
             "decoder_sparse_step": 1, "mlp_only_layers": [], "tie_word_embeddings": False, "attention_bias": False}
QWEN15_MOE = {**QWEN25, "model_type": "qwen2_moe", "hidden_size": 2048, "intermediate_size": 5632, "num_hidden_layers": 24,
              "num_attention_heads": 16, "num_key_value_heads": 16, "vocab_size": 151936, "num_experts": 60,
              "num_experts_per_tok": 4, "moe_intermediate_size": 1408, "shared_expert_intermediate_size": 5632}
GEMMA2 = {"model_type": "gemma2", "hidden_size": 3584, "intermediate_size": 14336, "num_hidden_layers": 42, "head_dim": 256,
          "num_attention_heads": 16, "num_key_value_heads": 8, "vocab_size": 256000, "max_position_embeddings": 8192,
          "rms_norm_eps": 1e-6, "sliding_window": 4096}
GEMMA3 = {"model_type": "gemma3", "text_config": {
    "model_type": "gemma3_text", "hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 34,
    "sliding_window": 1024}, "vision_config": {"hidden_size": 1152, "model_type": "siglip_vision_model"}}
GPT2 = {"model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12, "n_positions": 1024, "n_ctx": 1024,
        "vocab_size": 50257, "layer_norm_epsilon": 1e-5, "n_inner": None}
NEOX = {"model_type": "gpt_neox", "hidden_size": 6144, "intermediate_size": 24576, "num_hidden_layers": 44,
        "num_attention_heads": 64, "vocab_size": 50432, "max_position_embeddings": 2048, "layer_norm_eps": 1e-5,
        "use_parallel_residual": True, "tie_word_embeddings": False}
OLMO2 = {"model_type": "olmo2", "hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32,
         "num_attention_heads": 32, "num_key_value_heads": 32, "vocab_size": 100352, "max_position_embeddings": 4096,
         "rms_norm_eps": 1e-6, "tie_word_embeddings": False}
DEEPSEEK = {"model_type": "deepseek_v3", "hidden_size": 7168, "intermediate_size": 18432, "num_hidden_layers": 61,
            "num_attention_heads": 128, "num_key_value_heads": 128, "vocab_size": 129280, "max_position_embeddings": 163840,
            "rms_norm_eps": 1e-6, "n_routed_experts": 256, "num_experts_per_tok": 8, "n_shared_experts": 1,
            "moe_intermediate_size": 2048, "first_k_dense_replace": 3, "moe_layer_freq": 1, "kv_lora_rank": 512,
            "q_lora_rank": 1536, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
            "num_nextn_predict_layers": 1, "tie_word_embeddings": False}
DEEPSEEK_LITE = {**DEEPSEEK, "model_type": "deepseek_v2", "hidden_size": 2048, "intermediate_size": 10944,
                 "num_hidden_layers": 27, "num_attention_heads": 16, "num_key_value_heads": 16, "vocab_size": 102400,
                 "n_routed_experts": 64, "num_experts_per_tok": 6, "n_shared_experts": 2, "moe_intermediate_size": 1408,
                 "first_k_dense_replace": 1, "q_lora_rank": None}
PHI2 = {"model_type": "phi", "hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 32,
        "num_attention_heads": 32, "num_key_value_heads": None, "vocab_size": 51200, "max_position_embeddings": 2048,
        "layer_norm_eps": 1e-5, "tie_word_embeddings": False, "qk_layernorm": False}
PHI3 = {"model_type": "phi3", "hidden_size": 3072, "intermediate_size": 8192, "num_hidden_layers": 32,
        "num_attention_heads": 32, "num_key_value_heads": 32, "vocab_size": 32064, "max_position_embeddings": 4096,
        "rms_norm_eps": 1e-5, "sliding_window": 2047, "tie_word_embeddings": False, "attention_bias": False}
GPT_OSS = {"model_type": "gpt_oss", "hidden_size": 2880, "intermediate_size": 2880, "num_hidden_layers": 24, "head_dim": 64,
           "num_attention_heads": 64, "num_key_value_heads": 8, "vocab_size": 201088, "max_position_embeddings": 131072,
           "rms_norm_eps": 1e-5, "sliding_window": 128, "num_local_experts": 32, "num_experts_per_tok": 4,
           "attention_bias": True, "tie_word_embeddings": False,
           "layer_types": ["sliding_attention", "full_attention"] * 12}


@pytest.mark.parametrize(("config", "published"), [
    (LLAMA, 8_030_261_248), (LLAMA_32_1B, 1_235_814_400), (MISTRAL, 7_241_732_096), (MIXTRAL, 46_702_792_704),
    (GEMMA2, 9_241_705_984), (GPT2, 124_439_808), (NEOX, 20_554_567_680), (OLMO2, 7_298_617_344), (PHI3, 3_821_079_552),
    (QWEN25, 7_615_616_512 - 28 * (3584 + 2 * 512)), (PHI2, 2_779_683_840 - 51_200),
    (QWEN3_30B, 30_532_122_624 - 48 * 2 * 128), (QWEN15_MOE, 14_315_784_192 - 24 * (3 * 2048 + 2048)),
])
def test_published_configs_give_the_published_parameters(config, published):
    assert shape_from_config(config).parameters() == published


@pytest.mark.parametrize(("config", "billions", "rel"), [
    (DEEPSEEK, 671.03, 1e-4), (DEEPSEEK_LITE, 15.706, 1e-4), (GEMMA3, 3.880, 1e-4), (GPT_OSS, 20.91, 2e-3),
    ({**LLAMA, "model_type": "a new one"}, 8.030, 1e-4),
])
def test_published_configs_give_the_printed_billions(config, billions, rel):
    assert shape_from_config(config).parameters() / 1e9 == pytest.approx(billions, rel=rel)


@pytest.mark.parametrize(("config", "name", "sequence"), [
    (LLAMA, "Llama 3 8B", 8192), (MIXTRAL, "Mixtral 8x7B", 32_768), (DEEPSEEK, "DeepSeek-V3", 4096),
    (DEEPSEEK_LITE, "DeepSeek-V2-Lite", 4096), (NEOX, "GPT-NeoX 20B", 2048), (OLMO2, "OLMo 2 7B", 4096)])
def test_a_config_is_the_shape_that_papers_describe(config, name, sequence):
    read, printed = shape_from_config(config, sequence), model_named(name)
    assert read.letters == printed.letters and read.step_flops(3, causal=True) == printed.step_flops(3, causal=True)
    assert (read.parallel_ffn, read.tied) == (printed.parallel_ffn, printed.tied)


@pytest.mark.parametrize(("config", "window", "windowed"), [
    (MISTRAL, 4096, (1, 1)), (MIXTRAL, None, (1, 1)), (QWEN25, None, (1, 1)), (GEMMA2, 4096, (1, 2)), (GEMMA3, 1024, (5, 6)),
    (GPT_OSS, 128, (1, 2)), ({**QWEN25, "use_sliding_window": True, "max_window_layers": 21}, 131_072, (7, 28)),
    ({**QWEN25, "use_sliding_window": True, "layer_types": ["full_attention"] * 28}, None, (1, 1))])
def test_windows_are_those_of_the_layers_that_have_them(config, window, windowed):
    shape = shape_from_config(config)
    assert (shape.window, shape.windowed) == (window, windowed)


def test_a_config_is_read_from_a_file_or_its_folder_and_says_what_it_leaves_out(tmp_path):
    (tmp_path / "Qwen2.5-7B").mkdir()
    file = tmp_path / "Qwen2.5-7B" / "config.json"
    file.write_text(json.dumps(QWEN25))
    shape = shape_from_config(file, sequence=4096)
    assert shape == shape_from_config(file.parent, 4096) and shape.sequence == 4096
    assert shape.name == "Qwen2.5-7B" and "biases of queries, keys and values" in shape.source
    assert "not counted" not in shape_from_config(LLAMA).source and "isn't text" in shape_from_config(GEMMA3).source
    assert "read by its fields" in shape_from_config({**LLAMA, "model_type": "new"}).source
    assert shape_from_config(LLAMA, name="mine").name == "mine"


def without(config, *fields):
    return {key: value for key, value in config.items() if key not in fields}


@pytest.mark.parametrize(("config", "words"), [
    (without(LLAMA, "hidden_size", "vocab_size"), "missing that a shape needs: hidden_size or n_embd, vocab_size"),
    (without(LLAMA, "max_position_embeddings"), "max_position_embeddings"),
    ({**without(LLAMA, "intermediate_size"), "model_type": "new"}, "intermediate_size"),
    ({**without(LLAMA, "rms_norm_eps"), "model_type": "new"}, "expected rms_norm_eps or layer_norm_eps"),
    ({"model_type": "bert"}, "bert is no decoder"), ({**LLAMA, "is_encoder_decoder": True}, "no decoder"),
    ({**LLAMA, "model_type": "jamba", "mamba_d_state": 16}, "layers without attention"),
    (without(MIXTRAL, "num_experts_per_tok"), "how many a token goes to"),
    ({**DEEPSEEK, "v_head_dim": 256}, "v_head_dim 256"),
    ({**QWEN15_MOE, "shared_expert_intermediate_size": 5000}, "no multiple of the 1408"),
    ({**LLAMA, "attention_chunk_size": 8192}, "chunked attention"), ({**LLAMA, "n_layer": -1}, "n_layer must be at least 0"),
    ({**LLAMA, "layer_types": ["linear_attention"] * 32}, "linear_attention isn't modelled"),
])
def test_what_cannot_be_read_is_refused_in_words(config, words):
    with pytest.raises(ValueError, match=words):
        shape_from_config(config)


def test_files_that_are_no_configs_are_refused_in_words(tmp_path):
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(ValueError, match="is no JSON"):
        shape_from_config(tmp_path)
    (tmp_path / "config.json").write_text("[]")
    with pytest.raises(ValueError, match="one JSON object"):
        shape_from_config(tmp_path)
    with pytest.raises(FileNotFoundError):
        shape_from_config(tmp_path / "none.json")
    for config, words in ((7, "path of a config"), ({**LLAMA, "hidden_size": "4096"}, "hidden_size must be a number"),
                          ({**LLAMA, "layer_types": 3}, "layer_types must be a list of texts")):
        with pytest.raises(TypeError, match=words):
            shape_from_config(config)


# torchtitan

LLAMA_405B = """
[job]
description = "Llama 3 405B"
[metrics]
log_freq = 10
[model]
name = "llama3"
flavor = "405B"
converters = ["float8"]
[training]
local_batch_size = 2
seq_len = 8192
[parallelism]
data_parallel_replicate_degree = 1
data_parallel_shard_degree = -1
tensor_parallel_degree = 8
enable_async_tensor_parallel = true
[activation_checkpoint]
mode = "full"
[float8]
enable_fsdp_float8_all_gather = true
"""
OLDER = """
[model]
name = "llama3"
flavor = "70B"
[training]
batch_size = 8
seq_len = 4096
data_parallel_shard_degree = 4
data_parallel_replicate_degree = 2
tensor_parallel_degree = 2
[experimental]
pipeline_parallel_degree = 4
pipeline_parallel_microbatches = 4
pipeline_parallel_schedule = "Interleaved1F1B"
[activation_checkpoint]
mode = "selective"
selective_ac_option = "op"
"""


def test_a_torchtitan_job_is_read():
    job = from_torchtitan(LLAMA_405B, devices=128)
    assert job.shape == model_named("Llama 3 405B") and job.global_batch == 32 and job.dtype == "float8_e4m3fn"
    assert job.layout == Layout(dp=16, tp=8, zero=3, sequence_parallel=True, micro_batch=2, recompute="full")
    assert job.changes == {"pipelined_tp": 0.8} and not job.dropout and "metrics.log_freq" in str(job)
    assert from_torchtitan(LLAMA_405B.replace("gather = true", "gather = false"), 128).changes == {
        "pipelined_tp": 0.8, "gathered_input_bytes": None}


def test_older_keys_hybrid_sharding_and_pipelines_of_torchtitan_are_read():
    job = from_torchtitan(OLDER)
    assert job.layout == Layout(dp=8, tp=2, pp=4, zero=3, shard=4, sequence_parallel=True, schedule="interleaved", chunks=2,
                                micro_batch=2, recompute="products", reshard=False)
    assert job.global_batch == 64 and job.shape.sequence == 4096 and job.dtype == "bfloat16"
    assert "selective_ac_option" not in str(job) and "every n-th" in str(from_torchtitan(OLDER.replace('"op"', '"2"')))
    assert from_torchtitan(OLDER + "[parallelism]\nfsdp_reshard_after_forward = 'always'").layout.reshard


def test_a_torchtitan_job_is_planned(tmp_path):
    file = tmp_path / "job.toml"
    file.write_text("[model]\nname = 'llama3'\nflavor = '8B'\n[training]\nlocal_batch_size = 1\nseq_len = 8192\n")
    job = from_torchtitan(file, devices=8)
    ours = plan("Llama 3 8B", Layout(dp=8, zero=3, recompute="selective"), "H100", 8, framework="torchtitan")
    assert job.plan("H100") == ours and float(job.plan("H100").time) == float(ours.time)
    assert job.plan("H100", global_batch=16).global_batch == 16


@pytest.mark.parametrize(("text", "devices", "words"), [
    (LLAMA_405B, None, "say how many there are"), (LLAMA_405B, 100, "is not 100 devices"), ("[training\n", 8, "is no TOML"),
    (OLDER, 32, "is not 32 devices"), (LLAMA_405B.replace("= 8192", "= 0"), 128, "seq_len must be at least 1"),
])
def test_torchtitan_jobs_that_cannot_be_are_refused_in_words(text, devices, words):
    with pytest.raises(ValueError, match=words):
        from_torchtitan(text, devices)


def test_what_torchtitan_has_and_the_planner_has_not_is_said():
    text = LLAMA_405B.replace('"405B"', '"debug"').replace('"full"', '"memory_budget"')
    job = from_torchtitan(text + "[fault_tolerance]\nenable = true\n", 128)
    said = str(job)
    assert job.shape is None and "llama3 debug is none that is published" in said and "memory_budget" in said
    assert "torchft" in said and job.layout.recompute == "products" and "every n-th" not in said
    assert from_torchtitan(text.replace("seq_len", "dtype = 'bfloat16'\nseq_len"), 128).state == BFLOAT16_8
    with pytest.raises(ValueError, match="give shape="):
        job.plan("H100")
    assert job.plan("H100", shape="Llama 3 405B").shape.name == "Llama 3 405B"
    zero_bubble = from_torchtitan(OLDER.replace("Interleaved1F1B", "ZBVZeroBubble"))
    assert zero_bubble.layout.schedule == "ZB-H1" and "ZBVZeroBubble isn't modelled" in str(zero_bubble)


# Megatron-LM

GPT3 = """
GPUS_PER_NODE=8
NUM_NODES=${NNODES:-128}   # 1,024 in all
MODEL_ARGS=(
    --num-layers 96
    --hidden-size 12288
    --num-attention-heads 96
    --seq-length 2048
    --max-position-embeddings 2048
    --vocab-size 51200   # padded
    # --seq-length 4096 \\
    # --swiglu \\
)
torchrun --nproc-per-node $GPUS_PER_NODE --nnodes ${NUM_NODES} pretrain_gpt.py ${MODEL_ARGS[@]} \\
    --micro-batch-size 1 --global-batch-size 1536 --bf16 --lr 6e-5 \\
    --tensor-model-parallel-size 8 --pipeline-model-parallel-size 16 --num-layers-per-virtual-pipeline-stage 3 \\
    --sequence-parallel --use-distributed-optimizer --overlap-grad-reduce --recompute-activations
"""
LLAMA_ARGUMENTS = [
    "--num-layers", "32", "--hidden-size", "4096", "--ffn-hidden-size", "14336", "--num-attention-heads", "32",
    "--group-query-attention", "--num-query-groups=8", "--seq-length", "8192", "--micro-batch-size", "1", "--swiglu",
    "--normalization", "RMSNorm", "--position-embedding-type", "rope", "--disable-bias-linear",
    "--untie-embeddings-and-output-weights", "--vocab-size", "128256", "--bf16", "--fp8-format", "hybrid",
    "--context-parallel-size", "2", "--attention-dropout", "0", "--hidden-dropout", "0.0"]
MIXTRAL_ARGUMENTS = [
    *LLAMA_ARGUMENTS[:-6], "--num-experts", "8", "--moe-router-topk", "2", "--expert-model-parallel-size", "8",
    "--use-megatron-fsdp"]
DEEPSEEK_ARGUMENTS = [
    "--num-layers", "61", "--hidden-size", "7168", "--ffn-hidden-size", "18432", "--num-attention-heads", "128",
    "--seq-length", "4096", "--micro-batch-size", "1", "--swiglu", "--normalization", "RMSNorm", "--position-embedding-type",
    "rope", "--disable-bias-linear", "--untie-embeddings-and-output-weights", "--vocab-size", "129280", "--bf16",
    "--multi-latent-attention", "--q-lora-rank", "1536", "--kv-lora-rank", "512", "--qk-head-dim", "128",
    "--qk-pos-emb-head-dim", "64", "--v-head-dim", "128", "--num-experts", "256", "--moe-router-topk", "8",
    "--moe-ffn-hidden-size", "2048", "--moe-shared-expert-intermediate-size", "2048", "--moe-layer-freq",
    "([0]*3+[1]*58)", "--mtp-num-layers", "1"]


def test_a_megatron_script_is_read():
    job = from_megatron(GPT3)
    assert job.layout == Layout(dp=8, tp=8, pp=16, zero=1, sequence_parallel=True, schedule="interleaved", chunks=2,
                                recompute="selective")
    assert job.shape.letters == model_named("GPT 175B").letters and job.shape.learned_positions and job.shape.tied
    assert job.global_batch == 1536 and job.dtype == "bfloat16" and job.dropout and "--lr" in str(job)
    assert job.changes == {"gather_ahead": False}
    overlapped = GPT3.replace("--overlap-grad-reduce", "--overlap-param-gather")
    assert from_megatron(overlapped).changes == {"hidden_dp": 0}
    planned = job.plan("A100", assumptions=Assumptions())
    assert planned.state == MEGATRON_18 and planned.assumptions == Assumptions() and planned.framework == "Megatron-LM"


def test_a_list_of_megatron_arguments_is_read():
    job = from_megatron(LLAMA_ARGUMENTS, devices=16)
    assert job.shape.letters == model_named("Llama 3 8B").letters and job.shape.parameters() == 8_030_261_248
    assert job.layout == Layout(dp=8, cp=2) and job.global_batch == 8 and job.dtype == "float8_e4m3fn" and not job.dropout
    assert job.plan("H100", usable=1.0).shape.sequence == 8192
    assert from_megatron([each for each in LLAMA_ARGUMENTS if each != "--bf16"], 16).state == PLAIN_16


def test_experts_and_latent_attention_of_megatron_are_read():
    mixtral = from_megatron(MIXTRAL_ARGUMENTS, devices=16, vocabulary=32_000)
    assert mixtral.shape.parameters() == 46_702_792_704 and mixtral.layout == Layout(dp=16, ep=8, zero=3)
    deepseek = from_megatron(DEEPSEEK_ARGUMENTS, devices=8)
    assert deepseek.shape.letters == model_named("DeepSeek-V3").letters and "MTP" in str(deepseek)


def test_a_script_s_quoted_arguments_and_branches_are_read_and_said():
    script = GPT3.replace("--sequence-parallel", "").replace("--tensor-model-parallel-size 8", "--sequence-parallel")
    job = from_megatron('if [ "$FP8" = 1 ]; then\n  MORE+=("--fp8-format hybrid" "--fp8-margin 0")\nfi\n' + script)
    assert job.dtype == "float8_e4m3fn" and "conditions aren't evaluated" in str(job)
    assert "conditions" not in str(from_megatron(GPT3))
    assert job.layout.tp == 1 and not job.layout.sequence_parallel  # Megatron-LM has none without tensor parallelism


def test_a_script_is_read_from_its_file(tmp_path):
    (tmp_path / "train.sh").write_text(GPT3)
    assert from_megatron(tmp_path / "train.sh") == from_megatron(str(tmp_path / "train.sh")) == from_megatron(GPT3)


@pytest.mark.parametrize(("arguments", "devices", "words"), [
    (["--num-layers", "2"], 8, "lack what a plan needs: --hidden-size, --num-attention-heads"),
    (LLAMA_ARGUMENTS, None, "give devices="), (LLAMA_ARGUMENTS, 3, "does not divide 3 devices"),
    ([*LLAMA_ARGUMENTS, "--num-layers", "$L"], 16, "variable whose value isn't in the text"),
    ([*LLAMA_ARGUMENTS, "--pipeline-model-parallel-size", "4", "--num-layers-per-virtual-pipeline-stage", "5"], 16,
     "cannot be cut into stages of 5"),
    ([*MIXTRAL_ARGUMENTS, "--moe-layer-freq", "[0]*3"], 16, "for each of 32 layers"),
    ([*LLAMA_ARGUMENTS, "--hybrid-override-pattern", "M*"], 16, "without attention"),
    ([*LLAMA_ARGUMENTS, "--pipeline-model-parallel-size", "0"], 16, "pp must be at least 1"),
    ([*LLAMA_ARGUMENTS, "--recompute-granularity", "some"], 16, "selective or full"),
    ([each for each in LLAMA_ARGUMENTS if each not in ("--vocab-size", "128256")], 16, "give the vocabulary"),
    ("--num-layers '2", 8, "as a command line"),
])
def test_megatron_arguments_that_cannot_be_are_refused_in_words(arguments, devices, words):
    with pytest.raises(ValueError, match=words):
        from_megatron(arguments, devices)


def test_what_megatron_has_and_the_planner_has_not_is_said():
    job = from_megatron([*LLAMA_ARGUMENTS, "--recompute-granularity", "full", "--recompute-method", "block",
                         "--recompute-num-layers", "4", "--optimizer-cpu-offload",
                         "--num-virtual-stages-per-pipeline-rank", "2",
                         "--pipeline-model-parallel-size", "4", "--decoder-first-pipeline-num-layers", "6"], 16)
    said = str(job)
    assert job.layout.recompute_layers is None  # 4 of each of two chunks are all
    assert "--optimizer-cpu-offload" in said and "even as can be" in said
    some = from_megatron([*LLAMA_ARGUMENTS, "--recompute-granularity", "full", "--recompute-method", "block",
                          "--recompute-num-layers", "4", "--attention-backend", "unfused", "--tp-comm-overlap"], 16)
    assert some.layout.recompute_layers == 4 and some.layout.offload_layers == 0
    away = from_megatron([*LLAMA_ARGUMENTS, "--cpu-offloading", "--cpu-offloading-num-layers", "3"], 16)
    assert away.layout.offload_layers == 3
    assert some.changes == {"fused_attention": False, "hidden_dp": 0, "gather_ahead": False, "pipelined_tp": 0.8}
    assert job.layout.uneven_stages and job.layout.schedule == "interleaved" and job.layout.chunks == 2
