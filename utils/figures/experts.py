"""Mixtures of experts: what a capacity drops, and what an all-to-all takes on machines of growing size."""

from collections.abc import Mapping, Sequence

from utils.figures.colours import FAINT, series_look
from utils.figures.style import Picture, plot, styled


@styled
def dropped_figure(factors: Sequence[float], dropped_percent: Mapping[str, Sequence[float]]) -> Picture:
    """Percent of all choices that are dropped against the capacity.

    factors: capacities, in averages of an expert's load; dropped_percent: name of a router → percent at each of them.
    Raises: ValueError unless every router has one number for each capacity.
    """
    _same_lengths(factors, dropped_percent, "capacity")
    figure, axes = plot(3.0)
    for number, (name, percents) in enumerate(dropped_percent.items()):
        axes.plot(factors, percents, label=name, **series_look(number))
    axes.axvline(1, color=FAINT, linewidth=0.8)
    axes.set(xlabel="capacity of an expert, in averages of the load", ylabel="dropped choices (%)", ylim=(0, None))
    axes.legend()
    axes.grid(True)
    return Picture(figure, "Dropped choices. " + _in_words(factors, dropped_percent, "{y:.3g}% at {x:g} averages"))


@styled
def ratio_figure(ranks: Sequence[int], ratios: Mapping[str, Sequence[float]]) -> Picture:
    """How many times as long as an all-reduce an all-to-all of the same array takes, against the number of ranks.

    ranks: numbers of ranks; ratios: name of a cluster → ratio at each of them.
    Raises: ValueError unless every cluster has one ratio for each number of ranks.
    """
    _same_lengths(ranks, ratios, "number of ranks")
    figure, axes = plot(3.0)
    for number, (name, values) in enumerate(ratios.items()):
        axes.plot(ranks, values, label=name, **series_look(number))
    axes.set_xscale("log", base=2)
    axes.set(xticks=ranks, xlabel="ranks", ylabel="time of an all-to-all\n÷ time of an all-reduce", ylim=(0, None))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.minorticks_off()
    axes.legend()
    axes.grid(True)
    return Picture(figure, "All-to-all beside all-reduce. " + _in_words(ranks, ratios, "{y:.2f} times as long on {x} ranks"))


def _same_lengths(at: Sequence, series: Mapping[str, Sequence[float]], what: str) -> None:
    odd = {name: len(values) for name, values in series.items() if len(values) != len(at)}
    if not series or odd:
        raise ValueError(f"one number for each {what}, please: {len(at)} wanted, got {odd or 'no series at all'}")


def _in_words(at: Sequence, series: Mapping[str, Sequence[float]], form: str) -> str:
    return "; ".join(f"{name}: " + ", ".join(form.format(x=x, y=y) for x, y in zip(at, values, strict=True))
                     for name, values in series.items()) + "."
