"""What things cost: formulas, meters, published tables.

formulas: collectives. activations: what autograd keeps. flops: operations of matrix products. replicas: tensors that must be
equal on all ranks. strategies: all of the course's in one table. tables: the published figures in data/.
"""
