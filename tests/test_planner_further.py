"""The planner against rows of papers that lie in no table of ours: counts, FLOPs, utilization, days, bytes."""

from dataclasses import replace

import pytest

from utils.planner.conventions import DEEPSPEED_20, ZERO_16, relative_bubble
from utils.planner.layout import Layout
from utils.planner.memory import layer_activations, sharded_state
from utils.planner.plan import plan
from utils.planner.published import model_named
from utils.planner.shape import ModelShape
from utils.planner.times import Assumptions, bubble_time, days_for_tokens
from utils.planner.traffic import step_traffic
from utils.planner.utilization import flops_per_device, hfu, mfu, six_nd, training_days
from utils.planner.words import assumptions_in_words
from utils.simulation.clusters import cluster_named

A100, GB = 312e12, 1e9


def gpt(layers: int, width: int, heads: int, vocabulary: int = 50_257, sequence: int = 2048) -> ModelShape:
    return ModelShape("GPT", layers, width, heads, vocabulary, sequence, learned_positions=True)


def rms(layers: int, width: int, heads: int, vocabulary: int, sequence: int, ffn: int, **others) -> ModelShape:
    usual = {"gated": True, "biases": False, "norm_vectors": 1, "tied": False}
    return ModelShape("model", layers, width, heads, vocabulary, sequence, ffn=ffn, **{**usual, **others})


@pytest.mark.parametrize(("shape", "released"), [
    (gpt(12, 768, 12, sequence=1024), 124_439_808), (gpt(24, 1024, 16, sequence=1024), 354_823_168),
    (gpt(36, 1280, 20, sequence=1024), 774_030_080), (gpt(48, 1600, 25, sequence=1024), 1_557_611_200),  # GPT-2
    (rms(60, 6656, 52, 32_000, 2048, 17_920), 32_528_943_616), (rms(80, 8192, 64, 32_000, 2048, 22_016), 65_285_660_672),
    (model_named("Llama 3 405B"), 405_853_388_800),
    (rms(16, 2048, 32, 128_256, 8192, 8192, kv_heads=8, tied=True), 1_235_814_400),  # Llama 3.2
    (rms(28, 3072, 24, 128_256, 8192, 8192, kv_heads=8, tied=True), 3_212_749_824),
    (rms(18, 2048, 8, 256_128, 8192, 16_384, kv_heads=1, tied=True), 524_550_144 + 1_981_884_416),  # Gemma (2403.08295)
    (rms(28, 3072, 16, 256_128, 8192, 24_576, head_size=256, tied=True), 786_825_216 + 7_751_248_896),
])
def test_parameters_are_those_of_the_released_weights(shape, released):
    assert shape.parameters() == released


@pytest.mark.parametrize(("shape", "billions", "active_billions"), [
    (rms(56, 6144, 48, 32_000, 65_536, 16_384, kv_heads=8, experts=8, experts_per_token=2), 141, 39),  # Mixtral 8x22B
    (rms(40, 6144, 48, 100_352, 32_768, 10_752, kv_heads=8, experts=16, experts_per_token=4), 132, 36),  # DBRX
    (rms(60, 5120, 128, 102_400, 4096, 12_288, head_size=128, experts=160, experts_per_token=6, shared_experts=2,
         dense_layers=1, expert_ffn=1536, query_rank=1536, latent_rank=512, rope_size=64), 236, 21),  # DeepSeek-V2
])
def test_mixtures_have_the_printed_parameters_and_active_ones(shape, billions, active_billions):
    assert shape.parameters() / GB == pytest.approx(billions, rel=0.01)
    assert shape.active_parameters() / GB == pytest.approx(active_billions, rel=0.02)


@pytest.mark.parametrize(("shape", "tokens", "printed", "rel"), [
    (gpt(12, 768, 12), 300e9, 2.25e20, 0.003), (gpt(24, 1024, 16), 300e9, 6.41e20, 0.003),  # 2005.14165, table D.1
    (gpt(24, 1536, 16), 300e9, 1.37e21, 0.003), (gpt(32, 2560, 32), 300e9, 4.77e21, 0.003),
    (gpt(32, 4096, 32), 300e9, 1.20e22, 0.003), (model_named("GPT-3 175B"), 300e9, 3.14e23, 0.003),
    (model_named("PaLM 540B"), 780e9, 2.527e24, 0.002), (model_named("OLMo 2 7B"), 4.05e12, 1.8e23, 0.02),
    (model_named("OLMo 2 13B"), 5.6e12, 4.6e23, 0.01),
])
def test_training_flops_are_six_nd(shape, tokens, printed, rel):
    assert six_nd(shape, tokens) == pytest.approx(printed, rel=rel)


DEEPSEEK, PALM, NEMOTRON = (model_named(name) for name in ("DeepSeek-V3", "PaLM 540B", "Nemotron-4 340B"))
NEMOTRON_15B = rms(32, 6144, 48, 256_000, 4096, 24_576, kv_heads=8, gated=False, norm_vectors=2)
MEGASCALE = ModelShape("175B", 96, 12_288, 128, 64_000, 2048, learned_positions=True)


@pytest.mark.parametrize(("shape", "batch", "seconds", "devices", "peak", "printed", "points"), [
    (PALM, 2048, 2048 * 2048 / 238_300, 6144, 275e12, 46.2, 0.06),  # 2204.02311, section 4.1
    (model_named("MT-NLG 530B"), 1920, 1920 * 2048 / 65_430, 2240, A100, 30.2, 0.06),  # its appendix B
    (model_named("GPT 530B"), 280, 37.83, 280, A100, 56.0, 0.1),  # 2205.05198, table 5
    (model_named("GPT 1T"), 512, 71.49, 512, A100, 56.3, 0.1),
    (model_named("GPT 530B"), 2240, 39.15, 2240, A100, 54.2, 0.1),
    (NEMOTRON, 768, 10.3, 1536, 989.5e12, 42.4, 0.2), (NEMOTRON, 2304, 8.0, 6144, 989.5e12, 41.0, 0.3),  # 2406.11704
    (NEMOTRON_15B, 384, 0.57, 768, 989.5e12, 34.3, 0.3), (NEMOTRON_15B, 768, 0.58, 1536, 989.5e12, 33.3, 0.3),  # 2402.16819
    (DEEPSEEK, 15_360, 19.926, 2048, 989e12, 43.73, 0.2),  # 2505.09343, table 4
    (MEGASCALE, 768, 40.0, 256, A100, 53.0, 0.1), (MEGASCALE, 6144, 8.57, 12_288, A100, 41.2, 0.1),  # 2402.15627
])
def test_a_measured_step_has_the_printed_mfu(shape, batch, seconds, devices, peak, printed, points):
    assert 100 * mfu(shape, batch, seconds, devices, peak) == pytest.approx(printed, abs=points)


def test_other_conventions_of_utilization_give_the_other_printed_figures():
    assert 100 * mfu(DEEPSEEK, 15_360, 19.926, 2048, 989e12, causal=True) == pytest.approx(38.94, abs=0.2)
    for shape, row, printed in ((model_named("GPT 530B"), (280, 37.83, 280), 57.0),
                                (model_named("GPT 1T"), (512, 71.49, 512), 57.0)):
        assert 100 * hfu(shape, *row, A100, "selective", attention_again=3) == pytest.approx(printed, abs=0.1)
    mt_nlg = model_named("MT-NLG 530B").hardware_flops(1920, "full")  # 2201.11990, section 3: TFLOP/s on so many nodes
    for nodes, seconds, tflops in ((280, 60.1, 126), (350, 50.2, 121), (420, 44.4, 113)):
        assert flops_per_device(mt_nlg, seconds, 8 * nodes) / 1e12 == pytest.approx(tflops, abs=1)


def test_days_and_hours_of_printed_runs():
    assert days_for_tokens(1e12, 15_360 * 4096, 19.926) * 24 * 2048 == pytest.approx(180e3, rel=0.005)  # DeepSeek-V3: hours
    assert days_for_tokens(1.4e12, 4e6, 4e6 / (380 * 2048)) == pytest.approx(21, abs=0.3)  # LLaMA 65B, 2302.13971
    big = model_named("GPT 530B")
    for devices, tflops, days in ((640, 138, 169), (1120, 98, 137), (2240, 48, 140), (560, 171, 156), (1120, 167, 80),
                                  (2240, 159, 42)):  # 2104.04473, table 2
        assert training_days(big, 300e9, devices, tflops * 1e12, "full") == pytest.approx(days, abs=1.1)


@pytest.mark.parametrize(("parameters", "ranks", "printed"), [
    (128e9, 4, (896, 704, 512)), (128e9, 64, (536, 284, 32)), (128e9, 1024, (513, 257, 2)),
    (1e12, 4, (7000, 5500, 4000)), (1e12, 64, (4187, 2218, 250)), (1e12, 1024, (4011, 2013, 15.6)),
])
def test_states_of_larger_models_are_those_of_the_zero_paper(parameters, ranks, printed):
    """Rajbhandari et al. 2020 (1910.02054), table 1; cells are truncated."""
    for stage, gigabytes in enumerate(printed, 1):
        assert sum(map(float, sharded_state(parameters, ranks, stage, ZERO_16))) / GB == pytest.approx(gigabytes, abs=1)


def test_a_parameter_costs_16_bytes_or_20():
    for billions, plain, fp32_gradients in ((1, 16, 20), (7, 112, 140), (70, 1120, 1400), (405, 6480, 8100)):
        for state, printed in ((ZERO_16, plain), (DEEPSPEED_20, fp32_gradients)):  # Ultra-Scale Playbook, memory usage
            assert sum(map(float, sharded_state(billions * GB, 1, 0, state))) / GB == pytest.approx(printed)


def test_recomputing_the_core_saves_and_costs_what_is_printed():
    """Korthikanti et al. 2022 (2205.05198), section 5: memory saved, FLOPs added; the abstract's factor of five."""
    for name, saved, added in (("GPT 175B", 0.70, 2.7), ("GPT 530B", 0.65, 1.6)):
        shape = model_named(name)
        whole, selective = (layer_activations(shape, Layout(recompute=how)) for how in ("none", "selective"))
        assert 1 - selective / whole == pytest.approx(saved, abs=0.01)
        more = shape.hardware_flops(1, "selective", attention_again=3) / shape.step_flops(1) - 1
        assert 100 * more == pytest.approx(added, abs=0.05)
    for name in ("GPT 530B", "GPT 1T"):
        split, both = (layer_activations(model_named(name), Layout(tp=8, **more)) for more in
                       ({}, {"sequence_parallel": True, "recompute": "selective"}))
        assert split / both == pytest.approx(5, abs=0.1)


@pytest.mark.parametrize(("name", "devices", "batch", "layout", "printed_s", "rel"), [
    ("GPT 530B", 280, 280, Layout(tp=8, pp=35, chunks=3, schedule="interleaved"), 37.83, 0.04),
    ("GPT 1T", 512, 512, Layout(tp=8, pp=64), 71.49, 0.08),
])
def test_planned_steps_of_the_largest_models_are_near_the_measured(name, devices, batch, layout, printed_s, rel):
    """2205.05198, table 5: with sequence parallelism and selective recomputation."""
    cluster = replace(cluster_named("A100"), n_devices=devices)
    layout = replace(layout, sequence_parallel=True, recompute="selective")
    assert plan(model_named(name), layout, cluster, batch).time == pytest.approx(printed_s, rel=rel)


@pytest.mark.parametrize(("tflops", "gb_per_s", "printed"), [(312, 300, 1040), (275, 268, 1026), (196, 186, 1054)])
def test_the_smallest_block_of_a_ring_of_attention_is_flops_over_bandwidth(tflops, gb_per_s, printed):
    """Liu et al. 2023 (2310.01889), table 2: a block of F/B tokens computes as long as its keys and values travel."""
    block = tflops * 1e12 / (gb_per_s * 1e9)
    shape = ModelShape("ring", 1, 4096, 32, 256, int(block) * 8)
    hop = step_traffic(shape, Layout(cp=8), 1, ZERO_16, 8, axes=("CP",)).flows[0].payload / (gb_per_s * 1e9)
    assert hop == pytest.approx(shape.attention_core_flops() / 64 / (tflops * 1e12), rel=0.002)
    assert block == pytest.approx(printed, abs=1)


def test_formulas_of_papers():
    for stages, micro_batches in ((4, 32), (8, 32)):  # GPipe, 1811.06965: (K − 1)/(M + K − 1)
        bubble = relative_bubble(bubble_time("GPipe", stages, 1, 1, 1, 1), 3 * micro_batches, "total")
        assert bubble == pytest.approx((stages - 1) / (micro_batches + stages - 1))
    shape = model_named("GPT 175B")  # 1910.02054, section 8: 12 × sequence × width a layer, with recomputation; ring 7/8
    sent = step_traffic(shape, Layout(tp=8, recompute="full"), 1, ZERO_16, 8).of("TP")
    assert sent / 2 / shape.layers == pytest.approx(12 * shape.sequence * shape.width * 7 / 8)


def test_layers_whose_parts_run_side_by_side_are_reduced_once():
    """GPT-NeoX (2204.06745), section 2: one all-reduce in the forward and one in the backward pass, not two."""
    both, apart = (replace(model_named("GPT-NeoX 20B"), parallel_ffn=flag) for flag in (True, False))
    for more in ({}, {"sequence_parallel": True}, {"recompute": "full"}):
        once, twice = (step_traffic(shape, Layout(tp=2, **more), 1, ZERO_16, 8).of("TP") for shape in (both, apart))
        assert twice == pytest.approx(2 * once)
    assert model_named("PaLM 540B").parallel_ffn


def test_fused_attention_makes_the_scores_again():
    """FlashAttention-2 (2307.08691), section 3.1: five products in the backward pass against two in the forward."""
    shape = replace(model_named("Llama 3 8B"), sequence=131_072)
    plain, fused = (plan(shape, Layout(), replace(cluster_named("H100"), n_devices=1), 1,
                         assumptions=Assumptions(fused_attention=flag)).times["compute"] for flag in (False, True))
    assert fused / plain - 1 == pytest.approx(shape.attention_core_flops() / 2 / shape.step_flops(), rel=1e-9)


@pytest.mark.parametrize("name", ["Llama 3 8B", "Gemma 2 27B"])
def test_a_plan_that_skips_masked_scores(name):
    """Half of whole attention, and of a window what the diagonal leaves; 2505.09343 prints both ways of counting."""
    shape = replace(model_named(name), sequence=32_768)
    ways = [plan(shape, Layout(recompute="selective"), replace(cluster_named("H100"), n_devices=1), 2,
                 assumptions=Assumptions(fused_attention=True, causal=flag)) for flag in (False, True)]
    skipped = shape.attention_core_flops(2) - shape.attention_core_flops(2, causal=True)
    whole, causal = ways
    assert whole.hardware_flops - causal.hardware_flops == pytest.approx(4 * skipped)
    speed = 989.4e12 * causal.cluster.device.efficiency
    assert whole.times["compute"] - causal.times["compute"] == pytest.approx(4.5 * skipped / speed, rel=1e-3)
    assert causal.mfu == mfu(shape, 2, float(causal.time), 1, causal.peak_flops, causal=True)
    assert causal.memory == whole.memory


def test_offloaded_layers_leave_the_device_and_take_the_host_s_link():
    """Llama 3 8B, 2 × 8,192 tokens: a layer keeps 34·2·s·b·h bytes less what fused attention, GQA and SwiGLU change."""
    def planned(layers: int, **changes):
        layout = Layout(dp=8, zero=3, micro_batch=2, offload_layers=layers)
        return plan("Llama 3 8B", layout, "H100", 32, assumptions=Assumptions(fused_attention=True, **changes))

    none, some, every = planned(0), planned(10), planned(32)
    layer = float(layer_activations(model_named("Llama 3 8B"), none.layout, dropout=False, fused_attention=True))
    assert float(none.memory - some.memory) == pytest.approx(8 * layer)  # two are on their way
    assert float(none.memory - every.memory) == pytest.approx(30 * layer)
    assert float(every.host_bytes) == pytest.approx(2 * 32 * layer)  # of two micro-batches
    working = none.times["compute"] + none.times["elementwise"]
    exposed = 2 * every.host_bytes / 25e9 - working  # both ways stand out
    assert float(every.time - none.time) == pytest.approx(exposed) and exposed > 0
    assert planned(32, host_bytes_per_s=450e9).time == pytest.approx(none.time)  # as GH200's
    assert "offload of 10 layers" in some.heading and "host's memory" in " ".join(assumptions_in_words(some))
    with pytest.raises(ValueError, match="A device has 32 layers, and offload_layers is 33"):
        planned(33)
