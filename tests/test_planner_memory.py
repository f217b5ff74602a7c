"""The planner's memory against print, against torch's own count, and against the rules that ZeRO and pipelines obey."""

import csv

import pytest
import torch

from grader.exercises.references import functions_of
from utils.costs.activations import saved_bytes
from utils.costs.tables import DATA
from utils.models.blocks import TransformerBlock
from utils.planner.conventions import MEGATRON_18, PLAIN_16, ZERO_16, gigabytes, relative_bubble
from utils.planner.layout import SCHEDULES, Layout
from utils.planner.memory import (
    activations,
    device_layers,
    device_memory,
    device_parameters,
    in_flight,
    layer_activations,
    memory_by_stage,
    model_state,
    sharded_state,
)
from utils.planner.plan import plan
from utils.planner.published import MODELS, model_named
from utils.planner.shape import ModelShape

GPT = model_named("GPT 175B")
S, H, A, V = GPT.sequence, GPT.width, GPT.heads, GPT.vocabulary


def test_the_zero_table_to_one_unit_in_the_last_printed_digit():
    """1910.02054, table 1: 7.5 billion parameters, decimal GB."""
    with open(DATA / "zero_memory_7.5B.csv", encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            for stage, column in ((1, "Pos_GB"), (2, "Posg_GB"), (3, "Posgp_GB")):
                amount = gigabytes(sum(sharded_state(7.5e9, int(row["Nd"]), stage, ZERO_16)), "GB")
                last_digit = 10.0 ** -len(row[column].partition(".")[2])
                assert abs(amount - float(row[column])) <= last_digit * 1.000001, (row, stage)


@pytest.mark.parametrize("state, stage, per_parameter", [
    (ZERO_16, 0, "16"), (ZERO_16, 1, "4 + 12/d"), (ZERO_16, 2, "2 + 14/d"), (ZERO_16, 3, "16/d"),
    (MEGATRON_18, 0, "18"), (MEGATRON_18, 1, "6 + 12/d"), (PLAIN_16, 1, "8 + 8/d")])
def test_bytes_a_parameter_by_stage_and_convention(state, stage, per_parameter):
    """1910.02054, figure 1; Megatron-LM's distributed optimizer."""
    for d in (1, 2, 7, 64):
        assert sum(sharded_state(1, d, stage, state)) == pytest.approx(eval(per_parameter, {"d": d}), rel=1e-12)


@pytest.mark.parametrize("layout, formula", [
    ({}, "34 + 5*a*s/h"), ({"tp": 8}, "10 + 24/t + 5*a*s/(h*t)"),
    ({"tp": 8, "sequence_parallel": True}, "34/t + 5*a*s/(h*t)"),
    ({"tp": 8, "sequence_parallel": True, "recompute": "selective"}, "34/t"), ({"recompute": "full"}, "2"),
    ({"tp": 8, "recompute": "full"}, "2"), ({"tp": 4, "recompute": "selective"}, "10 + 24/t")])
@pytest.mark.parametrize("name", ["GPT 22B", "GPT 175B", "GPT 530B", "GPT 1T"])
def test_activations_of_a_layer_as_printed(name, layout, formula):
    """2205.05198, table 2; bytes."""
    shape = model_named(name)
    letters = {"a": shape.heads, "s": shape.sequence, "h": shape.width, "t": layout.get("tp", 1)}
    for micro_batch in (1, 4):
        kept = layer_activations(shape, Layout(micro_batch=micro_batch, **layout))
        assert kept == pytest.approx(shape.sequence * micro_batch * shape.width * eval(formula, letters), rel=1e-12)


def test_activations_of_a_layer_are_what_torch_keeps():
    """A block in bfloat16 with dropout; LayerNorm's mean and deviation, which the paper leaves out, are the 0.2 %."""
    torch.manual_seed(0)
    block = TransformerBlock(64, 4).to(torch.bfloat16)
    x_SBD = torch.randn(128, 2, 64, dtype=torch.bfloat16, requires_grad=True)
    kept = saved_bytes(block, lambda: block(x_SBD))
    predicted = layer_activations(ModelShape("block", 1, 64, 4, 256, 128), Layout(micro_batch=2))
    assert kept == pytest.approx(predicted, rel=0.003) and kept > predicted


def test_context_parallel_divides_activations_and_fused_attention_keeps_no_scores():
    whole = layer_activations(GPT, Layout())
    assert layer_activations(GPT, Layout(cp=4)) == pytest.approx(whole / 4)
    fused = layer_activations(GPT, Layout(), fused_attention=True)
    assert whole - fused == pytest.approx(5 * A * S * S - 4 * A * S)
    assert whole - layer_activations(GPT, Layout(), dropout=False) == pytest.approx(S * (2 * H + 3 * A * S))


def test_fused_attention_keeps_what_torch_keeps():
    """Queries, keys, values, the result, and one number of 4 bytes a row and head."""
    s, b, a, d = 128, 2, 4, 16
    qkv_BASD = [torch.randn(b, a, s, d, dtype=torch.bfloat16, requires_grad=True) for _ in range(3)]
    fused = torch.nn.functional.scaled_dot_product_attention
    kept = saved_bytes(torch.nn.Identity(), lambda: fused(*qkv_BASD, is_causal=True))
    parts = layer_activations(ModelShape("one", 1, a * d, a, 256, s), Layout(micro_batch=b), fused_attention=True)
    assert kept == parts.part("attention core") + parts.part("queries, keys, values, output") == s * b * (8 * a * d + 4 * a)


@pytest.mark.parametrize("schedule, chunks, first", [
    ("GPipe", 1, "m"), ("1F1B", 1, "p"), ("interleaved", 3, "p*(1 + (p - 1)/(p*v))"), ("ZB-H1", 1, "p"),
    ("ZB-H2", 1, "2*p - 1")])
def test_micro_batches_in_flight_on_the_first_device(schedule, chunks, first):
    """2205.05198, section 4; 2401.10241, section 2."""
    p, m = 8, 64
    layout = Layout(pp=p, schedule=schedule, chunks=chunks)
    assert in_flight(layout, m) == pytest.approx(eval(first, {"p": p, "m": m, "v": chunks}))
    assert in_flight(layout, 3) == 3
    places = [in_flight(layout, m, place) for place in range(p)]
    assert places == sorted(places, reverse=True)
    assert in_flight(Layout(schedule="1F1B"), m) == 1


MAKERS = {"GPipe": "gpipe_schedule", "1F1B": "one_f_one_b_schedule", "ZB-H1": "zero_bubble_schedule",
          "interleaved": "interleaved_schedule"}


@pytest.mark.parametrize("schedule, chunks", [("GPipe", 1), ("1F1B", 1), ("ZB-H1", 1), ("interleaved", 2),
                                              ("interleaved", 3)])
def test_micro_batches_in_flight_on_every_device_as_the_course_s_schedules_have_them_when_played(schedule, chunks):
    course = functions_of("solutions", "07_pipeline_parallel")
    make = course[MAKERS[schedule]]
    for p, m in ((2, 2), (2, 8), (3, 6), (4, 4), (4, 8), (4, 12)):
        played = course["simulate"](make(p, chunks, m) if chunks > 1 else make(p, m), {"F": 1, "B": 2, "I": 1, "W": 1})
        layout = Layout(pp=p, schedule=schedule, chunks=chunks)
        assert [chunks * in_flight(layout, m, place) for place in range(p)] == pytest.approx(played.peaks), (p, m)


@pytest.mark.parametrize("sequence_parallel", [False, True])
@pytest.mark.parametrize("recompute", ["none", "selective", "full"])
def test_the_students_activation_bytes_are_the_planner_s(sequence_parallel, recompute):
    activation_bytes = functions_of("solutions", "08_sequence_parallel")["activation_bytes"]
    for tp in (1, 2, 8):
        layout = Layout(tp=tp, micro_batch=4, sequence_parallel=sequence_parallel, recompute=recompute)
        students = activation_bytes(S, 4, H, A, tp, sequence_parallel, recompute)
        assert layer_activations(GPT, layout) == pytest.approx(students)


def test_total_activations_of_1f1b_as_printed():
    """2205.05198, equation 5: the first stage holds sbhL/t (34 + 5as/h), whatever p; and embedding's mask sbhp/t."""
    for pp in (2, 4, 8):
        layout = Layout(tp=8, pp=pp, sequence_parallel=True)
        layers = S * H * GPT.layers / 8 * (34 + 5 * A * S / H)
        assert activations(GPT, layout, 64) == pytest.approx(layers + S * H * pp / 8, rel=1e-12)
    last = activations(GPT, Layout(tp=8, sequence_parallel=True), 64).part("last norm, head, logits")
    assert last == pytest.approx(4 * S * H / 8 * (1 + V / H))


def test_devices_of_a_pipeline_hold_all_parameters_and_a_tied_embedding_twice():
    for name, pp, copies in (("GPT 175B", 8, 1), ("Llama 3 405B", 16, 0), ("DeepSeek-V3", 16, 0), ("GPT 175B", 1, 0)):
        shape, layout = model_named(name), Layout(pp=pp)
        held = sum(device_parameters(shape, layout, place) for place in range(pp))
        assert held == shape.parameters() + copies * shape.vocabulary * shape.width


def test_tensor_parallel_splits_matrices_and_copies_norms():
    shape = model_named("GPT 22B")
    whole, split = shape.layer_parameters(), shape.layer_parameters(tp=8)
    copied = 2 * 2 * shape.width + 2 * shape.width  # norms, biases of the two row-split layers
    assert split == pytest.approx((whole - copied) / 8 + copied)
    palm = model_named("PaLM 540B")  # its one key-value head is on all ranks
    assert palm.layer_parameters(tp=12).part("attention") == pytest.approx(2 * palm.width * 256 * (48 / 12 + 1))


def test_uneven_stages_are_those_of_llama_3():
    """2407.21783, section 3.3.2: one layer less on the first and on the last stage."""
    assert device_layers(model_named("Llama 3 405B"), 16) == ((7, 0), *[(8, 0)] * 14, (7, 0))
    assert sum(map(sum, device_layers(model_named("DeepSeek-V3"), 16))) == 61
    assert device_layers(model_named("DeepSeek-V3"), 16)[0] == (3, 0)  # its layers without experts
    assert device_layers(GPT, 8, 3) == ((12, 0),) * 8


@pytest.mark.parametrize("name", list(MODELS))
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_the_fullest_device_is_the_fullest_of_all(name, schedule):
    shape = MODELS[name]
    chunks = 2 if schedule == "interleaved" else 1
    layout = Layout(dp=4, pp=4, tp=2, zero=1, schedule=schedule, chunks=chunks, uneven_stages=True)
    everyone = memory_by_stage(shape, layout, 64, ZERO_16)
    assert len(everyone) == 4 and device_memory(shape, layout, 64, ZERO_16) == max(everyone)


def test_experts_are_sharded_over_fewer_ranks_than_the_rest():
    shape, layout = model_named("DeepSeek-V3"), Layout(dp=128, pp=16, ep=64, zero=1, uneven_stages=True)
    routed = 4 * 256 / 64 * 3 * 7168 * 2048  # four layers at place 1
    rest = device_parameters(shape, layout, 1) - routed
    optimizer = model_state(shape, layout, ZERO_16, 1)[2]
    assert optimizer == pytest.approx(12 * rest / 128 + 12 * routed / 2)


def test_zero_3_holds_its_largest_layer_whole_beside_its_shards():
    """In the backward pass with its gradients, before they are reduced; the head if that is larger, as in Llama 3 8B."""
    whole, llama = "largest layer, gathered, and its gradients", model_named("Llama 3 8B")
    memory = device_memory(GPT, Layout(dp=64, zero=3), 64, ZERO_16)
    assert memory.part(whole) == (2 + 2) * GPT.parameters_per_layer()
    assert memory.part("parameters") == pytest.approx(2 * GPT.parameters() / 64)
    assert whole not in [part.name for part in device_memory(GPT, Layout(zero=3), 64, ZERO_16).parts]
    sharded = device_memory(llama, Layout(dp=64, zero=3), 64, MEGATRON_18)
    assert sharded.part(whole) == (2 + 4) * (128_256 * 4096 + 4096) > (2 + 4) * llama.parameters_per_layer()
    middle = memory_by_stage(llama, Layout(dp=8, pp=4, zero=3), 64, ZERO_16)[1]
    assert middle.part(whole) == (2 + 2) * llama.parameters_per_layer()


def test_full_recomputation_needs_one_layer_whole():
    memory = activations(GPT, Layout(recompute="full"), 1)
    assert memory.part("one layer computed again") == layer_activations(GPT, Layout())
    assert memory.part("96 layers") == 96 * 2 * S * H


def test_175b_fits_80_gb_with_the_published_layout_and_not_without_sequence_parallel_and_recomputation():
    """2205.05198, section 6: tensor 8, pipeline 8, 3 chunks; figure 1: without their two techniques it does not fit."""
    layout = {"tp": 8, "pp": 8, "schedule": "interleaved", "chunks": 3}
    fits = Layout(sequence_parallel=True, recompute="selective", **layout)
    assert gigabytes(device_memory(GPT, fits, 64, MEGATRON_18), "GB") < 80 * 0.95
    assert gigabytes(device_memory(GPT, Layout(**layout), 64, MEGATRON_18), "GB") > 80


def test_conventions_are_named_and_refused_if_unknown():
    assert gigabytes(2**30, "GiB") == 1 and gigabytes(1e9, "GB") == 1
    assert relative_bubble(1, 3, "ideal") == pytest.approx(1 / 3) and relative_bubble(1, 3, "total") == pytest.approx(1 / 4)
    with pytest.raises(ValueError, match="did you mean 'GiB'"):
        gigabytes(1, "gib")
    with pytest.raises(ValueError, match="'ideal'"):
        relative_bubble(1, 2, "idle")
    with pytest.raises(ValueError, match="at least 1"):
        device_memory(GPT, Layout(), 0, ZERO_16)


@pytest.mark.parametrize("name, each", [("AdamW", 18), ("AdamW-8bit", 12), ("Muon", 14), ("Adafactor", 10)])
def test_an_optimizer_by_its_name(name, each):
    ours = plan(GPT, Layout(tp=8, pp=8), "A100", 8, name)
    state = sum(float(ours.memory.part(what)) for what in ("parameters", "gradients", "optimizer state"))
    assert state == pytest.approx(each * device_parameters(GPT, ours.layout))
