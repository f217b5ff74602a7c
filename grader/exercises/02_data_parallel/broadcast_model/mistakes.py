"""Wrong ways to start from one model."""

import torch.distributed as dist
from torch import nn

from grader.exercises.references import change, mistake

BOTH = "(*model.parameters(), *model.buffers())"
BROADCAST = "dist.broadcast(tensor.data, group=group, group_src=0)"
CHANGES = (
    change("buffers forgotten", BOTH, "model.parameters()"),
    change("buffers not saved", BOTH, "model.state_dict().values()"),
    change("counters forgotten", "*model.buffers()", "*(b for b in model.buffers() if b.is_floating_point())"),
    change("frozen forgotten", "*model.parameters()", "*(p for p in model.parameters() if p.requires_grad)"),
    change("parameters forgotten", BOTH, "model.buffers()"),
    change("another rank's model", "group_src=0", "group_src=dist.get_world_size(group) - 1"),
    change("first call only", f"for tensor in {BOTH}", "sent, model.sent = getattr(model, 'sent', False), True\n"
           f"    for tensor in () if sent else {BOTH}"),
    change("nothing sent", "tensor.data", "tensor.detach().clone()"),
    change("few digits", BROADCAST, "number = tensor.data.float()\n"
           "        dist.broadcast(number, group=group, group_src=0)\n        tensor.data.copy_(number)"),
    change("layers forgotten", "*model.parameters()", "*list(model.parameters())[:3]"),
    change("missing wait", "group_src=0)", "group_src=0, async_op=True)"),
    change("sent twice", BOTH, "(*model.parameters(), *model.buffers(), *model.parameters())"),
    change("group ignored", "group=group, group_src", "src"),
    change("library call", BROADCAST,
           "tensor.data.mul_(dist.get_rank(group) == 0)\n        dist.all_reduce(tensor.data, group=group)"),
)


@mistake("parameter replaced")
def new_parameters(model, group):
    for module in model.modules():
        for name, p in list(module.named_parameters(recurse=False)):
            value = p.detach().clone()
            dist.broadcast(value, group=group, group_src=0)
            setattr(module, name, nn.Parameter(value, requires_grad=p.requires_grad))
    for buffer in model.buffers():
        dist.broadcast(buffer, group=group, group_src=0)
