"""Wrong counts of what tensor parallelism and a pipeline send."""

from grader.exercises.references import change

_LAYERS, _RETURN = "n_layers * layer_bytes(batch, length, dim, n_ranks)", "return tensor_parallel, 2 * activations"

CHANGES = (
    change("one way", _RETURN, "return tensor_parallel, activations"),
    change("four all-reduces at a border", _RETURN, "return tensor_parallel, tensor_parallel / n_layers"),
    change("sends in every layer", _RETURN, "return tensor_parallel, 2 * activations * n_layers"),
    change("sends in every layer", _RETURN, "return tensor_parallel, 2 * activations * n_layers / n_ranks"),
    change("all boundaries", _RETURN, "return tensor_parallel, 2 * activations * (n_ranks - 1)"),
    change("border divided", _RETURN, "return tensor_parallel, 2 * activations / n_ranks"),
    change("one layer", _LAYERS, "layer_bytes(batch, length, dim, n_ranks)"),
    change("layers of a stage", _LAYERS, "n_layers / n_ranks * layer_bytes(batch, length, dim, n_ranks)"),
    change("bytes of all ranks", _LAYERS, "n_ranks * n_layers * layer_bytes(batch, length, dim, n_ranks)"),
    change("swapped", _RETURN, "return 2 * activations, tensor_parallel"),
    change("bytes of an element", _RETURN, "return 2 * tensor_parallel, 4 * activations"),
    change("bytes of an element", _RETURN, "return tensor_parallel / 2, activations"),
    *(change("layer miscounted", "return 4 * all_reduce_bytes", f"return {count} * all_reduce_bytes", of="layer_bytes")
      for count in (1, 2, 8)),
)
