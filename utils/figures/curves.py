"""Loss curves over one another, and the time of a step against the number of ranks."""

from collections.abc import Mapping, Sequence

from utils.figures.style import CYCLE, Picture, plot, styled

MARKERS = ("o", "s", "^", "D", "v", "P")


@styled
def loss_curves(curves: Mapping[str, Sequence[float]]) -> Picture:
    """The first curve as a line; each other one as marks on top of it, every few steps.

    curves: name → loss of each step.
    Raises: ValueError without a curve.
    """
    if not curves:
        raise ValueError("loss_curves needs one or more {name: losses}")
    figure, axes = plot(3.2)
    (first, yardstick), *others = curves.items()
    axes.plot(yardstick, color=CYCLE[0], linewidth=2, label=first)
    for number, (name, losses) in enumerate(others):
        every = max(1, len(losses) // 12)
        shown = range(number * every // max(1, len(others)), len(losses), every)
        axes.plot(list(shown), [losses[step] for step in shown], MARKERS[number % len(MARKERS)], markersize=7, alpha=0.85,
                  color=CYCLE[(number + 1) % len(CYCLE)], markerfacecolor="none", markeredgewidth=1.6, label=name)
    axes.set(xlabel="step", ylabel="loss of the batch (nats a byte)")
    axes.legend(loc="upper right")
    return Picture(figure, "Loss against step. " + "; ".join(
        f"{name}: from {losses[0]:.3f} to {losses[-1]:.3f}" for name, losses in curves.items()) + ".")


@styled
def step_time_figure(ranks: Sequence[int], parts_s: Mapping[str, Sequence[float]]) -> Picture:
    """Seconds of a step against the number of ranks, both on logarithmic axes; one line for each name.

    ranks: numbers of ranks; parts_s: name → seconds at each of them, such as compute, all-reduce, step.
    """
    figure, axes = plot(3.2)
    for number, (name, seconds) in enumerate(parts_s.items()):
        axes.plot(ranks, seconds, marker=MARKERS[number % len(MARKERS)], color=CYCLE[number % len(CYCLE)], label=name)
    axes.set(xscale="log", yscale="log", xlabel="ranks", ylabel="seconds a step")
    axes.set_xticks(ranks, [f"{n}" for n in ranks])
    axes.minorticks_off()
    axes.yaxis.set_major_formatter("{x:g}")
    axes.legend(loc="upper right")
    axes.grid(True)
    return Picture(figure, "Seconds of a step. " + "; ".join(
        f"{name}: " + ", ".join(f"{second:.3g} on {n}" for n, second in zip(ranks, seconds, strict=True))
        for name, seconds in parts_s.items()) + ".")
