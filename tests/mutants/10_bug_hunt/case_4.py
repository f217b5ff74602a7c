"""Half repairs of case_4."""

import torch.distributed as dist

from tests.mutants import change, half_repaired, mutant
from utils.models import hunted_plain

WARM_UP, BROKEN = "warm_up = min(p - 1 - r, n_micro)", "warm_up = min(r, n_micro)"

CHANGES = (
    half_repaired("untouched"),
    half_repaired("kept too many", BROKEN, "warm_up = n_micro"),
    half_repaired("another order", BROKEN, "warm_up = 0"),
    half_repaired("no micro-batch left", BROKEN, "warm_up = p - 1 - r"),
    change("nothing kept", "passes.forward()\n            passes.backward()",
           "passes.backward()\n            passes.forward()"),
)


@mutant("passes not seen")
def each_alone(steps, lr, group):
    return hunted_plain.plain_pipeline(steps, lr, dist.get_world_size(group))[dist.get_rank(group)]
