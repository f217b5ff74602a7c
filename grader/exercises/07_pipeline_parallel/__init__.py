"""Unit 07: pipeline parallel, the layers cut across ranks."""

ORDER = ("split_batch", "pipeline_forward", "gpipe_step", "bubble_fractions", "one_f_one_b_step", "pipeline_throughput",
         "reduce_tied_gradient", "one_f_one_b_schedule", "dependencies", "validate_schedule", "simulate",
         "input_then_weights", "Pipeline", "interleaved_schedule", "zero_bubble_schedule", "race_schedule")
