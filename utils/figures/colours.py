"""The colours of all figures: told apart by colour-blind eyes, and which text reads on them."""

from matplotlib.colors import to_rgb

# Okabe and Ito's palette.
ORANGE, SKY, GREEN, YELLOW = "#E69F00", "#56B4E9", "#009E73", "#F0E442"
BLUE, VERMILLION, PURPLE, BLACK = "#0072B2", "#D55E00", "#CC79A7", "#000000"
GREY, PALE, INK, FAINT = "#999999", "#E4E4E4", "#222222", "#777777"
CYCLE = (BLUE, ORANGE, GREEN, PURPLE, SKY, VERMILLION, YELLOW, GREY)
MARKERS = "os^Dv<>p"

# Of a pipeline's steps, in schedules and in timelines, apart from the colours of a timeline's states.
STEP_COLOURS = {"F": "#79C9AF", "B": "#DFA3C4", "I": YELLOW, "W": "#E8A882"}

# One colour a rank, light enough for black text; the first eight are told apart by colour-blind eyes.
RANK_COLOURS = ("#7FC4EE", "#F2BB4A", "#5CC4A4", "#DFA3C4", "#F0E442", "#E88D5A", "#A9B8E8", "#949494")

# The same in pictures of a pipeline's layers, apart from the green and the pink of its steps.
STAGE_COLOURS = ("#7FC4EE", "#F2BB4A", "#C9CDD6", "#A9A3E0")


def ink_on(colour: str | tuple[float, float, float]) -> str:
    """Black or white, whichever reads better on `colour`."""
    red, green, blue = to_rgb(colour)
    return INK if 0.299 * red + 0.587 * green + 0.114 * blue > 0.5 else "white"


def series_look(number: int) -> dict[str, str]:
    """Marker and colour of a plot's series, counted from 0."""
    return {"marker": MARKERS[number % len(MARKERS)], "color": CYCLE[number % len(CYCLE)]}


def rank_colour(rank: int) -> str:
    """The colour of what came from `rank`."""
    return RANK_COLOURS[rank % len(RANK_COLOURS)]
