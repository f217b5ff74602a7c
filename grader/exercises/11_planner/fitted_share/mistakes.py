"""Wrong ways to fit a share, and to say how well it fits."""

from grader.exercises.references import change

LOG = 'abs(log(planned_s / step["measured_s"]))'
PLANNED = 'step["flops"] / (share * step["peak"]) + step["other_s"]'
FITTED = "key=lambda share: mean(error(step, share) for step in fitted)"
OTHERS = "steps[:i] + steps[i + 1:] or steps"
OF_EACH = "mean(error(step, best_for(rest)) for step, rest in zip(steps, others))"
REFUSAL = "if not steps or not shares:"
EMPTY = "{'shares' if steps else 'steps'}"

CHANGES = (
    change("no logarithm", LOG, 'abs(planned_s / step["measured_s"] - 1)'),
    change("no logarithm", LOG, 'abs(step["measured_s"] / planned_s - 1)'),
    change("no logarithm", LOG, 'abs(planned_s - step["measured_s"]) / step["measured_s"]'),
    change("fitted without logarithm", FITTED, 'key=lambda share: mean(abs(step["flops"] / (share * step["peak"]) '
           '+ step["other_s"] - step["measured_s"]) / step["measured_s"] for step in fitted)'),
    change("seconds compared", LOG, 'abs(planned_s - step["measured_s"])'),
    change("another logarithm", LOG, f"{LOG} / log(2)"),
    change("another logarithm", LOG, f"{LOG} / log(10)"),
    change("sign kept", LOG, LOG.removeprefix("abs(").removesuffix(")")),
    change("sign dropped late", LOG, LOG.removeprefix("abs(").removesuffix(")"), "key=lambda share: mean(",
           "key=lambda share: abs(", "for step in fitted)", "for step in fitted))", "abs(error(step, share)",
           "abs(mean(error(step, share)", OF_EACH, f"abs({OF_EACH})"),
    change("other_s divided", PLANNED, '(step["flops"] / step["peak"] + step["other_s"]) / share'),
    change("other_s forgotten", ' + step["other_s"]', ""),
    change("share multiplied", '(share * step["peak"])', 'step["peak"] * share'),
    change("median for mean", FITTED, f'{FITTED.replace("mean(", "sorted(")}[len(fitted) // 2]'),
    change("median for mean", FITTED, FITTED.replace("mean(", "__import__('statistics').median(")),
    change("worst for mean", FITTED, FITTED.replace("mean(", "max(")),
    change("squares", FITTED, FITTED.replace("error(step, share)", "error(step, share) ** 2")),
    change("squares", LOG, 'log(planned_s / step["measured_s"]) ** 2'),
    change("last of equals", "min(shares,", "min(reversed(shares),"),
    change("shares sorted", "min(shares,", "min(sorted(shares),"),
    change("not left out", OTHERS, "steps"),
    change("fitted to itself", OTHERS, "[steps[i]]"),
    change("equal steps left out", OTHERS, "[step for step in steps if step != steps[i]] or steps"),
    change("only the last left out", OF_EACH, OF_EACH.replace("zip(steps, others)", "[(steps[-1], others[-1])]")),
    change("error of the others", OF_EACH, "mean(mean(error(step, best_for(rest)) for step in rest) for rest in others)"),
    change("sum for mean", OF_EACH, OF_EACH.replace("mean(", "sum(")),
    change("one step alone", OTHERS, "steps[:i] + steps[i + 1:]"),
    change("nothing left out", OF_EACH, f"({OF_EACH} if len(steps) > 1 else 0.0)"),
    change("order of the pair", f"best_for(steps), {OF_EACH}", f"{OF_EACH}, best_for(steps)"),
    change("not refused", REFUSAL, "if not steps or not shares:\n        return 0.0, 0.0\n    if False:"),
    change("not named", REFUSAL, "if False:"),
    change("not named", EMPTY, "the list"),
    change("other named", EMPTY, "steps and shares"),
    change("other named", EMPTY, "{'steps' if steps else 'shares'}"),
    change("another error", "raise ValueError(", "raise IndexError("),
)
