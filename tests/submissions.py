"""Sample submissions, one a student, as changes to a filled-in (or blank) notebook: many of unit 01, some of later units."""

import inspect
from dataclasses import dataclass
from textwrap import dedent

import torch
import torch.distributed as dist
from nbformat import NotebookNode

from tests.course import Change, Course, solution_cell

UNIT = "01_collectives"
CHOSEN = ("ring_all_gather", "ring_all_reduce")  # of which a small class's notebook is made


@dataclass(frozen=True)
class Sample:
    """What a student hands in."""

    change: Change
    filled_in: bool = True


def whole_tensors(x, group):
    """Right sums, but every step passes all of x: a plausible wrong ring all-reduce."""
    n, r = dist.get_world_size(group), dist.get_rank(group)
    total, passing = x.clone(), x
    for _ in range(n - 1):
        received = torch.empty_like(x)
        sending = dist.isend(passing, group=group, group_dst=(r + 1) % n)
        dist.recv(received, group=group, group_src=(r - 1) % n)
        sending.wait()
        total, passing = total + received, received
    return total


def _nothing(notebook: NotebookNode) -> None:
    """Hand it in as it is."""


def replaced(exercise: str, source: str) -> Change:
    """`source` in the cell of one exercise."""
    def change(notebook: NotebookNode) -> None:
        solution_cell(notebook, exercise).source = dedent(source)

    return change


def pass_whole_tensors(notebook: NotebookNode) -> None:
    """The ring all-reduce of `whole_tensors`."""
    source = inspect.getsource(whole_tensors).replace("def whole_tensors", "def ring_all_reduce")
    solution_cell(notebook, "ring_all_reduce").source = source


def _partial(notebook: NotebookNode) -> None:
    """Whole tensors around the ring, and one exercise left alone."""
    pass_whole_tensors(notebook)
    solution_cell(notebook, "ring_all_gather").source = "def ring_all_gather(x_C, group):\n    raise NotImplementedError"


SAMPLES = {
    "full": Sample(_nothing),
    "partial": Sample(_partial),
    "blank": Sample(_nothing, filled_in=False),
    "raising": Sample(replaced("ring_all_gather", """
        def ring_all_gather(x_C, group):
            return x_C[len(x_C) + dist.get_rank(group)]
        """), filled_in=False),
    "deadlocking": Sample(replaced("ring_all_gather", """
        def ring_all_gather(x_C, group):
            n, r = dist.get_world_size(group), dist.get_rank(group)
            received = torch.zeros_like(x_C)
            if n > 1:
                dist.recv(received, group=group, group_src=(r - 1) % n)
                dist.send(x_C, group=group, group_dst=(r + 1) % n)
            return torch.stack([x_C, received])
        """), filled_in=False),
    "looping": Sample(replaced("ring_all_gather", """
        import time
        def ring_all_gather(x_C, group):
            while not x_C.isnan().all():  # which never comes
                time.sleep(0.01)
        """), filled_in=False),
}
MARKS = {"full": dict.fromkeys(CHOSEN, 4.0), "partial": {"ring_all_gather": 0.0, "ring_all_reduce": 2.0},
         "blank": dict.fromkeys(CHOSEN, 0.0)}  # of the first three samples


# Of each later unit: a solution with one line changed, the hint that it gets, and an exercise that is left as it was.
SLIPS = {
    "02_data_parallel": ("average_gradients", "flat /= dist.get_world_size(group)", "pass", "sum for mean",
                         "training_bytes"),
    "03_zero1": ("clip_gradient_norm", "square.sqrt()", "square", "root forgotten", "reshard"),  # no other one needs it
    "04_zero2": ("shard_gradients", "shard /= n", "pass", "sum for mean", "Zero2"),
    "05_zero3": ("ShardedLinear", "return dx_BI, dshard_C / n", "return dx_BI, dshard_C", "sum for mean", "tokens_to_hide"),
    "06_tensor_parallel": ("ParallelAttention", "x_BTD = CopyToGroup.apply(x_BTD, self.group)", "pass", "f missing",
                           "largest_degree"),
    "07_pipeline_parallel": ("reduce_tied_gradient", "weight.grad += theirs_VD", "weight.grad = theirs_VD", "swapped",
                             "bubble_fractions"),
    "08_sequence_parallel": ("SequenceParallelGPT", "return total / tokens_SB.numel()", "return total / own_PB.numel()",
                             "mean of the piece", "held_over_step"),
    "09_putting_together": ("balance_loss", "row[:n_experts] / (k * row[-1])", "row[:n_experts] / row[-1]", "k not divided",
                            "relayout"),
    "10_bug_hunt": ("case_1", "(loss * len(x_BI) / n_rows).backward()", "loss.backward()", "untouched", "case_3"),
    "11_planner": ("step_seconds", 'messages[axis] * link["alpha_s"] + ', "", "latency forgotten", "device_traffic"),
}


def slip(unit: str) -> Change:
    """One wrong exercise and one that is not written."""
    exercise, right, wrong, _, blank = SLIPS[unit]

    def change(notebook: NotebookNode) -> None:
        cell = solution_cell(notebook, exercise)
        assert right in cell.source, f"{exercise} has no line {right!r}"
        cell.source = cell.source.replace(right, wrong)
        solution_cell(notebook, blank).source = f"def {blank}(*arguments):\n    raise NotImplementedError"

    return change


def samples_of(unit: str) -> dict[str, Sample]:
    """Student → sample submission of a unit: many kinds of unit 01, three of the later ones."""
    if unit in SLIPS:
        return {"full": SAMPLES["full"], "partial": Sample(slip(unit)), "blank": SAMPLES["blank"]}
    return SAMPLES


def hand_in(course: Course, samples: dict[str, Sample]) -> None:
    """Each student's sample, into the course's folder."""
    for student, sample in samples.items():
        course.submit(student, sample.change, sample.filled_in)
