"""Calculators: each runs on the formula that it is given, and shows what that says."""

import html

from utils.figures.calculators import (
    activation_calculator,
    degree_calculator,
    first_stage_figure,
    memory_calculator,
    planner_panel,
    tokens_calculator,
)
from utils.figures.colours import INK, VERMILLION


def test_activations():
    asked = []

    def formula(*sizes):
        asked.append(sizes)
        return 1e9

    calculator = activation_calculator(formula)
    assert "167 GB" in calculator.view.value
    calculator.controls[1].value = 8192
    assert asked[-1] == (8192, 1, 12288, 96, 8, True, "full")
    assert len(calculator._stills()) == 1


def test_the_first_stage_holds_state_and_activations():
    """16 bytes for each of 12h² parameters a layer; interleaved in 3 chunks, 1 + 7/24 of the 96 layers' activations."""
    def formula(*sizes):
        return 1e9 if sizes[-1] == "none" else 5e8

    words = first_stage_figure(formula, "175B").words
    assert "tensor parallelism alone: 167 GB (" in words
    assert "core of attention 62 GB, other activations 62 GB); with sequence" in words
    (axes,) = first_stage_figure(formula, "175B").figure.axes
    totals = {text.get_text(): text.get_color() for text in axes.texts if text.get_fontweight() == "bold"}
    assert totals["167 GB"] == VERMILLION  # beyond the limit of 80 GB
    assert first_stage_figure(lambda *_: 0.0, "175B").figure.axes[0].texts[-1].get_color() == INK
    calculator = activation_calculator(formula)
    calculator.controls[1].value = 2048
    assert html.escape(words) in calculator.view.value  # the calculator's bars are the same


def test_memory_of_the_zero_paper():
    """Table 1 of the ZeRO paper: 7.5 billion parameters on 64 ranks."""
    calculator = memory_calculator({"data parallel": lambda psi, n: 16 * psi, "ZeRO-1": lambda psi, n: (4 + 12 / n) * psi})
    size, ranks, device = calculator.controls
    assert "data parallel: 120 GB" in calculator.view.value and "ZeRO-1: 31.4 GB" in calculator.view.value
    ranks.value, device.value = 1, 192
    assert "ZeRO-1: 120 GB" in calculator.view.value and "Limit: 192 GB" in calculator.view.value
    size.value = 0.125
    assert "ZeRO-1: 2.0 GB" in calculator.view.value or "ZeRO-1: 2 GB" in calculator.view.value
    assert "ZeRO-3: 17.5 GB" in memory_calculator({"ZeRO-3": lambda psi, n: 16 * psi / n}, billions=70).view.value


def test_tokens_behind_which_the_all_reduce_hides():
    asked = []

    def step_time(compute_s, gradient_bytes, n_ranks, alpha_s, beta_s_per_byte, overlapped):
        asked.append((gradient_bytes, n_ranks, alpha_s, beta_s_per_byte))
        reduce_s = 2 * gradient_bytes * beta_s_per_byte
        return compute_s / n_ranks + (0 if overlapped else reduce_s)

    calculator = tokens_calculator(step_time)
    _, ranks, speed, link = calculator.controls
    # backward takes 4 FLOPs a parameter and token; the all-reduce of 2 bytes a parameter, twice, over the 400 GB/s of a node
    assert "hidden from 1,000 on" in calculator.view.value.replace("the all-reduce ", "")
    assert set(asked) == {(15e9, 64, 5e-6, 1e-9 / 400)}
    speed.value, link.value = 200, 100
    assert "100 GB/s, overlapped" in calculator.view.value and "hidden from 2,000 on" in calculator.view.value
    ranks.value = 8
    assert asked[-1][1] == 8


def test_a_layer_on_each_link():
    calculator = degree_calculator(lambda batch, length, dim, n: 1e6 * batch * n)
    *_, batch, gpu = calculator.controls
    assert "NVLink (whole GPU), A100" in calculator.view.value and "PCIe x16, gen 5" not in calculator.view.value
    batch.value, gpu.value = 9, "H100"
    # 9 MB and 2 ranks over 450 GB/s: 0.04 ms
    assert "NVLink (whole GPU), H100: 0.04 ms on 2 ranks" in calculator.view.value
    assert "PCIe x16, gen 5: 0.281 ms on 2 ranks" in calculator.view.value


def test_each_change_of_a_layout_is_told_with_its_reason():
    panel = planner_panel(lambda layout: {"parameters": 8e9 / layout["tp"], "activations": 1e9},
                          lambda layout: {"compute": 2.0, "bubble": (layout["pp"] - 1) / layout["n_micro"]},
                          {"heads": 16, "layers": 6}, {"memory_bytes": 2e9}, 96, 36)
    tensor, pipeline, micro_batch, *_ = panel.controls
    assert "dp 2 × tp 8 × pp 6, 18 micro-batches" in panel.view.value and "<b>" not in panel.view.value
    tensor.value = 16
    assert "<b>tensor parallel 8 → 16.</b>" in panel.view.value and "parameters 1 → 0.5 GB" in panel.view.value
    assert "bubble 0.278 → 0.139 s" in panel.view.value and "activations" not in panel.view.value.rpartition("<br>")[2]
    micro_batch.value = 8
    assert "1 replicas with micro-batches of 8 do not divide 36 sequences." in panel.view.value
    micro_batch.value, pipeline.value = 2, 3
    assert "<b>pipeline 6 → 3.</b>" in panel.view.value and len(panel._stills()) == 2
    panel.controls[-1].value = 3
    assert "6 layers cannot be divided evenly among 3 stages of 3 chunks." in panel.view.value
    panel.controls[-1].value, pipeline.value = 2, 1
    assert "Chunks need a pipeline" in panel.view.value
