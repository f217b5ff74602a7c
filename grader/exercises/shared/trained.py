"""A small GPT with a tied weight, trained by one process."""

from torch import Tensor, nn

from utils.models.blocks import BlockGPT
from utils.models.tiny import next_byte_loss

MODEL = {"length": 5, "dim": 4, "layers": 3, "heads": 4}


def mean_loss(model: nn.Module, tokens_BT: Tensor, targets_BT: Tensor) -> Tensor:
    """The mean loss of these rows, ()."""
    return next_byte_loss(model(tokens_BT.T).transpose(0, 1), targets_BT).mean()


def gradients_by_use(model: BlockGPT, tokens_BT: Tensor, targets_BT: Tensor,
                     untied: bool) -> tuple[Tensor, dict[str, Tensor]]:
    """The mean loss and its gradients by name; untied: what embedding and head each contribute to their weight's."""
    model.zero_grad()
    tied = model.head.weight
    if untied:
        model.head.weight = nn.Parameter(tied.detach().clone())
    loss = mean_loss(model, tokens_BT, targets_BT)
    loss.backward()
    gradients = {name: p.grad.clone() for name, p in model.named_parameters()}
    model.head.weight = tied
    return loss.detach(), gradients
