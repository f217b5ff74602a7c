"""The planner's parameters, FLOPs, utilization, days and layouts against print, and against what torch counts."""

from dataclasses import replace

import pytest
import torch

from utils.costs.flops import FlopCounter
from utils.costs.tables import read_table
from utils.models.blocks import BlockGPT
from utils.models.tiny import TinyGPT, n_parameters
from utils.planner.conventions import ZERO_16
from utils.planner.layout import reasons_against
from utils.planner.plan import plan
from utils.planner.published import MODELS, model_named, real_runs, run_of, weak_scaling_runs
from utils.planner.shape import ModelShape
from utils.planner.times import Assumptions
from utils.planner.utilization import flops_per_device, hfu, mfu, six_nd, step_time, training_days, utilization
from utils.simulation.cluster import Device
from utils.simulation.clusters import cluster_named

A100_PEAK, H100_PEAK = 312e12, 989e12
PRINTED_BILLIONS = {  # name: (in print, relative tolerance)
    "GPT-3 175B": (175, 0.01), "GPT 22B": (22, 0.01), "GPT 175B": (174.6, 0.001), "GPT 530B": (529.6, 0.001),
    "GPT 1T": (1008, 0.001), "MT-NLG 530B": (530, 0.01), "Llama 3 8B": (8.030261248, 1e-9),
    "Llama 3 70B": (70.553706496, 1e-9),
    "Llama 3 405B": (405, 0.005), "DeepSeek-V3": (671, 0.001), "PaLM 540B": (540.35, 0.001),
    "Gemma 2 9B": (0.917962752 + 8.324201984, 1e-9), "Gemma 2 27B": (1.180237824 + 26.047480320, 1e-9),
    "DeepSeek-V2-Lite": (15.7, 0.003), "Llama 2 7B": (6.738415616, 1e-9), "Llama 2 13B": (13.015864320, 1e-9),
    "Llama 2 70B": (68.976648192, 1e-9), "Mistral 7B": (7.241732096, 1e-9), "Mixtral 8x7B": (46.702792704, 1e-9),
    "GPT-NeoX 20B": (20.554567680, 1e-6), "BLOOM 176B": (176.247271424, 1e-6), "Nemotron-4 340B": (341, 0.003),
    "Gemma 2 2B": (0.590118912 + 2.024517888, 1e-6),
    "OLMo 7B": (6.9, 0.01), "OLMo 2 7B": (7.3, 0.01), "OLMo 2 13B": (13.7, 0.01), "OLMo 2 32B": (32.2, 0.01)}


@pytest.mark.parametrize("name", list(MODELS))
def test_parameters_as_printed(name):
    """Each model's own report; Llama's to BLOOM's as the released weights have them; Gemma 2: table 2 of 2408.00118."""
    printed, tolerance = PRINTED_BILLIONS[name]
    assert MODELS[name].parameters() / 1e9 == pytest.approx(printed, rel=tolerance)
    assert sum(MODELS[name].parameters().parts) == MODELS[name].parameters()


def test_active_parameters_of_mixtures():
    """DeepSeek-V3 (2412.19437): 37 billion for each token; Mixtral 8x7B (2401.04088): 13 billion."""
    assert model_named("DeepSeek-V3").active_parameters() / 1e9 == pytest.approx(37, rel=0.02)
    assert model_named("Mixtral 8x7B").active_parameters() / 1e9 == pytest.approx(12.9, abs=0.05)
    assert model_named("GPT 22B").active_parameters() == model_named("GPT 22B").parameters()


def test_parameters_of_weak_scaling_to_the_printed_digit():
    """2104.04473, table 1, and its formula 12Lh²(1 + 13/(12h) + (V+s)/(12Lh)), which leaves out the last norm."""
    for run, row in zip(weak_scaling_runs(), read_table("ptdp_table1_weak_scaling"), strict=True):
        assert abs(run.shape.parameters() / 1e9 - row["params_B"]) <= 0.0501, row
        ell, h, v, s = run.shape.layers, run.shape.width, 51_200, 2048
        formula = 12 * ell * h * h * (1 + 13 / (12 * h) + (v + s) / (12 * ell * h))
        assert run.shape.parameters() - 2 * h == pytest.approx(formula, rel=1e-12)


@pytest.mark.parametrize("model, tied", [(TinyGPT, True), (BlockGPT, False)])
def test_parameters_and_flops_as_torch_counts_them(model, tied):
    gpt = model(length=32, dim=48, n_layers=3, n_heads=4)
    shape = ModelShape("tiny", 3, 48, 4, 256, 32, learned_positions=True, tied=tied)
    assert shape.parameters() == n_parameters(gpt)
    if model is BlockGPT:  # its attention is written out in products that torch counts
        tokens_SB = torch.randint(256, (32, 5))
        with FlopCounter() as forward:
            loss = gpt(tokens_SB).sum()
        with FlopCounter() as backward:
            loss.backward()
        assert forward.total == shape.forward_flops(5)
        assert forward.total + backward.total == shape.step_flops(5)


@pytest.mark.parametrize("name, tokens, printed", [("GPT-3 175B", 300e9, 3.14e23), ("Llama 3 405B", 15.6e12, 3.8e25)])
def test_flops_of_a_training_by_the_rule_of_thumb(name, tokens, printed):
    """GPT-3 (2005.14165), appendix D; Llama 3 (2407.21783), section 3.2.1."""
    assert six_nd(model_named(name), tokens) == pytest.approx(printed, rel=0.005)


def test_flops_by_the_printed_formulas():
    """2205.05198, appendix A; 2104.04473, equation 3."""
    for name in ("GPT 22B", "GPT 175B", "GPT 530B", "GPT 1T"):
        shape = model_named(name)
        s, h, ell, v, b = shape.sequence, shape.width, shape.layers, shape.vocabulary, 7
        base, logits = 72 * b * ell * s * h * h, v / (12 * h * ell)
        assert shape.step_flops(b) == pytest.approx(base * (1 + s / (6 * h) + logits))
        assert shape.step_flops(b, causal=True) == pytest.approx(base * (1 + s / (12 * h) + logits))
        assert shape.hardware_flops(b) == shape.step_flops(b)
        assert shape.hardware_flops(b, "selective") == pytest.approx(base * (1 + 2 * s / (9 * h) + logits))
        assert shape.hardware_flops(b, "selective", attention_again=3) == pytest.approx(base * (1 + s / (3 * h) + logits))
        assert shape.hardware_flops(b, "full") == pytest.approx(base * 4 / 3 * (1 + s / (6 * h) + v / (16 * h * ell)))


@pytest.mark.parametrize("name", ["22B", "175B"])
def test_mfu_and_hfu_to_the_rounding_of_the_printed_seconds(name):
    """2205.05198, tables 3 and 5. Seconds are printed to 0.01, percent to 0.1: both roundings are allowed, nothing more."""
    row = next(row for row in read_table("recompute_tables_22B_175B") if row["model"] == name)
    shape = model_named(f"GPT {name}")
    for how, printed in ((mfu, row["mfu_pct"]), (hfu, row["hfu_pct"])):
        more = {"recompute": "selective", "attention_again": 3} if how is hfu else {}
        slow, fast = (100 * how(shape, row["gbs"], row["iter_present_s"] + off, row["gpus"], A100_PEAK, **more)
                      for off in (0.005, -0.005))
        assert slow - 0.05 <= printed <= fast + 0.05, (name, printed, slow, fast)


def test_weak_scaling_s_share_of_peak_and_petaflops():
    """2104.04473, table 1: '% of peak' and the aggregate follow from TFLOP/s a device, and step times lead back to them."""
    for run, row in zip(weak_scaling_runs(), read_table("ptdp_table1_weak_scaling"), strict=True):
        flops = run.shape.hardware_flops(run.global_batch, "full")
        seconds = step_time(flops, run.devices, run.tflops * 1e12)
        assert flops_per_device(flops, seconds, run.devices) == pytest.approx(run.tflops * 1e12)
        assert 100 * utilization(flops, seconds, run.devices, A100_PEAK) == pytest.approx(row["pct_peak"], abs=0.7)
        assert run.tflops * run.devices / 1000 == pytest.approx(row["agg_pflops"], rel=0.005)


def test_weak_scaling_s_layouts_are_legal():
    for run in weak_scaling_runs():
        assert reasons_against(run.layout, run.shape, run.devices, run.global_batch, devices_per_node=8) == []


def test_days_to_train_175b_within_one_day():
    """2104.04473, table 2: 300 billion tokens, TFLOP/s with full recomputation."""
    for row in read_table("ptdp_table2_175B_days"):
        days = training_days(model_named("GPT 175B"), 300e9, row["gpus"], row["tflops_gpu"] * 1e12, "full")
        assert abs(days - row["days_300B"]) <= 1, row


def test_real_runs_devices_are_the_product_and_tokens_are_whole_sequences():
    runs, rows = real_runs(), read_table("real_runs")
    assert len(runs) == len(rows)
    for run, row in zip(runs, rows, strict=True):
        if run.layout:
            assert run.layout.devices == run.devices == row["devices"]
            assert reasons_against(run.layout, run.shape, run.devices, run.global_batch) == []
    batches = {(run.shape.name, run.devices, run.shape.sequence): run.global_batch for run in runs}
    assert batches["PaLM 540B", 6144, 2048] == 2048 and batches["MT-NLG 530B", 2240, 2048] == 1920
    missing = {run.shape.name: run.missing for run in runs if run.missing}
    assert missing == {"OLMo 7B": ["devices and degrees"], "Gemma 2 9B": ["sequences a step"],
                       "Gemma 2 27B": ["sequences a step"]}
    assert batches["Llama 3 405B", 16384, 131072] == 128 and batches["Llama 3 405B", 16384, 8192] == 2048  # its table 4
    assert batches["DeepSeek-V3", 2048, 4096] == 15360  # its section 4.2
    assert run_of(LLAMA_LONG | {"tokens_per_batch": 16_000_000}).global_batch == 120  # as a round number: 15.73 million


def test_palm_s_row_is_planned_as_printed():
    """2204.02311, section 4: weights 12 × 256 ways in each of two pods, a copy of them in each; sections 4.1 and 5.1."""
    run = next(run for run in real_runs() if run.shape.name == "PaLM 540B")
    assert (str(run.layout).split(", ")[:2], run.global_batch) == (["DP 512 × TP 12", "ZeRO-3 over 256"], 2048)
    # Keys and values have one head, which each of the 12 ranks has: 2.3 % more than a twelfth of all parameters.
    ours = plan(run.shape, replace(run.layout, recompute="full"), replace(cluster_named("TPU v4 torus"), n_devices=6144),
                run.global_batch, ZERO_16, Assumptions(rails=6, hidden_dp=1.0), dropout=False)
    assert ours.memory.part("optimizer state") == pytest.approx(12 * run.shape.parameters() / 3072, rel=0.03)
    across = next(flow for flow in ours.traffic.flows if flow.what == "gradients of shards")
    assert across.group.members == 2 and across.sent == pytest.approx(2 * run.shape.parameters() / 3072, rel=0.03)
    assert ours.fits and 0.35 < ours.mfu < 0.55  # 46.2 % is printed


def test_llama_3_s_mfu_from_its_tflops():
    """2407.21783, table 4: both are printed, rounded to 10 TFLOP/s and 1 percent."""
    for run in real_runs():
        if run.shape.name.startswith("Llama") and run.tflops:
            assert abs(run.tflops * 1e12 / H100_PEAK * 100 - run.mfu_percent) <= 1.1


LLAMA_LONG = {"model": "Llama 3 405B", "devices": 16384, "tp": 8, "cp": 16, "pp": 16, "dp": 8, "seq": 131072,
              "tokens_per_batch": "16M", "MFU_percent": 38}


@pytest.mark.parametrize("change, reason", [
    ({"dp": 4}, "8,192 devices, not 16,384"), ({"dp": None, "tp": 7}, "not 16,384"), ({"cp": 1}, "1,024 devices"),
    ({"tokens_per_batch": "16.1M"}, "no whole number of sequences"), ({"tokens_per_batch": 100_000}, "no whole number"),
    ({"tokens_per_batch": "many"}, "no whole number"), ({"MFU_percent": 143}, "143 %"),
    ({"device": "H100", "TFLOPs_per_device": 4000}, "more than the peak of H100"), ({"device": "H1000"}, "did you mean"),
    ({"device": "H100", "TFLOPs_per_device": 400, "MFU_percent": 80}, "80 % is more than 400 of 989"),
    ({"TFLOPs_per_device": -5}, "must be positive"), ({"MFU_percent": 0}, "must be positive"),
    ({"model": "Lama 3 405B"}, "mean"),
    ({"tp": 3, "dp": None, "devices": 3 * 256}, "128 attention heads"), ({"ep": 8}, "no experts"),
    ({"model": "DeepSeek-V3", "ep": 5}, "256 experts")])
def test_a_row_that_cannot_be_right_is_refused(change, reason):
    assert run_of(LLAMA_LONG).global_batch == 128
    with pytest.raises(ValueError, match=reason):
        run_of(LLAMA_LONG | change)


OPT = ModelShape("OPT 175B", 96, 12_288, 96, 50_272, 2048, learned_positions=True)  # 2205.01068
MI250X = Device("MI250X, one die", {"bfloat16": 191.5e12}, 64e9, 1.6e12)


@pytest.mark.parametrize(("row", "more", "reason"), [
    # OPT: 992 GPUs, tensor parallel 8, 2M tokens, "up to 147 TFLOP/s"; Frontier (2312.12705): 175B at 36 % of the peak.
    ({"model": OPT, "device": Device("A100 80GB", {"float16": 312e12}, 80e9, 2e12), "devices": 992, "tp": 8,
      "TFLOPs_per_device": 147}, {"TFLOPs_per_device": 320}, "peak of A100 80GB, 312 in float16"),
    ({"model": OPT, "device": MI250X, "devices": 1024, "tp": 4, "pp": 16, "TFLOPs_per_device": 69, "MFU_percent": 36},
     {"MFU_percent": 60}, "60 % is more than 69 of 191.5"),
    ({"model": "PaLM 540B", "device": Device("TPU v3", {"bfloat16": 123e12}, 32e9, 0.9e12), "TFLOPs_per_device": 60},
     {"TFLOPs_per_device": 124}, "peak of TPU v3, 123 in bfloat16"),
    ({"model": "DeepSeek-V3", "device": "H100", "dtype": "float8_e4m3fn", "TFLOPs_per_device": 1100, "MFU_percent": 56},
     {"dtype": None}, "more than the peak of H100, 989 in bfloat16"),
    ({"model": "GPT 22B", "device": "V100", "TFLOPs_per_device": 60}, {"TFLOPs_per_device": 130}, "125 in float16"),
    ({"model": "GPT 22B", "device": "A100"}, {"dtype": "float8_e4m3fn"}, "no dtype with a peak on A100"),
    ({"model": OPT}, {"model": "OPT 175B"}, "a ModelShape"), ({"model": OPT}, {"device": "MI250X"}, r"a Device\("),
], ids=["OPT", "MI250X", "TPU v3", "fp8", "V100", "no fp8", "model's name", "device's name"])
def test_rows_of_models_devices_and_precisions_of_ones_own(row, more, reason):
    run = run_of(row)
    assert (run.tflops, run.device) == (row.get("TFLOPs_per_device"), row.get("device"))
    with pytest.raises(ValueError, match=reason):
        run_of(row | more)


@pytest.mark.parametrize("change", [{"devices": "16k"}, {"tp": 8.5}, {"zero": "some"}, {"seq": "128k"},
                                    {"MFU_percent": "43"}])
def test_a_row_of_words_where_numbers_belong_is_refused(change):
    with pytest.raises(TypeError, match="number"):
        run_of(LLAMA_LONG | change)


@pytest.mark.parametrize("arguments", [{"devices": 0}, {"step_time_s": 0}, {"peak_flops": -1}, {"step_time_s": "1.1"},
                                       {"devices": 2.5}])
def test_utilization_refuses_what_cannot_be(arguments):
    with pytest.raises((TypeError, ValueError), match=next(iter(arguments))):
        utilization(**{"flops": 1e15, "step_time_s": 1.0, "devices": 8, "peak_flops": A100_PEAK} | arguments)
