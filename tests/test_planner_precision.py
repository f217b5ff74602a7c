"""The planner told of another precision, or of attention windows: by figures that follow on paper."""

from dataclasses import replace

import pytest

from utils.planner.conventions import PLAIN_16, ZERO_16
from utils.planner.layout import Layout
from utils.planner.plan import plan
from utils.planner.published import MODELS, model_named
from utils.planner.search import _of_degrees, _Search, degree_layouts
from utils.planner.shape import ModelShape
from utils.planner.times import Assumptions
from utils.planner.traffic import step_traffic
from utils.simulation.clusters import cluster_named

GPT = model_named("GPT 22B")
S, H, A, F, V, L = 2048, 6144, 64, 4 * 6144, 51_200, 48
H100 = cluster_named("H100")
MIXED = ModelShape("mixed", 4, 1024, 8, 32_000, 512, experts=4, experts_per_token=2, expert_ffn=512)


# ── bytes of a number ──


@pytest.mark.parametrize("dtype, size", [("float32", 4), ("bfloat16", 2), ("float8_e4m3fn", 2)])
def test_what_is_kept_and_sent_has_the_dtype_s_bytes(dtype, size):
    """A layer keeps 16 numbers and 2 masks of width h a token, 2 numbers and a mask a score: sbh(34 + 5as/h) of 2 bytes."""
    of = Assumptions(dtype=dtype)
    ours = plan(GPT, Layout(), H100, 1, PLAIN_16, of)
    layer = S * H * (16 * size + 2) + A * S * S * (2 * size + 1)
    ends = S * H + S * (2 * size * H + 4 * V)  # the embedding's mask; last norm's and head's inputs; logits are fp32
    assert ours.memory.part("activations") == pytest.approx(L * layer + ends)
    fused = plan(GPT, Layout(), H100, 1, PLAIN_16, replace(of, fused_attention=True), dropout=False)
    assert fused.memory.part("activations") == pytest.approx(L * S * (16 * size * H + 4 * A) + S * (2 * size * H + 4 * V))
    split = plan(GPT, Layout(tp=8, pp=2, cp=2), H100, 1, PLAIN_16, of).traffic
    hidden = size * S / 2 * H
    stage_inputs = 7 / 8 * 1 / 2 * 2 * hidden  # gathered by tensor-parallel ranks
    assert split.of("TP") == pytest.approx(L / 2 * 4 * 2 * 7 / 8 * hidden + stage_inputs)
    assert split.of("CP") == pytest.approx(L / 2 * 3 * 2 * size * S / 2 * H / 8)
    tied = 4 * V / 8 * H  # the gradient of the tied embedding has the state's bytes, not the dtype's
    assert split.of("PP") == pytest.approx(hidden / 8 + tied)
    assert plan(MIXED, Layout(dp=4, ep=4), H100, 4, PLAIN_16, of).traffic.of("EP") == pytest.approx(
        4 * 4 * 3 / 4 * size * 512 * 2 * 1024)
    assert plan(GPT, Layout(dp=8), H100, 8, PLAIN_16, of).traffic.of("DP") == pytest.approx(
        2 * 7 / 8 * 4 * GPT.parameters())


def test_bytes_of_a_number_can_be_said():
    eight = Assumptions(dtype="float8_e4m3fn", activation_bytes=1)
    assert plan(GPT, Layout(tp=8), H100, 1, assumptions=eight).traffic.of("TP") == pytest.approx(
        plan(GPT, Layout(tp=8), H100, 1).traffic.of("TP") / 2)
    slow, fast = (plan(GPT, Layout(tp=8), H100, 1, assumptions=Assumptions(activation_bytes=size)) for size in (4, 2))
    latencies = L * 4 * 2 * 7 * 2e-6
    assert slow.times["TP exposed"] == pytest.approx(2 * fast.times["TP exposed"] - latencies)
    moved = 3 * ((10 * 4 + 2) * H + 2 * 4 * F / 8) + 3 * 17 * A * S / 8
    assert slow.times["elementwise"] == pytest.approx(L * S * moved / 3.35e12)
    for bad in (0, "2"):
        with pytest.raises((TypeError, ValueError), match="activation_bytes must be"):
            Assumptions(activation_bytes=bad)
    with pytest.raises(ValueError, match="number_bytes must be positive"):
        step_traffic(GPT, Layout(), 1, ZERO_16, 8, number_bytes=0)


@pytest.mark.parametrize("recompute, core_passes", [("none", 3), ("selective", 4), ("full", 4)])
def test_in_8_bits_run_only_products_with_weights(recompute, core_passes):
    """2412.19437, section 3.3: attention and the output head stay in 16 bits, at 989 instead of 1,979 TFLOP/s."""
    layout = Layout(recompute=recompute)
    ours = plan(GPT, layout, H100, 1, assumptions=Assumptions(dtype="float8_e4m3fn", efficiency=1.0))
    core, logits = core_passes * 4 * S * S * H * L, 3 * 2 * S * H * V
    products = (4 if recompute == "full" else 3) * 24 * S * H * H * L
    assert ours.times["compute"] == pytest.approx(products / 1979e12 + (core + logits) / 989e12)
    sixteen = plan(GPT, layout, H100, 1, assumptions=Assumptions(efficiency=1.0)).times["compute"]
    assert sixteen / 2 < ours.times["compute"] < sixteen
    assert ours.peak_flops == 1979e12 and "slow" in ours.time.text


def test_a_zero_bubble_in_8_bits_is_shorter_by_what_products_with_weights_are():
    """ZB-H1's (p − 1)(F + I − W), in seconds: W has the logits, and no scores."""
    of = Assumptions(dtype="float8_e4m3fn", efficiency=1.0, fused_attention=True)
    ours = plan(GPT, Layout(pp=4, schedule="ZB-H1"), H100, 64, assumptions=of)
    products, core, logits = 24 * S * H * H * L / 1979e12, 4 * S * S * H * L / 989e12, 2 * S * H * V / 989e12
    done = 3 * (products + logits) + 3.5 * core
    one = (ours.times["compute"] + ours.times["elementwise"]) / 64
    weights = ours.times["compute"] / 64 * (products + logits) / done
    assert ours.times["bubble"] == pytest.approx(3 * (one - 2 * weights))


def test_a_search_in_another_precision_begins_with_lower_bounds():
    """With activations of one byte all times are shorter: so must bounds be, or the fastest stand too far behind."""
    slow = replace(H100, between=replace(H100.between, bytes_per_s=2e9), devices_per_node=1)
    small = ModelShape("small", 8, 1024, 8, 32_000, 512)
    of = Assumptions(dtype="float8_e4m3fn", activation_bytes=1)
    asked = _Search(small, slow, 8, 48, ZERO_16, of, 0.9, True, (1, 8), ("1F1B",), False)
    entries = [entry for degrees in degree_layouts(small, 8) for entry in _of_degrees(asked, degrees)]
    assert len(entries) > 500 and all(entry.time_s <= (1 + 1e-12) * asked.plan_of(entry).time for entry in entries[::7])


# ── windows ──

NEAR = ModelShape("near", 6, 64, 4, 256, 32, window=8, windowed=(5, 6))


def pairs(sequence: int, window: int, masked_too: bool) -> int:
    """Pairs of a query and a key, one by one: of a window with masked ones, all queries have as many."""
    if masked_too:
        return sequence * min(window, sequence)
    return sum(min(query + 1, window) for query in range(sequence))


@pytest.mark.parametrize("window, windowed, near", [(8, (5, 6), 5), (8, (1, 2), 3), (8, (1, 1), 6), (64, (1, 2), 3),
                                                    (8, (2, 4), 4), (None, (1, 1), 0)])
def test_scores_outside_a_window_are_neither_computed_nor_kept(window, windowed, near):
    shape = replace(NEAR, window=window, windowed=windowed)
    assert shape.window_layers == near
    scores = (6 - near) * 32 * 32 + near * pairs(32, window or 32, True)
    assert shape.attention_core_flops(3) == pytest.approx(3 * 4 * 64 * scores)
    half = (6 - near) * 32 * 32 / 2 + near * (pairs(32, min(window or 32, 32), False) - min(window or 32, 32) / 2)
    assert shape.attention_core_flops(3, causal=True) == pytest.approx(3 * 4 * 64 * half)  # the diagonal counts half
    kept, none = (plan(each, Layout(), H100, 1, dropout=False).memory.part("activations")
                  for each in (shape, replace(shape, window=1, windowed=(1, 1))))
    assert kept - none == pytest.approx(2 * 4 * (scores - 6 * 32))


def test_windows_of_published_models():
    """Gemma 3 27B (2503.19786): five of six layers, 1,024 keys; 10 of its 62 layers see all."""
    gemma = ModelShape("Gemma 3 27B", 62, 5376, 32, 262_144, 32_768, kv_heads=16, head_size=128, window=1024,
                       windowed=(5, 6))
    assert gemma.window_layers == 52
    assert gemma.attention_core_flops() == 4 * 32_768 * 32 * 128 * (10 * 32_768 + 52 * 1024)
    assert (MODELS["Gemma 2 27B"].window_layers, MODELS["Mistral 7B"].window_layers) == (23, 32)
    whole = replace(MODELS["Mistral 7B"], window=None)
    assert MODELS["Mistral 7B"].attention_core_flops() == whole.attention_core_flops() / 2  # 4,096 of 8,192


def test_rings_of_keys_and_values_go_as_far_as_a_window_reaches():
    """16 ranks of 2,048 tokens each; 1,024 keys are those of the rank before, 4,096 those of two."""
    shape = ModelShape("ring", 12, 64, 4, 256, 32_768)
    ring = step_traffic(shape, Layout(cp=16), 1, ZERO_16, 8).of("CP")
    for window, hops in ((1024, 1), (4096, 2), (32_768, 15)):
        near = step_traffic(replace(shape, window=window, windowed=(5, 6)), Layout(cp=16), 1, ZERO_16, 8).of("CP")
        assert near == pytest.approx(ring * (2 * 15 + 10 * hops) / (12 * 15))


@pytest.mark.parametrize("bad, words", [
    ({"window": 0}, "window must be at least 1"), ({"windowed": (1, 2)}, "need a window"),
    ({"window": 8, "windowed": (3, 2)}, "k of every m"), ({"window": 8, "windowed": 2}, "k of every m"),
    ({"window": 8, "windowed": (0, 2)}, "at least 1")])
def test_windows_that_cannot_be(bad, words):
    with pytest.raises((TypeError, ValueError), match=words):
        ModelShape("bad", 6, 64, 4, 256, 32, **bad)
