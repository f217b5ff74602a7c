"""Unit 06: tensor parallelism, each weight cut in pieces, with its backward."""

ORDER = ("GatheredLinear", "CopyToGroup", "ReduceFromGroup", "ColumnParallelLinear", "RowParallelLinear", "ParallelMLP",
         "ParallelAttention", "SharedHeads", "make_tensor_parallel", "layer_bytes", "largest_degree", "tp_and_pp_bytes",
         "ParallelDropout", "VocabularyParallelEmbedding", "VocabularyParallelCrossEntropy")
