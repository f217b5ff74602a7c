"""Unit 09: a mesh of ranks, and experts."""

ORDER = (
    "grid_sums", "make_mesh", "cut_model", "MeshPasses", "reduce_gradients", "mesh_gradient_norm", "MeshTrainer", "relayout",
    "route", "balance_loss", "all_to_all", "Exchange", "ExpertParallelMLP",
)
