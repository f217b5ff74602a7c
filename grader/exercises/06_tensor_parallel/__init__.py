"""Unit 06: tensor parallelism, each weight cut in pieces, with its backward."""

ORDER = ("GatheredLinear", "CopyToGroup", "ReduceFromGroup", "ColumnParallelLinear", "RowParallelLinear", "ParallelMLP",
         "ParallelAttention", "ParallelDropout", "layer_bytes", "VocabularyParallelEmbedding",
         "VocabularyParallelCrossEntropy", "make_tensor_parallel")
