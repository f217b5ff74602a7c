"""Mixtures of experts: who gets a place, what a capacity drops, what an all-to-all takes on machines of growing size."""

from collections.abc import Mapping, Sequence

from utils.figures.colours import FAINT, PALE, VERMILLION, ink_on, rank_colour, series_look
from utils.figures.shapes import arrow, box, heading, tile, write
from utils.figures.style import WIDTH_IN, Picture, canvas, first_that_fits, plot, styled

MOST_TOKENS, MOST_EXPERTS, MOST_PLACES, PLACE_IN = 32, 8, 12, 0.26


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
    axes.axvline(1, color=FAINT, linewidth=0.8, label="capacity = average load")
    axes.set(xlabel="capacity of an expert, as a multiple of the average load", ylabel="dropped choices (%)", ylim=(0, None))
    axes.legend()
    axes.grid(True)
    return Picture(figure, "Dropped choices. " + _in_words(factors, dropped_percent, "{y:.3g}% at {x:g} averages"))


@styled
def routing_figure(experts_Tk: Sequence[Sequence[int]], kept_Tk: Sequence[Sequence[bool]], capacity: int, n_experts: int,
                   n_ranks: int, number: int) -> Picture:
    """The places of each expert after so many choices: all tokens' first ones, then all second ones, in order.

    experts_Tk, kept_Tk: each token's experts, and whether it got in. An expert's colour is that of the rank that has it.
    Raises: ValueError for more than 32 tokens, 8 experts or 12 places, or ranks that do not divide the experts.
    """
    if len(experts_Tk) > MOST_TOKENS or not 1 <= n_experts <= MOST_EXPERTS or not 1 <= capacity <= MOST_PLACES or (
            n_experts % n_ranks):
        raise ValueError(f"can draw {MOST_TOKENS} tokens, {MOST_EXPERTS} experts and {MOST_PLACES} places at most, and "
                         f"ranks that divide the experts; got {len(experts_Tk)}, {n_experts}, {capacity}, {n_ranks} ranks")
    choices = [(token, choice, row[choice], bool(kept_Tk[token][choice]))
               for choice in range(len(experts_Tk[0])) for token, row in enumerate(experts_Tk)][:number]
    height_in = 1.25 + (capacity + 1) * PLACE_IN
    figure, axes = canvas(height_in)
    said = "Nobody has chosen yet" if not choices else _said(*choices[-1], capacity)
    heading(axes, said)
    width_in = (WIDTH_IN - 0.5) / n_experts
    words = []
    for expert in range(n_experts):
        left, rank = 0.25 + expert * width_in, expert * n_ranks // n_experts
        middle = left + (width_in - 0.1) / 2
        came = [(token, kept) for token, _, chosen, kept in choices if chosen == expert]
        inside, late = ([token for token, kept in came if kept is wanted] for wanted in (True, False))
        for place in range(capacity):
            taken = place < len(inside)
            corner = (left, 0.62 + place * PLACE_IN)
            tile(axes, corner, (width_in - 0.1, PLACE_IN), rank_colour(rank) if taken else "white", PALE, 1)
            if taken:
                is_new = (inside[place], expert) == (choices[-1][0], choices[-1][2])
                write(axes, (middle, corner[1] + PLACE_IN / 2), f"token {inside[place]}", 8,
                      fontweight="bold" if is_new else "normal")
        if late:
            text = first_that_fits([", ".join(map(str, late)), f"{len(late)}"], width_in - 0.1, 8)
            write(axes, (middle, 0.62 + (capacity + 1.15) * PLACE_IN), "dropped:", 8, color=VERMILLION)
            write(axes, (middle, 0.62 + (capacity + 0.45) * PLACE_IN), text, 8, color=VERMILLION)
        write(axes, (middle, 0.44), f"expert {expert}", 9, fontweight="bold")
        write(axes, (middle, 0.24), f"on rank {rank}", 8, color=FAINT)
        words.append(f"expert {expert}: tokens {', '.join(map(str, inside)) or 'none'}"
                     + f", dropped {', '.join(map(str, late))}" * bool(late))
    return Picture(figure, f"{said}. {'; '.join(words)}.")


def _said(token: int, choice: int, expert: int, kept: bool, capacity: int) -> str:
    name = ("first", "second", "third")[choice] if choice < 3 else f"{choice + 1}th"
    late = f": all {capacity} places are taken, so this choice is dropped"
    return f"Token {token}'s {name} choice is expert {expert}" + ("" if kept else late)


@styled
def expert_layer_figure(chosen: Sequence[int] = (0, 2, 1, 3)) -> Picture:
    """Four tokens on two ranks, each of which has two of four experts: there, through the experts, and back.

    chosen: the expert of each token; rank r has tokens and experts 2r and 2r + 1.
    Raises: ValueError unless every token has one of the experts 0 to 3.
    """
    if len(chosen) != 4 or not set(chosen) <= set(range(4)):
        raise ValueError(f"can draw four tokens, each with one of the experts 0 to 3, not {list(chosen)}")
    figure, axes = canvas(3.35)
    middles, (copy_in, from_in, expert_in, back_in) = (2.85, 4.35, 6.55, 8.05), (2.77, 2.28, 1.32, 0.35)
    for rank in range(2):
        middle = sum(middles[2 * rank:2 * rank + 2]) / 2
        tile(axes, (middle - 1.6, 0.08), (3.2, 3.2), "#F4F4F4", "#C8C8C8", 1)
        write(axes, (middle, 3.13), f"rank {rank}", 9, fontweight="bold")
        box(axes, (middle, copy_in), (2.9, 0.34), "attention and router: a copy")
    for token, expert in enumerate(chosen):
        colour, start, there = rank_colour(token // 2), middles[token], middles[expert]
        arrow(axes, (start, from_in - 0.15), (there, expert_in + 0.17), colour, 2)
        arrow(axes, (there, expert_in - 0.17), (start, back_in + 0.15), colour, 2)
        for high_in, text in ((from_in, f"token {token}"), (back_in, "its result")):
            tile(axes, (start - 0.45, high_in - 0.14), (0.9, 0.28), colour, "white", 1)
            write(axes, (start, high_in), text, 8.5, color=ink_on(colour))
    for expert, middle in enumerate(middles):
        box(axes, (middle, expert_in), (1.2, 0.34), f"expert {expert}")
    for high_in, text in ((copy_in, "copied weights"), ((from_in + expert_in) / 2, "all-to-all"),
                          (expert_in, "divided weights"), ((expert_in + back_in) / 2, "all-to-all")):
        write(axes, (0.15, high_in), text, 9.5, ha="left", fontweight="bold" if text == "all-to-all" else "normal")
    return Picture(figure, "A layer of experts on two ranks, with a copy of attention and router on each. " + "; ".join(
        f"token {token} of rank {token // 2} goes to expert {expert} on rank {expert // 2} and its result comes back"
        for token, expert in enumerate(chosen)) + ".")


@styled
def ratio_figure(ranks: Sequence[int], ratios: Mapping[str, Sequence[float]]) -> Picture:
    """The bound of an all-to-all over that of an all-reduce of the same array, against the number of devices.

    ranks: numbers of ranks; ratios: name of a cluster → ratio at each of them.
    Raises: ValueError unless every cluster has one ratio for each number of ranks.
    """
    _same_lengths(ranks, ratios, "number of ranks")
    figure, axes = plot(3.0)
    for number, (name, values) in enumerate(ratios.items()):
        axes.plot(ranks, values, label=name, **series_look(number))
    axes.set_xscale("log", base=2)
    axes.set(xticks=ranks, xlabel="devices", ylabel="bound of an all-to-all\n÷ bound of an all-reduce", ylim=(0, None))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.minorticks_off()
    axes.legend()
    axes.grid(True)
    return Picture(figure, "All-to-all compared with all-reduce. "
                   + _in_words(ranks, ratios, "{y:.2f} times as long on {x} ranks"))


def _same_lengths(at: Sequence, series: Mapping[str, Sequence[float]], what: str) -> None:
    odd = {name: len(values) for name, values in series.items() if len(values) != len(at)}
    if not series or odd:
        raise ValueError(f"one number for each {what}, please: {len(at)} wanted, got {odd or 'no series at all'}")


def _in_words(at: Sequence, series: Mapping[str, Sequence[float]], form: str) -> str:
    return "; ".join(f"{name}: " + ", ".join(form.format(x=x, y=y) for x, y in zip(at, values, strict=True))
                     for name, values in series.items()) + "."
