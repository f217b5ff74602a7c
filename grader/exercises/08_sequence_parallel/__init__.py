"""Unit 08: sequence parallel, what activations cost and how ranks divide them."""

ORDER = ("activation_terms", "activation_bytes", "GatherSequence", "ScatterSequence", "GatherLinear", "local_dropout",
         "reduce_replicated_gradients", "SequenceParallelBlock", "Recompute", "step_flops", "longest_sequence",
         "SequenceParallelGPT", "merge_attention", "RingAttention", "SwapShards", "ulysses_attention")
