"""Unit 09: a mesh of ranks, experts, a planner, and programs with a bug."""

ORDER = (
    "make_mesh", "mesh_gradient_norm", "MeshTrainer", "relayout", "route", "balance_loss", "Exchange",
    "ExpertParallelMLP", "device_memory", "device_traffic", "step_seconds", "choose_layout", "case_1", "case_2",
    "case_3", "case_4", "case_5", "case_6", "case_7", "case_8", "case_9", "case_10",
)
