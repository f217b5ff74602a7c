"""Wrong norms on a mesh."""

from grader.exercises.references import change

PIECES = 'dist.all_reduce(pieces, group=mesh["tp"])'
STAGES = 'dist.all_reduce(total, group=mesh["pp"])'
COUNTED = "if p is stage.tied_weight and dist.get_rank(mesh[\"pp\"]) > 0:"

CHANGES = (
    change("whole ones counted on every rank", PIECES, "pieces, whole = pieces + whole, 0\n    " + PIECES),
    change("pieces not summed", PIECES, "pass"),
    change("tied weight twice", COUNTED, "if False:"),
    change("tied weight lost", "dist.get_rank(mesh[\"pp\"]) > 0",
           "dist.get_rank(mesh['pp']) == dist.get_world_size(mesh['pp']) - 1"),
    change("tied weight lost", COUNTED, "if p is stage.tied_weight:"),
    change("own stage only", STAGES, "pass"),
    change("own stage only", STAGES, "pass", COUNTED, "if False:"),
    change("replicas counted", STAGES, STAGES + '\n    dist.all_reduce(total, group=mesh["dp"])'),
    change("no root", "total.sqrt()", "total"),
    change("norms added", STAGES, "total = total.sqrt()\n    " + STAGES, "total.sqrt()\n    ###", "total\n    ###"),
    change("norms added", "whole + p.grad.square().sum()", "whole + p.grad.norm()",
           "pieces + p.grad.square().sum()", "pieces + p.grad.norm()", "total.sqrt()", "total"),
    change("pieces averaged", PIECES, PIECES + '\n    pieces /= dist.get_world_size(mesh["tp"])'),
    change("gradients changed", "return ", "for p in stage.parameters():\n        p.grad /= total.sqrt()\n    return "),
    change("gradients sent", "return ", "for p in stage.parameters():\n"
           "        dist.all_reduce(p.grad.clone(), group=mesh[\"tp\"])\n"
           "        dist.all_reduce(torch.ones(10_000), group=mesh[\"pp\"])\n    return "),
    change("outside its lines", STAGES, "dist.all_reduce(total)\n    total /= dist.get_world_size(mesh['tp'])\n"
                                        "    total /= dist.get_world_size(mesh['dp'])"),
    change("no tied weight", COUNTED, COUNTED.replace(
        "p is stage.tied_weight", "p.data_ptr() == stage.tied_weight.data_ptr()")),
    change("norms differ", "dist.get_rank(mesh[\"pp\"]) > 0", "dist.get_rank() > 0"),
    change("ranks differ", STAGES, "if dist.get_rank(mesh[\"pp\"]) != 1:\n        " + STAGES),
    change("ranks differ", PIECES, 'if dist.get_rank(mesh["tp"]) == 0:\n        ' + PIECES),
    change("missing wait", PIECES, PIECES[:-1] + ", async_op=True)"),
    change("biases taken for cut", "if cut_dim(name) is None:", "if cut_dim(name.replace(\".bias\", \".weight\")) is None:"),
)
