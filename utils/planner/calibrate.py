"""How fast devices are, from measured steps: the shares of the peak that make planned seconds theirs, and what is left."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import log
from statistics import fmean, median
from typing import Any

from utils.deadlocks.errors import BadValue
from utils.figures.tables import Column, Table
from utils.planner.frameworks import framework_named
from utils.planner.steps import PublishedStep, percent, published_steps

LEAST, MOST, MOST_OF_ATTENTION = 0.05, 1.0, 0.75  # FlashAttention-3 (2407.08608) reaches 0.75 at best


@dataclass(frozen=True)
class Calibration:
    """What calibrate found.

    shares: device → kind of work → share of the peak. errors: of each step, planned with the shares fitted to all of them;
    left_out: planned with those fitted to all others of its device (itself too, where there is no other).
    """

    steps: tuple[PublishedStep, ...]
    shares: Mapping[str, Mapping[str, float]]
    errors: tuple[float, ...]
    left_out: tuple[float, ...]

    @property
    def summary(self) -> dict[str, float]:
        """Means and medians of how far seconds are off, as shares: of all steps, and each left out of its own fit."""
        within, without = ([abs(error) for error in errors] for errors in (self.errors, self.left_out))
        return {"mean": fmean(within), "median": median(within), "mean, left out": fmean(without),
                "median, left out": median(without)}

    @property
    def left_out_by_device(self) -> dict[tuple[str, str], list[float]]:
        """(device, framework) → how far each of its steps is off that was left out of its own fit."""
        groups: dict[tuple[str, str], list[float]] = {}
        for step, error in zip(self.steps, self.left_out, strict=True):
            groups.setdefault((step.cluster.device.name, step.framework), []).append(abs(error))
        return groups

    @property
    def table(self) -> Table:
        """Shares by device and kind of work, and the number of steps that they are from."""
        rows = [{"device": device, "kind": kind, "share": share,
                 "steps": sum(step.cluster.device.name == device for step in self.steps)}
                for device, kinds in self.shares.items() for kind, share in kinds.items()]
        return Table(rows, [Column("device"), Column("kind", "kind of work"), Column("share", "share of the peak",
                                                                                     show="{:.2f}".format), Column("steps")])

    @property
    def residuals(self) -> Table:
        """Printed and planned seconds of each step."""
        rows = [{"run": step.name, "printed": step.step_s, "error": error, "left out": without}
                for step, error, without in zip(self.steps, self.errors, self.left_out, strict=True)]
        return Table(rows, [Column("run"), Column("printed", unit="s", show="{:.2f}".format),
                            Column("error", show=percent), Column("left out", "error, left out", show=percent)])

    def __repr__(self) -> str:
        said = ", ".join(f"{what} {100 * value:.1f} %" for what, value in self.summary.items())
        return f"{self.table}\n\n{self.residuals}\n\nOff by: {said}"


def calibrate(rows: Iterable[Mapping[str, Any]] | None = None) -> Calibration:
    """Fit each device's share of the peak in products, and in each kernel of the attention core, to measured steps.

    rows: with the columns of published_steps.csv; None: those. A kernel's share is fitted only where steps feel it: where
    the attention core is a tenth of the computation in one of them; else it stays what the plan assumes. Steps of
    models with experts are compared, and not fitted to: what slows them is not the products alone.
    Raises: ValueError for no row, and for one that lacks what a plan needs.
    """
    steps = published_steps(rows)
    if not steps:
        raise BadValue("there is no step to calibrate by: give rows with the columns of published_steps.csv")
    planner, shares = _Planner(), {}
    errors, left_out = {}, {}
    for device in dict.fromkeys(step.cluster.device.name for step in steps):
        of_device = [step for step in steps if step.cluster.device.name == device]
        fitted = [step for step in of_device if not step.shape.experts] or of_device
        shares[device] = planner.fit(fitted)
        for step in of_device:
            others = [other for other in fitted if other is not step]
            errors[step.name] = planner.error(step, shares[device])
            without = planner.fit(others) if others and step in fitted else shares[device]
            left_out[step.name] = planner.error(step, without)
    return Calibration(tuple(steps), shares, tuple(errors[step.name] for step in steps),
                       tuple(left_out[step.name] for step in steps))


class _Planner:
    """Errors of steps by shares; what was planned once is not planned again."""

    def __init__(self):
        self._seconds: dict[tuple[str, float, float], float] = {}

    def error(self, step: PublishedStep, shares: Mapping[str, float]) -> float:
        """Planned over printed seconds, less 1, with these shares."""
        products = shares["products"]
        attention = shares.get(kernel(step), step.plan.assumptions.attention_efficiency)
        key = step.name, products, attention
        if key not in self._seconds:
            assumptions = replace(step.plan.assumptions, efficiency=products, attention_efficiency=attention)
            self._seconds[key] = float(replace(step.plan, assumptions=assumptions).time)
        return self._seconds[key] / step.step_s - 1

    def misfit(self, steps: Sequence[PublishedStep], shares: Mapping[str, float]) -> float:
        """The mean of |log(planned/printed)|: as far off if half as long as if twice as long."""
        return fmean(abs(log(1 + self.error(step, shares))) for step in steps)

    def fit(self, steps: Sequence[PublishedStep]) -> dict[str, float]:
        """The shares with the least misfit: one kind after the other, first in large steps, then in small ones."""
        best = {"products": 0.6, **dict.fromkeys(sorted({kernel(step) for step in steps if _feels_attention(step)}), 0.3)}
        for size, reach in ((0.1, 9), (0.03, 4), (0.01, 3), (0.01, 3)):
            for kind in best:
                tried = {round(best[kind] + size * n, 2) for n in range(-reach, reach + 1)}
                most = MOST if kind == "products" else MOST_OF_ATTENTION
                choices = [{**best, kind: share} for share in sorted(tried) if LEAST <= share <= most]
                best = min(choices, key=lambda shares: self.misfit(steps, shares))
        return best


def _feels_attention(step: PublishedStep) -> bool:
    return step.shape.attention_core_flops(1, causal=True) > 0.1 * step.shape.forward_flops(1, causal=True)


def kernel(step: PublishedStep) -> str:
    """The kernel of the attention core that a step's framework has."""
    return framework_named(step.framework).attention


def errors_by_device(found: Calibration) -> list[dict[str, Any]]:
    """How far seconds were off, each step left out of its own fit, by device and framework: planned_errors.csv."""
    return [{"device": device, "framework": framework, "steps": len(errors), "mean_error": round(fmean(errors), 3),
             "worst": round(max(errors), 3)} for (device, framework), errors in found.left_out_by_device.items()]
