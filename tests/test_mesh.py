"""A mesh of ranks: its stages are the model, its training is one process's, its figure shows its groups."""

import math

import pytest
import torch
import torch.distributed as dist

from grader.checks import verdict_on
from grader.exercises import EXERCISES
from grader.exercises.references import functions_of, with_source
from utils import figures, run_ranks
from utils.models.blocks import BlockGPT
from utils.models.library_mesh import gradient_distance, mesh_training
from utils.models.mesh_stage import MeshStage, layers_of_stage, stage_of, tied_gpt
from utils.models.text import text_batch
from utils.models.tiny import next_byte_loss, same_start

GPT = {"length": 24, "dim": 16, "n_layers": 3, "n_heads": 4}
STEPS, ROWS, N_MICRO, MAX_NORM, LR = 10, 8, 2, 1.0, 3e-3
TOLERANCE = 1e-8  # of losses and parameters after ten steps in float64: only the order of sums differs
UNIT = "09_putting_together"


def _plain() -> tuple[list[float], dict[str, torch.Tensor]]:
    """Losses of one process, and its parameters at the end."""
    model, losses = tied_gpt(**GPT).double(), []
    optimizer = torch.optim.AdamW(model.parameters(), lr=LR)
    for number in range(STEPS):
        text_TB = text_batch(number, ROWS, GPT["length"]).T
        optimizer.zero_grad()
        loss = next_byte_loss(model(text_TB[:-1]).transpose(0, 1), text_TB[1:].T).mean()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), MAX_NORM)
        optimizer.step()
        losses.append(loss.item())
    return losses, {name: p.detach() for name, p in model.state_dict().items()}


def _on_mesh(sizes: dict[str, int]) -> tuple[list[float], dict[str, torch.Tensor]]:
    """The same by the reference of unit 09."""
    unit = functions_of("solutions", UNIT)
    mesh = unit["make_mesh"](sizes)
    stage = MeshStage(tied_gpt(**GPT).double(), mesh["pp"], mesh["tp"])
    trainer = unit["MeshTrainer"](stage, torch.optim.AdamW(stage.parameters(), lr=LR), N_MICRO, mesh, MAX_NORM)
    batches = (text_batch(number, ROWS, GPT["length"]) for number in range(STEPS))
    losses = [trainer.step(text[:, :-1], text[:, 1:]).item() for text in batches]
    return losses, {name: p.detach() for name, p in stage.state_dict().items()}


@pytest.mark.parametrize("shape", [(2, 3, 1), (1, 1, 2)])
def test_the_librarys_parts_on_a_mesh_do_what_one_process_does(shape):
    def training(*shape):
        mesh = functions_of("solutions", UNIT)["make_mesh"](dict(zip(("dp", "pp", "tp"), shape, strict=True)))
        return mesh_training(mesh, steps=3, **GPT)

    (alone, whole), = run_ranks(lambda: training(1, 1, 1), 1).results
    assert alone[-1] < alone[0] and gradient_distance([whole], {name: 2 * x for name, x in whole.items()}, 1) > 1e-2
    losses, gradients = zip(*run_ranks(lambda: training(*shape), math.prod(shape)).results, strict=True)
    assert all(of_rank == pytest.approx(alone, abs=1e-5) for of_rank in losses)
    assert gradient_distance(gradients, whole, shape[2]) < 1e-6


def test_gradients_that_are_summed_and_not_averaged_are_too_large_by_the_number_of_replicas():
    def gradients(**how):
        mesh = functions_of("solutions", UNIT)["make_mesh"]({"dp": 2, "pp": 1, "tp": 1})
        return mesh_training(mesh, steps=1, **how, **GPT)[1]

    right, summed = (run_ranks(lambda how=how: gradients(**how), 2).results for how in ({}, {"average": False}))
    assert gradient_distance(summed, {name: 2 * x for name, x in right[0].items()}, 1) < 1e-6


@pytest.mark.parametrize("shape", [(2, 2, 2), pytest.param((2, 1, 4), marks=pytest.mark.long),
                                   pytest.param((2, 3, 1), marks=pytest.mark.long)])
def test_ten_steps_on_a_mesh_are_those_of_one_process(shape):
    sizes = dict(zip(("dp", "pp", "tp"), shape, strict=True))
    losses, whole = _plain()
    results = run_ranks(lambda: _on_mesh(sizes), math.prod(shape)).results
    whole_again = functions_of("solutions", UNIT)["relayout"]
    found = whole_again([state for _, state in results], sizes, {"dp": 1, "pp": 1, "tp": 1}, GPT["n_layers"], 0)
    assert all(of_rank == pytest.approx(losses, abs=TOLERANCE) for of_rank, _ in results)
    assert found.keys() == whole.keys()
    assert max((found[name] - whole[name]).abs().max().item() for name in whole) < TOLERANCE


@pytest.mark.parametrize("name, part", [("MeshTrainer", "MeshPasses"), ("MeshTrainer", "reduce_gradients"),
                                        ("MeshTrainer", "mesh_gradient_norm"), ("relayout", "cut_model")])
def test_a_part_that_is_not_written_costs_nothing_where_it_is_used(name, part):
    fn = with_source(UNIT, name, f"def {part}(*arguments):\n    raise NotImplementedError('yours to write')", of=part)
    verdict = verdict_on(EXERCISES[name], fn)
    assert verdict.passed, str(verdict)


def test_a_stage_alone_is_the_model():
    def outputs():
        model = tied_gpt(**GPT)
        tokens = text_batch(0, 2, GPT["length"])[:, :-1]
        stage = MeshStage(model, None, None)
        assert stage.tied_weight is model.embedding.weight
        return (stage(tokens) - model(tokens.T).transpose(0, 1)).abs().max().item()

    assert run_ranks(outputs, 1).results[0] < 1e-6


def test_layers_are_divided_in_order_and_every_parameter_has_its_stage():
    assert [list(layers_of_stage(5, 3, stage)) for stage in range(3)] == [[0, 1], [2, 3], [4]]
    names = {"embedding.weight": 0, "positions.weight": 0, "blocks.1.up.weight": 0, "blocks.4.out.bias": 2, "norm.bias": 2,
             "head.weight": 2}
    assert {name: stage_of(name, 5, 3) for name in names} == names


@pytest.mark.parametrize("wrong, words", [
    (lambda: layers_of_stage(2, 3, 0), "2 layers cannot be cut into 3 stages"),
    (lambda: layers_of_stage(2, 0, 0), "2 layers cannot be cut into 0 stages"),
    (lambda: stage_of("blocks.7.up.weight", 4, 2), "blocks.0 to blocks.3"),
    (lambda: MeshStage(same_start(BlockGPT, p=0.1), None, None), "p=0"),
    (lambda: figures.mesh_figure({}), "1 to 16 ranks"),
    (lambda: figures.mesh_box_figure({"dp": [[0, 1]], "pp": [[0, 1]], "tp": [[0, 1]]}, 0), "2 × 2 × 2 ranks"),
    (lambda: figures.mesh_figure({"dp": [[0, 1], [1, 2]]}), "each of the ranks 0 to 2")])
def test_what_cannot_be_is_refused(wrong, words):
    with pytest.raises(ValueError, match=words):
        wrong()


def test_heads_that_the_ranks_do_not_divide_are_refused():
    def build():
        MeshStage(tied_gpt(dim=12, n_heads=3), dist.new_group([0], use_local_synchronization=True)
                  if dist.get_rank() == 0 else dist.new_group([1], use_local_synchronization=True), None)

    with pytest.raises(Exception, match="2 ranks do not divide 3 heads"):
        run_ranks(build, 2)
