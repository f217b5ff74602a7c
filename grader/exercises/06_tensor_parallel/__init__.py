"""Unit 06: tensor parallelism, each weight cut in pieces, with its backward."""

ORDER = ("GatheredLinear", "CopyToGroup", "ReduceFromGroup", "ColumnParallelLinear", "RowParallelLinear", "ParallelMLP",
         "ParallelAttention", "make_tensor_parallel", "layer_bytes", "largest_degree", "ParallelDropout",
         "VocabularyParallelEmbedding", "VocabularyParallelCrossEntropy")
