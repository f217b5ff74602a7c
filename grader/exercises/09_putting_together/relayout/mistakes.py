"""Wrong ways to load a checkpoint under another layout."""

from grader.exercises.references import change

WHOLE = "whole[name] = pieces[0] if dim is None else torch.cat(pieces, dim)"
RETURN = "return cut_model(whole, new, n_layers, rank)"
LOADED = "loaded = cut_model(whole, new, n_layers, rank)"

CHANGES = (
    change("joined along rows", "torch.cat(pieces, dim)", "torch.cat(pieces)"),
    change("whole ones joined", WHOLE, "whole[name] = torch.cat(pieces, dim or 0)"),
    change("old layout", RETURN, 'return cut_model(whole, old, n_layers, rank % len(saved))'),
    change("not cut", RETURN, "return whole"),
    change("last file wins", WHOLE, "whole[name] = [state[name] for state in saved if name in state][-1]"),
    change("replicas joined", "in one_replica if", "in saved if"),
    change("pieces in another order", "torch.cat(pieces, dim)", "torch.cat(pieces[::-1], dim)"),
    change("tied head lost", RETURN, f"{LOADED}\n    loaded.pop('head.weight', None)\n    return loaded"),
    change("another type", RETURN, f"{LOADED}\n    return {{name: x.float() for name, x in loaded.items()}}"),
    change("communicates", RETURN, f"dist.barrier()\n    {RETURN}"),
    change("input changed", RETURN, f"saved[0].clear()\n    {RETURN}"),
    change("not in this file", "if name in state]", "]"),
    change("names missing", RETURN, f"{LOADED}\n    loaded.popitem()\n    return loaded"),
)

EQUIVALENT = {f"{WHOLE} | 0 → (-1)": "what is not cut is the same on every rank that has it, the last as the first."}
