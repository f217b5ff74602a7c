"""What things cost: formulas, meters, published tables.

formulas: collectives. activations: what autograd keeps. flops: operations of matrix products. replicas: tensors that must be
equal on all ranks. tables: the published figures in data/.
"""
