"""Answers that students gave: are they rejected or accepted, and which hint does a wrong one get?

<unit>/<exercise>.jsonl has one a line: label; kind, which is "right" (and often unusual), "wrong", or "unseen" for a wrong
one that the public checks let pass; the mistake in words; hint, the id of the one that it should get; code. `make answers`
tries all of them, and says which ids never spoke; the tests try one right one in four, and of the others one in twenty.
"""

import argparse
import json
import sys
import zlib
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from grader.exercises import EXERCISES
from grader.judging.verdict import Verdict
from tests.many import verdicts

HERE = Path(__file__).resolve().parent
RIGHT, WRONG, UNSEEN = "right", "wrong", "unseen"
PARTS = {RIGHT: 4, WRONG: 20, UNSEEN: 20}


def answers(*chosen: str) -> list[dict]:
    """All of them, or those of some units or exercises, each with its unit and exercise."""
    files = [file for file in sorted(HERE.glob("[0-9]*/*.jsonl"))
             if not chosen or {file.parent.name, file.stem} & set(chosen)]
    return [{"unit": file.parent.name, "exercise": file.stem} | json.loads(line)
            for file in files for line in file.read_text(encoding="utf-8").splitlines()]


def name_of(answer: dict) -> str:
    return f"{answer['exercise']}/{answer['label']}"


def in_short(answer: dict) -> bool:
    """Whether the tests try it, chosen by its name."""
    return zlib.crc32(name_of(answer).encode()) % PARTS[answer["kind"]] == 0


def as_it_should(answer: dict, verdict: Verdict | str) -> bool:
    """Whether it is accepted or rejected as its kind says."""
    passed = not isinstance(verdict, str) and verdict.passed
    return passed == (answer["kind"] in (RIGHT, UNSEEN))


def hint_of(verdict: Verdict | str) -> str:
    return "" if isinstance(verdict, str) or not verdict.hints else verdict.hint_ids[0]


def silent_ids(tried: Iterable[str], spoke: set[tuple[str, str]]) -> list[str]:
    """Of some exercises the ids of slips, symptoms and demands that no answer got."""
    return [f"{name}: {id}" for name in tried for id in sorted(EXERCISES[name].ids) if (name, id) not in spoke]


def main() -> None:
    """Print what is judged otherwise than it should be, other hints than labelled, counts, and with --ids silent ids."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("chosen", nargs="*", help="units or exercises (all of them if none is named)")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--every", type=int, default=1, help="only each K-th")
    parser.add_argument("--hints", action="store_true", help="print what each wrong answer is told")
    parser.add_argument("--ids", action="store_true", help="print the ids of hints that no answer got")
    options = parser.parse_args()
    tried = answers(*options.chosen)[::options.every]
    counts: dict[str, Counter] = {answer["exercise"]: Counter() for answer in tried}
    spoke: set[tuple[str, str]] = set()
    results = verdicts([(answer["unit"], answer["exercise"], answer["code"]) for answer in tried], options.workers)
    for answer, verdict in zip(tried, results, strict=True):
        hint, count = hint_of(verdict), counts[answer["exercise"]]
        other = answer["kind"] == WRONG and "hint" in answer and hint != answer["hint"]
        spoke.add((answer["exercise"], hint))
        count.update({answer["kind"]: 1, "labelled": "hint" in answer, "other hint": other})
        if not as_it_should(answer, verdict):
            count["amiss"] += 1
            print(f"AMISS   {name_of(answer)}, {answer['kind']}: {answer['mistake']} [{hint or verdict}]", flush=True)
        elif other or (options.hints and answer["kind"] == WRONG):
            print(f"        {name_of(answer)}: {answer['mistake']}\n            [{hint}]"
                  + (f", should be [{answer['hint']}]" if other else ""), flush=True)
    for exercise, count in counts.items():
        print(f"{exercise:34} right {count[RIGHT]:3}, wrong {count[WRONG]:3}, unseen {count[UNSEEN]:2}, amiss "
              f"{count['amiss']:2}; of {count['labelled']:3} labelled {count['other hint']:2} get another hint")
    if options.ids:
        print("ids that no answer got:", *silent_ids(counts, spoke), sep="\n  ")
    total = sum(counts.values(), Counter())
    print(f"{len(tried)} answers, {total['amiss']} amiss; of {total['labelled']} labelled {total['other hint']} get another "
          "hint")
    sys.exit(total["amiss"] > 0)
