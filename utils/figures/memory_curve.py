"""What a rank held from moment to moment, as steps."""

from collections.abc import Mapping, Sequence

from utils.figures.style import CYCLE, Picture, human_bytes, plot, styled


@styled
def memory_curve(curves: Mapping[str, Sequence[float]], moments: str) -> Picture:
    """Bytes held at each moment, one line for each name, with its highest point marked.

    curves: name → bytes, in order of time, such as held_bytes() after every layer; moments: what the moments are.
    Raises: ValueError without a curve, or with an empty one.
    """
    if not curves or not all(len(held) for held in curves.values()):
        raise ValueError("memory_curve needs one or more {name: bytes held at each moment}, none of them empty")
    most = max(max(held) for held in curves.values())
    scale, unit = next((2**power, name) for power, name in ((30, "GiB"), (20, "MiB"), (10, "KiB"), (0, "B"))
                       if most >= 2**power or power == 0)
    figure, axes = plot(3.0)
    for number, (name, held) in enumerate(curves.items()):
        peak = max(range(len(held)), key=held.__getitem__)
        axes.plot([one / scale for one in held], drawstyle="steps-post", linewidth=2, color=CYCLE[number],
                  label=f"{name}: {human_bytes(held[peak])} at most")
        axes.plot([peak], [held[peak] / scale], "o", color=CYCLE[number])
    axes.set(xlabel=moments, ylabel=f"{unit} held", ylim=(0, 1.25 * most / scale or 1))
    axes.legend(loc="upper left", ncols=len(curves))
    return Picture(figure, f"Memory at each moment ({moments}). " + "; ".join(
        f"{name}: at most {human_bytes(max(held))}, in the end {human_bytes(held[-1])}"
        for name, held in curves.items()) + ".")
