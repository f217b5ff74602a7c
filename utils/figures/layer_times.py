"""What a layer's communication takes on each link, beside what its computing takes, against the number of ranks."""

from collections.abc import Mapping, Sequence

from utils.figures.style import BLACK, CYCLE, FAINT, Picture, plot, styled


@styled
def layer_times(n_ranks: Sequence[int], bytes_sent: Sequence[float], compute_s: Sequence[float],
                links: Mapping[str, float], node: int | None = None) -> Picture:
    """Milliseconds against n: one line for computing, one for each link that carries `bytes_sent`.

    n_ranks: numbers of ranks; bytes_sent, compute_s: for each of them, what one rank sends and how long it computes;
    links: name → one-way GB/s (10⁹ bytes a second); node: how many ranks a node has, marked by a line.
    Raises: ValueError unless the three sequences have one length.
    """
    if not len(n_ranks) == len(bytes_sent) == len(compute_s) > 0:
        raise ValueError(f"one number of bytes and one time for each number of ranks, please: got {len(n_ranks)} numbers of "
                         f"ranks, {len(bytes_sent)} of bytes, {len(compute_s)} times")
    figure, axes = plot(3.8)
    axes.plot(n_ranks, [1e3 * one for one in compute_s], color=BLACK, linewidth=2.5, label="computing")
    for number, (name, speed_GBps) in enumerate(links.items()):
        axes.plot(n_ranks, [sent / speed_GBps / 1e6 for sent in bytes_sent], "os^Dv<>p"[number % 8] + "--",
                  color=CYCLE[number % len(CYCLE)], markersize=5, label=f"{name}, {speed_GBps:g} GB/s")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set(xlabel="ranks that share the layer", ylabel="milliseconds a layer", xticks=list(n_ranks))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter("{x:g}")
    axes.minorticks_off()
    if node is not None:
        axes.axvline(node, color=FAINT, linewidth=0.8)
        axes.annotate("one node ends here", (node, axes.get_ylim()[0]), xytext=(4, 4), textcoords="offset points",
                      color=FAINT, fontsize=8.5)
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return Picture(figure, _words(n_ranks, bytes_sent, compute_s, links))


def _words(n_ranks: Sequence[int], bytes_sent: Sequence[float], compute_s: Sequence[float],
           links: Mapping[str, float]) -> str:
    ends = (0, -1) if len(n_ranks) > 1 else (0,)
    lines = {"computing": [1e3 * one for one in compute_s]} | {
        name: [sent / speed / 1e6 for sent in bytes_sent] for name, speed in links.items()}
    return "Milliseconds a layer. " + "; ".join(f"{name}: " + ", ".join(
        f"{times[end]:.3g} ms on {n_ranks[end]} ranks" for end in ends) for name, times in lines.items()) + "."
