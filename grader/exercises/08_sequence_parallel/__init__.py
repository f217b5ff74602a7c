"""Unit 08: sequence parallel, what activations cost and how ranks divide them."""

ORDER = ("activation_terms", "activation_bytes", "GatherSequence", "ScatterSequence", "GatherLinear",
         "reduce_replicated_gradients", "SequenceParallelBlock", "Recompute", "held_over_step", "SequenceParallelGPT",
         "merge_attention", "RingAttention", "SwapShards", "ulysses_attention")
