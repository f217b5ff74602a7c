"""Half repairs of case_1."""

from grader.exercises.references import change, half_repaired

SCALED, PLAIN = "(loss * len(x_BI) / n_rows).backward()", "loss.backward()"

CHANGES = (
    half_repaired("untouched"),
    half_repaired("counted alike", PLAIN, "(loss / len(micro_batches)).backward()"),
    half_repaired("loss scaled twice", "F.mse_loss(model(x_BI), y_BO)",
                  "F.mse_loss(model(x_BI), y_BO) * len(x_BI) / n_rows"),
    half_repaired("only the last", PLAIN, "optimizer.zero_grad(); loss.backward()"),
    change("only the last", SCALED, f"optimizer.zero_grad(); {SCALED}"),
    half_repaired("weights noted wrong", "optimizer = hunted.SGD(model.parameters(), lr)",
                  "optimizer = hunted.SGD(model.parameters(), lr / 4)", PLAIN, SCALED),
    half_repaired("by a factor", PLAIN, "(loss * len(x_BI) / n_rows / dist.get_world_size(group)).backward()"),
    half_repaired("first gradients", PLAIN, "(loss / len(x_BI)).backward()"),
    change("first loss", "hunted.small_mlp()", "hunted.SmallMLP()"),
    change("too many bytes", "for p in model.parameters():",
           "for p in model.parameters():\n            dist.all_reduce(p.grad.clone(), group=group)"),
)

EQUIVALENT = {
    "total += loss.detach() * len(x_BI) / n_rows | loss.detach() → loss":
        "hunted.note detaches what it notes.",
}
