"""A training job as another tool's files describe it, in the planner's words."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from utils.deadlocks.errors import BadValue
from utils.planner.conventions import StateBytes
from utils.planner.frameworks import assumptions_for
from utils.planner.layout import Layout
from utils.planner.plan import Plan, plan
from utils.planner.published import shape_of
from utils.planner.shape import ModelShape
from utils.simulation.cluster import Cluster
from utils.simulation.clusters import cluster_named


@dataclass(frozen=True)
class Job:
    """framework: whose files it was read from. shape: None if they name no model that is known. global_batch: sequences.

    dtype: of matrix products, by torch's name. changes: assumptions in which the job differs from what its framework usually
    does. state: bytes a parameter; None: the framework's. ignored: a sentence for everything in the files that isn't
    planned, or is planned as something else.
    """

    framework: str
    shape: ModelShape | None
    layout: Layout
    global_batch: int
    dtype: str = "bfloat16"
    changes: Mapping[str, Any] = field(default_factory=dict)
    state: StateBytes | None = None
    dropout: bool = False
    ignored: tuple[str, ...] = ()

    def plan(self, cluster: Cluster | str, **options: Any) -> Plan:
        """The job on a cluster. options: as for `plan`, in place of what the files say; shape= where they name no model.

        Raises: ValueError if no model is known, and whatever `plan` raises.
        """
        shape = options.pop("shape", None) or self.shape
        if shape is None:
            raise BadValue(f"{self.framework}'s files don't say which model this is, in words that are known; give "
                           "shape=, a ModelShape or a published model's name")
        shape, cluster = shape_of(shape), cluster if isinstance(cluster, Cluster) else cluster_named(cluster)
        options = {"framework": self.framework, "dtype": self.dtype, **options}
        usual = assumptions_for(options["framework"], shape, cluster, options["dtype"])
        options.setdefault("assumptions", replace(usual, **self.changes))
        return plan(shape, self.layout, cluster, **{
            "global_batch": self.global_batch, "state": self.state, "dropout": self.dropout, **options})

    def __str__(self) -> str:
        model = self.shape.name if self.shape else "a model that isn't known"
        lines = [f"{self.framework}: {model}, {self.layout}, {self.global_batch:,} sequences a step, {self.dtype}",
                 *(f"  not planned: {sentence}" for sentence in self.ignored)]
        return "\n".join(lines)
