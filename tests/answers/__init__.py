"""Answers that students gave, wrong and right but unusual: are they rejected or accepted, and what are they told?

`make answers` runs them (<unit>.jsonl, <unit>.<more>.jsonl) through the public checks.
"""

import argparse
import json
import sys
from collections import Counter
from pathlib import Path

from grader.judging.verdict import Verdict
from tests.many import verdicts

HERE = Path(__file__).resolve().parent


def answers(*chosen: str) -> list[dict]:
    """All of them, or those of some units or exercises: unit, exercise, label, kind, mistake in words, code."""
    every = [{"unit": file.name.partition(".")[0], **json.loads(line)} for file in sorted(HERE.glob("*.jsonl"))
             for line in file.read_text().splitlines()]
    return [answer for answer in every if not chosen or {answer["unit"], answer["exercise"]} & set(chosen)]


def told(verdict: Verdict | str) -> tuple[bool, str, str]:
    """(does it earn everything, the hint's id, what the student reads first)"""
    if isinstance(verdict, str):
        return False, "", verdict
    identity, text = verdict.hints[0] if verdict.hints else ("", verdict.problem)
    return verdict.passed, identity, text


def main() -> None:
    """Print wrong answers that pass and right ones that do not, then counts per exercise; with --hints also every hint."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("chosen", nargs="*", help="units or exercises (all of them if none is named)")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--every", type=int, default=1, help="only each K-th")
    parser.add_argument("--hints", action="store_true", help="print what each wrong answer is told")
    options = parser.parse_args()
    tried = answers(*options.chosen)[::options.every]
    counts: dict[str, Counter] = {answer["exercise"]: Counter() for answer in tried}
    results = verdicts([(answer["unit"], answer["exercise"], answer["code"]) for answer in tried], options.workers)
    for answer, verdict in zip(tried, results, strict=True):
        passed, hint, text = told(verdict)
        wrong = answer["kind"] == "wrong"
        counts[answer["exercise"]].update({answer["kind"]: 1, "amiss": passed == wrong, "unnamed": wrong and not hint})
        if passed == wrong:
            fault = "PASSED " if wrong else "REFUSED"
            print(f"{fault} {answer['exercise']}, {answer['label']}: {answer['mistake']} [{text}]", flush=True)
        elif wrong and options.hints:
            print(f"        {answer['exercise']}, {answer['label']}: {answer['mistake']}\n            [{hint}] {text}")
    for exercise, count in counts.items():
        print(f"{exercise:34} wrong {count['wrong']:3}, without a hint {count['unnamed']:3}; right but unusual "
              f"{count['right_but_unusual']:3}; wrongly passed or refused {count['amiss']:3}")
    amiss = sum(count["amiss"] for count in counts.values())
    print(f"{len(tried)} answers, {amiss} wrongly passed or refused")
    sys.exit(amiss > 0)
