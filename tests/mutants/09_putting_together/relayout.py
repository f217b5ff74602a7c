"""Wrong ways to load a checkpoint under another layout."""

from tests.mutants import change

WHOLE = "whole = pieces[0] if dim is None else torch.cat(pieces, dim)"
RETURN = "return loaded"

CHANGES = (
    change("old file", RETURN, "return saved[rank % len(saved)]"),
    change("always along rows", "dim = cut_dim(name)", "dim = None if cut_dim(name) is None else 0"),
    change("not cut", "piece(whole, place, new[\"tp\"], dim)", "whole"),
    change("biases cut", "loaded[name] =", "dim = 0 if name.endswith((\"out.bias\", \"down.bias\")) else dim\n"
                                           "            loaded[name] ="),
    change("joined along rows", "torch.cat(pieces, dim)", "torch.cat(pieces)"),
    change("whole ones joined", WHOLE, "whole = torch.cat(pieces, dim or 0)"),
    change("cut for the old tp", "piece(whole, place, new[\"tp\"], dim)",
           "piece(whole, place % old[\"tp\"], old[\"tp\"], dim)"),
    change("another stage's", "rank // new[\"tp\"] % new[\"pp\"]", "rank % new[\"pp\"]"),
    change("last file wins", WHOLE, "whole = [state[name] for state in saved if name in state][-1]"),
    change("replicas joined", "in one_replica if", "in saved if"),
    change("pieces in another order", "torch.cat(pieces, dim)", "torch.cat(pieces[::-1], dim)"),
    change("every stage's", "if stage_of(name, n_layers, new[\"pp\"]) == stage:", "if True:"),
    change("old stages", "stage = rank // new[\"tp\"] % new[\"pp\"]", "stage = rank // new[\"tp\"] % old[\"pp\"]",
           "stage_of(name, n_layers, new[\"pp\"])", "stage_of(name, n_layers, old[\"pp\"])"),
    change("first axis fastest", "stage = rank // new[\"tp\"] % new[\"pp\"]", "stage = rank // new[\"dp\"] % new[\"pp\"]",
           "place = rank % new[\"tp\"]", "place = rank // new[\"dp\"] // new[\"pp\"]"),
    change("tied head lost", RETURN, "loaded.pop(\"head.weight\", None)\n    return loaded"),
    change("type not kept", RETURN, "return {name: x.float() for name, x in loaded.items()}"),
    change("communicates", RETURN, "dist.barrier()\n    return loaded"),
    change("input changed", RETURN, "saved[0].clear()\n    return loaded"),
    change("not in this file", "if name in state]", "]"),
    change("names missing", RETURN, "loaded.popitem()\n    return loaded"),
)

EQUIVALENT = {f"{WHOLE} | 0 → (-1)": "what is not cut is the same on every rank that has it, the last as the first."}
