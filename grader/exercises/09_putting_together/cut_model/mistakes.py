"""Wrong ways to cut a model for a mesh."""

from grader.exercises.references import change

PIECE = 'piece(x, place, sizes["tp"], dim)'
STAGE = 'rank // sizes["tp"] % sizes["pp"]'
PLACE = 'rank % sizes["tp"]'
RETURN = "return own"

CHANGES = (
    change("always along rows", "dim = cut_dim(name)", "dim = None if cut_dim(name) is None else 0"),
    change("not cut", PIECE, "x"),
    change("dim 0 not cut", "dim = cut_dim(name)", "dim = cut_dim(name) or None"),
    change("biases cut", "own[name] =", 'dim = 0 if name.endswith(("out.bias", "down.bias")) else dim\n'
                                        "            own[name] ="),
    change("thirds of qkv", PIECE, 'torch.cat([piece(third, place, sizes["tp"], dim)\n'
           '                    for third in (x.chunk(3) if ".qkv." in name else [x])], dim)'),
    change("pieces of another rank", "place = rank", "place = (rank + 1)"),
    change("every stage's", 'if stage_of(name, n_layers, sizes["pp"]) == stage:', "if True:"),
    change("first axis fastest", STAGE, 'rank // sizes["dp"] % sizes["pp"]', f"place = {PLACE}",
           'place = rank // sizes["dp"] // sizes["pp"]'),
    change("another stage's", STAGE, 'rank % sizes["pp"]'),
    change("another stage's", STAGE, '(rank // sizes["tp"] + 1) % sizes["pp"]'),
    change("tied head lost", RETURN, 'own.pop("head.weight", None)\n    return own'),
    change("another type", RETURN, "return {name: x.float() for name, x in own.items()}"),
    change("communicates", RETURN, "dist.barrier()\n    return own"),
    change("input changed", RETURN, "whole.clear()\n    return own"),
    change("names missing", STAGE, 'rank // sizes["tp"] + sizes["pp"]'),
    change("renamed", RETURN, "return {name.replace('blocks', 'layers'): x for name, x in own.items()}"),
    change("pieces of another size", 'piece(x, place, sizes["tp"]', 'piece(x, place, 2 * sizes["tp"]'),
    change("pieces of another rank", "place = rank", 'place = sizes["tp"] - 1 - rank'),
    change("names missing", RETURN, "own.popitem()\n    return own"),
)
