"""What a search found: plans in order, and how many layouts each reason rules out."""

import html
from dataclasses import dataclass

from utils.figures.tables import Column, Table
from utils.planner.explained import in_words
from utils.planner.plan import Plan, comparison

NOTICED = 0.001  # of a step; less is not worth a word


@dataclass
class Ruled:
    """How many layouts a reason rules out, and one of them."""

    count: int
    example: str


@dataclass
class Ranking:
    """Plans, best first; `ruled_out`: reason → how many, and an example; `layouts`: how many there are in all.

    evaluated: of how many the time was computed exactly. Those that do not fit are counted only if they could have been fast
    enough to be listed.
    """

    plans: list[Plan]
    ruled_out: dict[str, Ruled]
    layouts: int
    evaluated: int = 0
    keep: int = 10

    @property
    def fastest(self) -> Plan:
        """The one of least time, ties apart.  Raises: ValueError if none fits."""
        return min([self.best, *self.plans], key=lambda plan: plan.time)

    @property
    def best(self) -> Plan:
        """The first.  Raises: ValueError if none fits."""
        if not self.plans:
            raise ValueError("no layout fits:\n" + str(self.reasons))
        return self.plans[0]

    @property
    def why_first(self) -> str:
        """Why the first place comes before the second: what each spends more of its step on.  "" if there is no second."""
        if len(self.plans) < 2:
            return ""
        first, second = self.plans[:2]
        parts = dict.fromkeys([*first.times, *second.times])
        more = sorted(((second.times.get(part, 0.0) - first.times.get(part, 0.0), part) for part in parts), reverse=True)
        least, longer = NOTICED * first.time, 100 * (second.time / first.time - 1)
        dearer = [f"{part} {in_words(seconds, 's')} more" for seconds, part in more if seconds > least]
        cheaper = [f"{part} {in_words(-seconds, 's')} less" for seconds, part in reversed(more) if -seconds > least]
        takes = f"takes {longer:.1f} % longer" if longer > 0 else f"is {-longer:.1f} % shorter, which is a tie, on more axes"
        differs = ", ".join(dearer + cheaper) or "nothing that counts differs"
        return f"The second, {second.layout}, {takes}: {differs}."

    @property
    def reasons(self) -> Table:
        """What rules layouts out, the commonest first."""
        rows = [{"reason": reason, "count": ruled.count, "example": ruled.example}
                for reason, ruled in sorted(self.ruled_out.items(), key=lambda item: -item[1].count)]
        return Table(rows, [Column("reason"), Column("count", "layouts", show="{:,}".format), Column("example")])

    @property
    def _heading(self) -> str:
        share = f"{100 * self.plans[0].usable:.0f} % of" if self.plans else ""
        return f"The fastest layouts that fit into {share} a device's memory:" if self.plans else "No layout fits."

    def __repr__(self) -> str:
        found = f"{self._heading}\n{comparison(self.plans)}\n{self.why_first}"
        return f"{found}\n\nOf {self.layouts:,} layouts ruled out:\n{self.reasons}"

    def _repr_html_(self) -> str:
        return (f"<p>{html.escape(self._heading)}</p>{comparison(self.plans)._repr_html_()}"
                f"<p>{html.escape(self.why_first)}</p><p>Of {self.layouts:,} layouts ruled out:</p>"
                f"{self.reasons._repr_html_()}")
