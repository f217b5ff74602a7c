"""Unit 06: tensor parallelism, each weight cut in pieces, with its backward."""

ORDER = ("GatheredLinear", "CopyToGroup", "ReduceFromGroup", "ColumnParallelLinear", "RowParallelLinear", "ParallelMLP",
         "ParallelAttention", "ParallelDropout", "layer_bytes", "largest_degree",
         "VocabularyParallelEmbedding", "VocabularyParallelCrossEntropy", "make_tensor_parallel")
