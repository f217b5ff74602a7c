"""A plan as one HTML page to hand to somebody: verdict, budget, memory by stage, time with formulas, assumptions in words.

The page needs nothing beside itself, follows the reader's light or dark theme, and can be printed.
"""

from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from utils.deadlocks.errors import BadValue
from utils.figures.planner_figures import plan_time_figure, stage_memory_figure
from utils.figures.style import Picture
from utils.planner import budget
from utils.planner.explained import Explained
from utils.planner.words import assumptions_in_words

TEMPLATE = Path(__file__).with_suffix(".html")


def report_page(plan: Any, tokens: float | None = None, price_per_device_hour: float | None = None,
                watts_per_device: float | None = None, pue: float = 1.0, goodput: float = 1.0, currency: str = "$") -> str:
    """The page's HTML. tokens: of the whole training run; the others say what its device hours cost, as in Plan.money.

    goodput: the share of the time that training goes on, from utils.planner.goodput, if failures count.
    Raises: TypeError, ValueError; also for a price or watts without tokens.
    """
    if tokens is None and (price_per_device_hour is not None or watts_per_device is not None):
        raise BadValue("money and energy are those of a whole training run: give its tokens too")
    spent = _spent(plan, tokens, price_per_device_hour, watts_per_device, pue, goodput, currency)
    if spent and isinstance(goodput, Explained):
        spent.append(goodput)
    fullest = max(plan.memory_by_stage, key=float)
    template = Environment(loader=FileSystemLoader(TEMPLATE.parent), autoescape=True, undefined=StrictUndefined,
                           trim_blocks=True, lstrip_blocks=True).get_template(TEMPLATE.name)
    return template.render(
        plan=plan, spent=spent, cards=[plan.time, plan.tokens_per_s_device, plan.mfu, *spent], goodput=float(goodput),
        assumptions=assumptions_in_words(plan), fullest=fullest, stage=plan.memory_by_stage.index(fullest),
        memory=_drawn(stage_memory_figure(plan.memory_by_stage, float(plan.limit))),
        time=_drawn(plan_time_figure({"step": plan})), source=plan.shape.source)


def _spent(plan: Any, tokens: float | None, price: float | None, watts: float | None, pue: float, goodput: float,
           currency: str) -> list[Explained]:
    """What training on so many tokens takes: days, device hours, and of money and energy what is asked for."""
    if tokens is None:
        return []
    hours = plan.device_hours(tokens, goodput)
    spent = [budget.training_days(hours, plan.layout.devices), hours]
    if price is not None:
        spent.append(plan.money(tokens, price, goodput, currency))
    if watts is not None:
        spent.append(plan.energy(tokens, watts, pue, goodput))
    return spent


def _drawn(picture: Picture) -> Markup:
    return Markup(picture._repr_html_())
