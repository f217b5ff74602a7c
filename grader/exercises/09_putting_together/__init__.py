"""Unit 09: a mesh of ranks, and experts."""

ORDER = (
    "make_mesh", "mesh_gradient_norm", "MeshTrainer", "relayout", "route", "balance_loss", "Exchange",
    "ExpertParallelMLP",
)
