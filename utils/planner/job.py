"""A training job as another tool's files describe it, in the planner's words."""

from dataclasses import dataclass
from typing import Any

from utils.deadlocks.errors import BadValue
from utils.planner.conventions import StateBytes
from utils.planner.layout import Layout
from utils.planner.plan import Plan, plan
from utils.planner.shape import ModelShape
from utils.planner.times import Assumptions
from utils.simulation.cluster import Cluster


@dataclass(frozen=True)
class Job:
    """framework: whose files it was read from. shape: None if they name no model that is known. global_batch: sequences.

    assumptions: the number format, and what of the traffic the job runs beside computation. ignored: a sentence for
    everything in the files that isn't planned, or is planned as something else.
    """

    framework: str
    shape: ModelShape | None
    layout: Layout
    global_batch: int
    state: StateBytes
    assumptions: Assumptions
    dropout: bool = False
    ignored: tuple[str, ...] = ()

    @property
    def dtype(self) -> str:
        """The number format of matrix products, by torch's name."""
        return self.assumptions.dtype

    def plan(self, cluster: Cluster | str, **options: Any) -> Plan:
        """The job on a cluster. options: as for `plan`, in place of what the files say; shape= where they name no model.

        Raises: ValueError if no model is known, and whatever `plan` raises.
        """
        shape = options.pop("shape", None) or self.shape
        if shape is None:
            raise BadValue(f"{self.framework}'s files don't say which model this is, in words that are known; give "
                           "shape=, a ModelShape or a published model's name")
        return plan(shape, self.layout, cluster, **{
            "global_batch": self.global_batch, "state": self.state, "assumptions": self.assumptions, "dropout": self.dropout,
            **options})

    def __str__(self) -> str:
        model = self.shape.name if self.shape else "a model that isn't known"
        lines = [f"{self.framework}: {model}, {self.layout}, {self.global_batch:,} sequences a step, {self.dtype}",
                 *(f"  not planned: {sentence}" for sentence in self.ignored)]
        return "\n".join(lines)
