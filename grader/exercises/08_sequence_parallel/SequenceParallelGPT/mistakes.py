"""Wrong GPTs in pieces."""

from grader.exercises.references import change

REDUCE = "reduce_replicated_gradients(whole, self.group)"
SCALE = "\n        for p in {}:\n            p.grad {} dist.get_world_size(self.group)"

CHANGES = (
    change("positions not reduced alone", "self.positions, self.norm, self.head) for", "self.norm, self.head) for"),
    change("replicated gradients", "self.norm, self.head) for", "self.norm) for"),
    change("replicated gradients", "(self.embedding, self.positions, self.norm, self.head) for", "() for"),
    change("divided by the sequence", "tokens_SB.numel()", "len(tokens_SB)"),
    change("cut weights summed", REDUCE, "reduce_replicated_gradients(list(self.parameters()), self.group)"),
    change("mean of the piece", "/ tokens_SB.numel()", "/ own_PB.numel()"),
    change("whole loss", "return total / tokens_SB.numel()",
           "loss, parts = total / tokens_SB.numel(), total.new_empty(n)\n"
           "        dist.all_gather_single(parts, loss.detach().view(1), group=self.group)\n"
           "        return loss + (parts.sum() - loss.detach())"),
    change("all-reduce left", "return total", "dist.all_reduce(total.detach().clone(), group=self.group)\n"
                                              "        return total"),
    change("positions from 0", "piece(torch.arange(len(tokens_SB)), rank, n)", "torch.arange(len(own_PB))"),
    change("blocks not reduced", "whole += replicated(block.block)", "pass"),
    change("sums averaged", REDUCE, REDUCE + SCALE.format("whole", "/=")),
    change("summed twice", REDUCE, f"{REDUCE}\n        {REDUCE}"),
    change("nothing reduced", REDUCE, "pass"),
    change("replicated gradients", "+= replicated(block.block)", "+= replicated(block.block)[2:]"),
    change("wrong losses", "self.head(self.norm(x_PBD))", "self.head(x_PBD)"),
    change("wrong losses", " + self.positions(own_P)[:, None]", ""),
    change("wrong pieces", "piece(targets_SB, rank, n)", "piece(targets_SB, n - 1 - rank, n)"),
    change("wrong losses", "x_PBD = block(x_PBD)", "x_PBD = block(2 * x_PBD)"),
    change("no gradient", "x_PBD = self.embedding(own_PB)", "x_PBD = self.embedding(own_PB).detach()"),
    change("wrong gradients", "return total", "total = 3 * total - 2 * total.detach()\n        return total"),
    change("wrong backward", "x_PBD = block(x_PBD)", "x_PBD = block(x_PBD); x_PBD.register_hook(lambda dx: dx / n)"),
    *(change("gradients scaled", REDUCE, REDUCE + SCALE.format("self.parameters()", by)) for by in ("/=", "*=")),
    change("not refused", "own_PB = piece(", "length = len(tokens_SB) // n * n\n"
                                             "        tokens_SB, targets_SB = tokens_SB[:length], targets_SB[:length]\n"
                                             "        own_PB = piece("),
    change("weights not cut", "self.group = group", "self.group, self.plain = group, model.blocks"),
    change("group ignored", REDUCE, "reduce_replicated_gradients(whole, None)"),
    change("too many bytes", "return total", "GatherSequence.gathered(logits_PBV.detach(), self.group)\n"
                                             "        return total"),
)
