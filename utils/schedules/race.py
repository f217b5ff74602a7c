"""The schedule race: what one's own schedules come to in a published setting, compared with published numbers."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from utils.schedules.schedule import Schedule, Timetable

Row = dict[str, Any]
PRINTED = {"1F1B": "b_1F1B", "ZB-H1": "b_ZBH1", "ZB-H2": "b_ZBH2", "ZB-2p": "b_ZB2p"}  # -> the table's column


@dataclass(frozen=True)
class Race:
    """One setting.  paper: a row of zero_bubble_tables_1.5B_6.2B (Qi and others, arXiv 2401.10241), times in ms.

    simulate(schedule, durations, hop) → Timetable: the reader's own.
    """

    paper: Mapping[str, Any]
    simulate: Callable[[Schedule, Mapping[str, float], float], Timetable]

    @property
    def p(self) -> int:
        """Stages, one a rank."""
        return self.paper["p"]

    @property
    def m(self) -> int:
        """Micro-batches."""
        return self.paper["m"]

    @property
    def hop(self) -> float:
        """Of a message between neighbours."""
        return self.paper["Tcomm_ms"]

    @property
    def split(self) -> dict[str, float]:
        """Of a micro-batch on a stage: forward, and the backward pass in two."""
        return {"F": self.paper["TF_ms"], "I": self.paper["TB_ms"], "W": self.paper["TW_ms"]}

    def row(self, name: str, make: Callable[[], Schedule], chunks: int = 1) -> Row:
        """make() gives a schedule, whose stages are a chunk each.

        Idle: the simulator's bubble rate; in own time: from a rank's first step to its last, as the paper counts.
        """
        try:
            schedule = make()
        except NotImplementedError:
            return self._row(name, "", "a challenge")
        whole = self.split | {"B": self.split["I"] + self.split["W"]}
        times, _, rate, peaks = self.simulate(schedule, {kind: ms / chunks for kind, ms in whole.items()}, self.hop)
        own = max(times[steps[-1]][1] - times[steps[0]][0] for steps in schedule)
        return self._row(name, f"{max(peaks) / chunks:.3g}", f"{rate:.2%}", f"{1 - self._ideal / own:.2%}")

    def printed(self) -> Sequence[Row]:
        """Schedules that the course does not build: what is published, and for DualPipe its authors' formula."""
        f, i, w = self.split.values()
        dual = (self.p / 2 - 1) * (f + 2 * (i + w) - 3 * w)  # F and B in one run
        own = f"{dual / (self._ideal + dual):.2%}"
        return [self._row("ZB-H2", 2 * self.p - 1),
                self._row("ZB-2p", 2 * self.p) | {"schedule": "ZB-2p, found by a search"},
                self._row("ZB-V", self.p) | {"published": "0 if F = I = W"},
                self._row("DualPipe, parameters twice (formula, no hops)", self.p + 1, own=own)]

    @property
    def _ideal(self) -> float:
        return self.m * sum(self.split.values())

    def _row(self, name: str, in_flight: int | str, idle: str = "", own: str = "") -> Row:
        return {"schedule": name, "in flight": in_flight, "idle": idle, "idle in own time": own,
                "published": f"{self.paper[PRINTED[name]]:.2%}" if name in PRINTED else ""}
