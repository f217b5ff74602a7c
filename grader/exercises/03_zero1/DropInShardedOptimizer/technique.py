"""How DropInShardedOptimizer must work, and how it can fail."""

from grader.evidence.evidence import RAISED, RETURNED
from grader.exercises.technique import zero
from grader.exercises.technique.rank_by_rank import spans_if_any
from grader.exercises.technique.sharding import by_collectives, first_wrong_is
from grader.judging.exercise import Demand, Look, Symptom
from grader.judging.symptoms import raised
from utils.trace.trace import Span

from .call import CLOSURE, LEFT, STEP


def _closures(look: Look) -> list[tuple[int, Span, list[Span]]]:
    """Rank, step, and the closure's runs in it, of the steps that have any."""
    steps = [(rank, step) for rank in look.working for step in spans_if_any(look, rank, STEP)]
    found = [(rank, step, [run for run in spans_if_any(look, rank, CLOSURE) if step.start_s <= run.start_s <= step.end_s])
             for rank, step in steps]
    return [(rank, step, runs) for rank, step, runs in found if runs]


def _reduced_before_closure(look: Look) -> bool:
    """In no step is anything reduced after its closure."""
    called = [(zero.reductions(look, rank, step), run) for rank, step, (run, *_) in _closures(look)
              if look.case.group_size(rank) > 1]
    reduced = any(began_s > run.end_s for moments_s, run in called for began_s in moments_s)
    return look.evidence.ending == RETURNED and bool(called) and not reduced


def _closure_once(look: Look) -> tuple[bool, str]:
    often = [f"rank {rank}: {len(runs)} times" for rank, _, runs in _closures(look) if len(runs) > 1]
    return not often, "".join(often[:1])


def _lacks_options(look: Look) -> bool:
    """A scheduler finds a group without the options of the wrapped optimizer."""
    return look.evidence.ending == RAISED and any(text in look.evidence.said for text in ("KeyError: 'betas'",
                                                                                           "KeyError: 'momentum'"))


def _closure_ignored(look: Look) -> bool:
    if look.evidence.ending == RAISED:
        texts = ("does not require grad", "unexpected keyword", "positional argument")
        return any(text in look.evidence.said for text in texts)
    return any(result["loss"] is None for _, result, _ in look.pairs())


TECHNIQUE = by_collectives(
    zero.something_sharded(),
    zero.state_kept(),
    Demand("closure twice", "a closure is called once a step", _closure_once, gate=True, forbids=True),
    symptoms=(
        raised("optimizer must support momentum", "defaults"),
        Symptom("options not there", _lacks_options),
        Symptom("closure ignored", _closure_ignored),
        Symptom("closure too late", _reduced_before_closure),
        Symptom("gradients left", lambda look: any(s.name == LEFT and s.facts["count"] for s in look.evidence.trace.spans)),
    ),
    fallbacks=(Symptom("defaults", first_wrong_is("missing defaults")),),
)
