"""Half repairs of case_5."""

from tests.mutants import change, half_repaired

OWN = "torch.manual_seed(seed + 1 + dist.get_rank(group))"
LOOP = "for x_BI, y_BO in batches:"

CHANGES = (
    half_repaired("untouched"),
    half_repaired("models differ", "torch.manual_seed(seed)", OWN),
    half_repaired("models differ by rank", "torch.manual_seed(seed)", "torch.manual_seed(seed + dist.get_rank(group))"),
    change("off by one", "seed + 1 + ", "seed + "),
    change("still one for all", " + dist.get_rank(group)", ""),
    change("every step alike", LOOP, f"{LOOP}\n        {OWN}"),
    change("other masks", "(group)", "()"),
    change("group ignored", "(group)", "()", "group=group", "group=None"),
)
