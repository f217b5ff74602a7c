"""How a rank calls VocabularyParallelCrossEntropy."""

from typing import Any

import torch

from grader.calling.splitting import forward_and_back


def call(function: type[torch.autograd.Function], inputs: dict[str, Any], group) -> dict[str, Any]:
    """losses = function.apply(logits, targets, group) → losses, the logits' gradient, whether the inputs are as before."""
    logits_BP, targets_B = inputs["logits"].clone().requires_grad_(), inputs["targets"].clone()
    losses_B = forward_and_back(lambda: function.apply(logits_BP, targets_B, group), inputs["weights"])
    kept = torch.equal(logits_BP.detach(), inputs["logits"]) and torch.equal(targets_B, inputs["targets"])
    return {"losses": losses_B, "dlogits": logits_BP.grad, "inputs left as they were": kept}
