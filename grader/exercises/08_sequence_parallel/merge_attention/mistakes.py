"""Wrong merges of partial attentions."""

from grader.exercises.references import change

WEIGHED = "o1 * torch.exp(lse1 - safe)[..., None] + o2 * torch.exp(lse2 - safe)[..., None]"

CHANGES = (
    change("wrong lse", "[..., None], lse", "[..., None], lse1 + lse2"),
    change("wrong lse", "[..., None], lse", "[..., None], torch.maximum(lse1, lse2)"),
    change("wrong lse", "[..., None], lse", "[..., None], torch.maximum(lse1, lse2) + torch.log2(1 + torch.exp("
           "-(lse1 - lse2).abs().nan_to_num()))"),
    change("wrong lse", "[..., None], lse", "[..., None], lse - torch.maximum(lse1, lse2).nan_to_num(neginf=0)"),
    change("another dtype", "[..., None], lse", "[..., None], lse.double()"),
    change("input changed", f"return {WEIGHED}", f"return o1.copy_({WEIGHED})"),
    change("plain average", WEIGHED, "(o1 + o2) / 2"),
    change("weighed by logarithms", "torch.exp(lse1 - safe)", "(lse1 / (lse1 + lse2))",
           "torch.exp(lse2 - safe)", "(lse2 / (lse1 + lse2))"),
    change("weights swapped", "o1 * torch.exp(lse1", "o2 * torch.exp(lse1", "o2 * torch.exp(lse2", "o1 * torch.exp(lse2"),
    change("not divided", "safe = lse.masked_fill", "safe = torch.maximum(lse1, lse2).masked_fill"),
    change("overflow", "torch.logaddexp(lse1, lse2)", "torch.log(torch.exp(lse1) + torch.exp(lse2))",
           WEIGHED, "(o1 * lse1.exp()[..., None] + o2 * lse2.exp()[..., None]) / lse.exp().clamp(min=1e-300)[..., None]"),
    change("one maximum for all", "lse = torch.logaddexp(lse1, lse2)",
           "top = torch.maximum(lse1, lse2).max(); lse = top + torch.log(torch.exp(lse1 - top) + torch.exp(lse2 - top))"),
    change("one part's maximum", "lse = torch.logaddexp(lse1, lse2)",
           "top = lse1.masked_fill(lse1.isinf(), 0); lse = top + torch.log(torch.exp(lse1 - top) + torch.exp(lse2 - top))"),
    change("extremes wrong", "lse = torch", "lse1, lse2 = lse1.clamp(-80, 80), lse2.clamp(-80, 80)\n    lse = torch"),
    change("nothing seen", "- safe", "- lse"),
    change("weights without a dimension", "[..., None]", ""),
)
