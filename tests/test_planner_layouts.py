"""Numbers that explain themselves, shapes and layouts: what they refuse, and in which words."""

import copy
import math
import pickle
import re

import pytest

from utils.planner.conventions import MEGATRON_18, ZERO_16
from utils.planner.explained import KNOWN, Explained, explain, given, total
from utils.planner.layout import Layout, reasons_against
from utils.planner.memory import device_memory
from utils.planner.plan import plan
from utils.planner.published import MODELS, model_named
from utils.planner.shape import ModelShape
from utils.planner.times import Assumptions

GPT = model_named("GPT 175B")


def every_number(number: Explained):
    yield number
    for below in (*number.parts, *(value for value in number.values.values() if isinstance(value, Explained))):
        yield from every_number(below)


def test_an_explained_number_is_a_float_with_a_formula():
    weights = explain("weights", "bytes", "2*P/t", P=7.5e9, t=8)
    assert weights == 1.875e9 and weights.value == 1.875e9 and type(weights + 1) is float
    assert sum([weights, weights]) == 3.75e9
    assert (weights.formula, weights.filled, str(weights)) == ("2·P/t", "2·7.5e9/8", "1.875 GB (1.746 GiB)")
    assert weights.text == "weights: 1.875 GB (1.746 GiB) = 2·P/t = 2·7.5e9/8"
    assert f"{weights:.2e}" == "1.88e+09" and math.isclose(weights, 1.875e9) and {weights: 1}[1.875e9] == 1
    for copied in (copy.copy(weights), copy.deepcopy(weights), pickle.loads(pickle.dumps(weights))):
        assert copied == weights and copied.text == weights.text


def test_a_sum_names_its_parts_and_shows_those_below_it_once():
    P = explain("all", "parameters", "L*x", L=2, x=3)
    both = total("state", "bytes", [explain("weights", "bytes", "2*P", P=P), explain("gradients", "bytes", "4*P", P=P)])
    assert both == 36 and both.part("gradients") == 24 and both.formula == "weights + gradients"
    assert both.text.count("L·x = 2·3") == 1
    assert "<script" not in total("<script>", "bytes", [P])._repr_html_() and "2·6" in both._repr_html_()
    with pytest.raises(KeyError, match="only weights, gradients"):
        both.part("optimizer")
    assert given(1.1, "s", "measured").text == "measured: 1.1 s"


@pytest.mark.parametrize("value, unit, words", [
    (0.0137, "s", "13.7 ms"), (90, "s", "90 s"), (0.514, "share", "51.4 %"), (1.41e17, "FLOP", "141 PFLOP"),
    (174.6e9, "parameters", "174.6 billion parameters"), (2**30, "bytes", "1.074 GB (1 GiB)"), (12, "bytes", "12 bytes"),
    (312e12, "FLOP/s", "312 TFLOP/s"), (0, "bytes", "0 bytes"), (math.inf, "s", "inf s"), (1e-6, "s", "1 µs")])
def test_numbers_in_words(value, unit, words):
    assert str(given(value, unit)) == words


def read_back(root: Explained) -> int:
    """As a person would: each text that is shown below a number, evaluated, is its number to the digits shown. How many."""
    formulas = [number for number in every_number(root) if number.expression]
    for number in formulas:
        text = number.filled.replace("·", "*").replace("−", "-").replace("²", "**2").replace("³", "**3")
        text = re.sub(r"(?<=\d),(?=\d{3}\b)", "", text)
        assert eval(text, {"__builtins__": {}, **KNOWN}) == pytest.approx(number, rel=3e-3), number.text
    return len(formulas)


@pytest.mark.parametrize("name", list(MODELS))
def test_filled_formulas_give_the_numbers_they_explain(name):
    shape = MODELS[name]
    layout = Layout(dp=4, tp=2, pp=2, zero=1, uneven_stages=True, recompute="selective")
    assert sum(map(read_back, (shape.parameters(), shape.hardware_flops(3, "full"),
                               device_memory(shape, layout, 64, ZERO_16)))) > 15


@pytest.mark.parametrize(("name", "layout", "more"), [
    ("GPT 175B", Layout(dp=16, tp=8, pp=8, zero=1, sequence_parallel=True, recompute="selective"), {}),
    ("GPT 175B", Layout(dp=4, tp=4, pp=4, chunks=2, schedule="interleaved"), {"dtype": "float16", "rails": 4}),
    ("Llama 3 8B", Layout(dp=32, cp=4, zero=3, shard=8, recompute="full"), {"dtype": "float32", "hidden_cp": 0.5}),
    ("DeepSeek-V3", Layout(dp=64, pp=4, ep=16, zero=2, schedule="ZB-H1", uneven_stages=True), {"fused_attention": True}),
    ("Gemma 2 9B", Layout(dp=2, cp=4, tp=2, pp=2), {"activation_bytes": 4})], ids=lambda value: str(value)[:40])
def test_times_and_traffic_explain_themselves_too(name, layout, more):
    """Each flow's bytes, sent and between nodes, each part of the step's time, bubble, MFU and HFU."""
    ours = plan(MODELS[name], layout, "A100", 256, MEGATRON_18, Assumptions(**{"hidden_dp": 0.3} | more))
    whole = (ours.traffic.sent, ours.traffic.inside, ours.traffic.between, ours.time, ours.bubble(), ours.mfu, ours.hfu,
             ours.memory, ours.days(1e12))
    assert sum(map(read_back, whole)) > 60
    assert {part.name for part in ours.traffic.sent.parts} == {
        axis.upper() for axis in ("tp", "cp", "ep", "pp", "dp") if getattr(layout, axis) > 1}
    assert all(part.name in ours.time.text and (part.expression or part.parts) for part in ours.time.parts)


@pytest.mark.parametrize("bad, words", [
    ({"dp": 0}, "dp must be at least 1"), ({"tp": -8}, "tp must be at least 1"), ({"pp": "8"}, "pp must be a number"),
    ({"tp": 8.0}, "write 8"), ({"dp": True}, "dp must be a number"), ({"zero": 4}, "from 0 to 3"), ({"zero": -1}, "least 0"),
    ({"schedule": "1f1b"}, "did you mean '1F1B'"), ({"schedule": "Interleave"}, "did you mean 'interleaved'"),
    ({"recompute": "some"}, "Known: none, selective, full"), ({"recompute": True}, "no way to recompute called True"),
    ({"sequence_parallel": 1}, "must be True or False"), ({"micro_batch": float("nan")}, "must be finite")])
def test_layouts_that_can_never_be(bad, words):
    with pytest.raises((TypeError, ValueError), match=re.escape(words)) as caught:
        Layout(**bad)
    of_type = ("must be a number", "write 8", "True or False")
    assert isinstance(caught.value, TypeError) == any(sign in words for sign in of_type)


@pytest.mark.parametrize("bad, words", [
    ({"layers": 0}, "layers must be at least 1"), ({"width": "1B"}, 'write 1e9, not "1B"'), ({"vocabulary": -5}, "least 1"),
    ({"width": 1e9}, "write 1000000000"), ({"kv_heads": 3}, "cannot share 3 key-value heads"), ({"heads": 3}, "over 3"),
    ({"experts": 8}, "experts_per_token must be from 1 to 8"), ({"experts_per_token": 2}, "need experts"),
    ({"experts": 8, "experts_per_token": 9}, "from 1 to 8"), ({"query_rank": 64}, "needs latent_rank"),
    ({"rope_size": 4}, "needs latent_rank"), ({"latent_rank": 64, "kv_heads": 2}, "no 2 kv_heads"),
    ({"expert_ffn": 64}, "expert_ffn needs experts"),
    ({"gated": "yes"}, "True or False"), ({"ffn": 0}, "ffn must be at least 1"),
    ({"experts": 8, "experts_per_token": 2, "dense_layers": 5}, "5 dense layers of 4")])
def test_shapes_that_can_never_be(bad, words):
    with pytest.raises((TypeError, ValueError), match=re.escape(words)):
        ModelShape(**{"name": "tiny", "layers": 4, "width": 64, "heads": 4, "vocabulary": 256, "sequence": 32} | bad)


@pytest.mark.parametrize("layout, words", [
    ({"dp": 64}, "dp 64 · tp 1 · pp 1 · cp 1 = 64 devices, not 1,024"), ({"tp": 10}, "96 attention heads cannot be split"),
    ({"tp": 16, "dp": 64}, "groups of 16 do not fit into nodes of 8"), ({"tp": 3}, "groups of 3 would straddle"),
    ({"pp": 128, "dp": 8}, "96 layers do not fill 128 stages"), ({"pp": 64, "dp": 16}, "split evenly over 64 stages"),
    ({"pp": 8, "dp": 128, "chunks": 2}, "2 chunks a device need the interleaved"),
    ({"pp": 8, "dp": 128, "schedule": "interleaved"}, "needs pp and chunks of at least 2"),
    ({"dp": 1024, "ep": 8}, "no experts to split over ep 8"), ({"cp": 3}, "2,048 tokens cannot be split evenly over cp 3"),
    ({"cp": 512, "tp": 8, "dp": 1, "sequence_parallel": True}, "over cp 512 · tp 8 (sequence parallel)"),
    ({"dp": 1024, "micro_batch": 4}, "1,536 sequences is not a multiple of dp 1024 · micro-batch 4"),
    ({"dp": 32, "pp": 32, "schedule": "interleaved", "chunks": 3}, "multiples of pp 32; a batch of 1,536 gives 48")])
def test_reasons_against_a_layout(layout, words):
    reasons = reasons_against(Layout(**layout), GPT, 1024, 1536, devices_per_node=8)
    assert any(words in reason for reason in reasons), reasons
    assert all(reason.endswith(".") for reason in reasons)


def test_reasons_against_layouts_of_experts_and_few_key_value_heads():
    deepseek, llama, palm = map(model_named, ("DeepSeek-V3", "Llama 3 8B", "PaLM 540B"))
    assert "256 experts cannot be split evenly over ep 6." in reasons_against(Layout(dp=6, ep=6), deepseek)
    assert any("ep 64 does not divide dp·cp = 32" in reason for reason in reasons_against(Layout(dp=32, ep=64), deepseek))
    assert reasons_against(Layout(dp=16, cp=4, ep=64), deepseek) == []
    assert reasons_against(Layout(tp=16), llama) == []  # 8 key-value heads, each on two ranks
    assert reasons_against(Layout(tp=12), palm) == []
    shape = ModelShape("x", 4, 768, 12, 256, 64, kv_heads=4, ffn=768)
    assert any("4 key-value heads" in reason for reason in reasons_against(Layout(tp=6), shape))


def test_a_good_layout_has_no_reason_against_it_and_uneven_stages_are_a_choice():
    assert reasons_against(Layout(dp=16, tp=8, pp=8, zero=1), GPT, 1024, 1536, 8) == []
    llama = model_named("Llama 3 405B")
    assert len(reasons_against(Layout(pp=16), llama)) == 1
    assert reasons_against(Layout(pp=16, uneven_stages=True), llama) == []
    with pytest.raises(TypeError, match="devices must be a number"):
        reasons_against(Layout(), GPT, devices="1k")
    with pytest.raises(ValueError, match="global_batch must be at least 1"):
        reasons_against(Layout(), GPT, global_batch=0)


def test_a_layout_says_itself_in_words():
    layout = Layout(16, 8, 8, zero=1, sequence_parallel=True, schedule="interleaved", chunks=2, recompute="selective")
    assert str(layout) == "DP 16 × TP 8 × PP 8, ZeRO-1, SP, interleaved ×2, micro-batch 1, selective recomputation"
    assert layout.devices == 1024 and layout.model_parallel == 64 and layout.micro_batches(1536) == 96
    assert str(Layout()) == "DP 1, micro-batch 1"
