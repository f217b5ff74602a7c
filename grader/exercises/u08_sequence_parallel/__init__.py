"""Unit 08: sequence parallel, what activations cost and how ranks divide them."""

ORDER = ("Recompute", "step_flops")
