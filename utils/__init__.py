"""What a cell of the course uses: ranks, traces, memory, costs, figures."""

from utils.errors import DeadlineExceeded, Deadlock, Mismatch, RankFailed, RanksError
from utils.ranks import Run, run_ranks
from utils.spans import mark, span

__all__ = ["DeadlineExceeded", "Deadlock", "Mismatch", "RankFailed", "RanksError", "Run", "mark", "run_ranks", "span"]
