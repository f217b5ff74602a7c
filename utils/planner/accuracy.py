"""The page that says how far the planner is off: every published step beside its plan, and the worst ones explained."""

from statistics import fmean, median

from utils.costs.tables import read_table
from utils.planner.calibrate import Calibration, calibrate
from utils.planner.steps import GIB, PublishedStep, published_steps, summary


def accuracy_page(found: Calibration | None = None) -> str:
    """The page as Markdown. found: of calibrate; None: of the published steps."""
    found = found or calibrate()
    steps = zip(found.steps, found.left_out, strict=True)
    return "\n".join([*_summary(found), "", "## What is fitted", "", FITTED, "", *_shares(found), "",
                      "## By device and framework", "",
                      *_table(["device", "framework", "steps", "mean, left out", "worst"], _groups(found)), "",
                      "## Every step", "",
                      *_table(["step", "printed (s)", "planned (s)", "error", "left out", "printed (GiB)", "planned (GiB)"],
                              [_row(step, without) for step, without in steps]), "",
                      "## The worst, and what is known of them", "",
                      *[f"- **{row['steps']}.** {row['why']}" for row in read_table("planned_worst")], "",
                      "## Beside SimuMax", "", *_beside_simumax(), ""])


FITTED = """One number a device and kind of work: the share of its peak that products reach, and that the kernel of the
attention core reaches. All else is counted, or assumed once for all rows: collectives reach 0.8 of a link's data sheet and
take 30 µs to start, kernels reach 0.85 of the memory's speed, and traffic that is hidden lengthens the computation by 0.15
of its time."""


def _summary(found: Calibration) -> list[str]:
    off, fitted = summary(found.steps), found.summary
    printed = [step for step in found.steps if step.memory_bytes]
    close = sum(abs(step.memory_error) <= 0.1 for step in printed)
    return ["# How far the planner is off", "",
            "The planner was given the model, the layout, the device, the number format and the framework of each published",
            "step in `utils/costs/data/published_steps.csv`, and nothing else. This page is written",
            "by `python -m utils.planner accuracy`, and a test holds it to what that command says.", "",
            f"- **Seconds**: off by {_share(off['median'])} in the median and {_share(off['mean'])} in the mean, of",
            f"  {len(found.steps)} steps. Planned with shares that were fitted without it, a step is off by"
            f" {_share(fitted['median, left out'])} and {_share(fitted['mean, left out'])}.",
            f"- **Memory**: of {len(printed)} printed peaks {close} are within a tenth."]


def _shares(found: Calibration) -> list[str]:
    return _table(["device", "kind of work", "share of the peak", "steps"],
                  [[row["device"], row["kind"], f"{row['share']:.2f}", str(row["steps"])] for row in found.table.rows])


def _beside_simumax() -> list[str]:
    """The steps that SimuMax's authors measured and print with their own estimate: both tools by the same measurements."""
    rows = read_table("simumax_b200")
    steps = published_steps(rows)
    ours = {"seconds": [abs(step.error) for step in steps], "memory": [abs(step.memory_error) for step in steps]}
    theirs = {"seconds": [abs(row["simumax_s"] / row["printed_step_s"] - 1) for row in rows],
              "memory": [abs(row["simumax_GiB"] / row["printed_memory_GiB"] - 1) for row in rows]}
    lines = [[f"{tool}, {what}", _share(median(errors[what])), _share(fmean(errors[what])), _share(max(errors[what]))]
             for what in ours for tool, errors in (("the planner", ours), ("SimuMax", theirs))]
    return [BESIDE.format(steps=len(steps)), "", *_table(["tool", "median", "mean", "worst"], lines)]


BESIDE = """SimuMax (release 1.2) prints {steps} steps of Megatron-LM on eight B200 as they were measured, and its own
estimates, which rest on each operator's measured efficiency on that machine. They are Llama 3 70B with 12 layers,
Llama 3.1 405B with 4, DeepSeek-V3 with 4, and the first two with 32,768 and 131,072 tokens
(`utils/costs/data/simumax_b200.csv`). Eight of the steps are among those above. The planner's share of the attention core is
fitted to the long ones."""


def unexplained(found: Calibration) -> list[str]:
    """Names of steps that are off by more than a tenth, and of which planned_worst.csv says nothing."""
    known = [row["steps"] for row in read_table("planned_worst")]
    worst = [step.name for step in found.steps if abs(step.error) > 0.1]
    return [name for name in worst if not any(words in name for words in known)]


def _groups(found: Calibration) -> list[list[str]]:
    return [[device, framework, str(len(errors)), _share(fmean(errors)), _share(max(errors))]
            for (device, framework), errors in sorted(found.left_out_by_device.items(), key=lambda item: median(item[1]))]


def _row(step: PublishedStep, without: float) -> list[str]:
    memory = [f"{step.memory_bytes / GIB:.1f}" if step.memory_bytes else "", f"{step.plan.memory / GIB:.1f}"]
    name = step.name.partition(", ")[2]
    return [f"{name} ({step.framework})", f"{step.step_s:.2f}", f"{step.plan.time:.2f}", _share(step.error, "+"),
            _share(without, "+"), *memory]


def _table(headings: list[str], rows: list[list[str]]) -> list[str]:
    """As Markdown."""
    return ["| " + " | ".join(cells) + " |" for cells in [headings, ["---"] * len(headings), *rows]]


def _share(share: float, sign: str = "") -> str:
    return f"{100 * share:{sign}.1f} %"
