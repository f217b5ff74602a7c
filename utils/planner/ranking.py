"""What a search found: plans in order, and how many layouts each reason rules out."""

from dataclasses import dataclass

from utils.figures.tables import Column, Table
from utils.planner.plan import Plan, comparison


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
    def reasons(self) -> Table:
        """What rules layouts out, the commonest first."""
        rows = [{"reason": reason, "count": ruled.count, "example": ruled.example}
                for reason, ruled in sorted(self.ruled_out.items(), key=lambda item: -item[1].count)]
        return Table(rows, [Column("reason"), Column("count", "layouts", show="{:,}".format), Column("example")])

    def __repr__(self) -> str:
        return f"{comparison(self.plans)}\n\nOf {self.layouts:,} layouts ruled out:\n{self.reasons}"

    def _repr_html_(self) -> str:
        return (f"{comparison(self.plans)._repr_html_()}<p>Of {self.layouts:,} layouts ruled out:</p>"
                f"{self.reasons._repr_html_()}")
