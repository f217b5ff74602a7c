"""The bug hunt: students get the broken programs, which run, and are wrong, and are marked as wrong answers.

And the blind hunt: each of its faults costs its own points, whatever else is wrong.
"""

import difflib
import functools
import linecache
import random

import nbformat
import pytest
import torch

from grader import hunt
from grader.broken import MARK, broken_program, is_broken
from grader.bundle import archive
from grader.checks import trials_of, tried_on, verdict_on
from grader.course.mark import mark_submission
from grader.course.splice import is_solution, name_of
from grader.evidence.case import FAULT, WHOLE_RUN
from grader.exercises import EXERCISES, order_of
from grader.exercises.references import ROOT, functions_of, reference_cell, with_source
from grader.judging.judge import judge
from tests.course import SANDBOX, Course
from utils import Deadlock, run_ranks
from utils.models import hunted, hunted_broken, hunted_mesh, hunted_mesh_plain, hunted_plain, hunted_toy
from utils.notebook.beside import BUGS, Beside, beside_plain, bug_of

UNIT = "10_bug_hunt"
CASES = [name for name in order_of(UNIT) if name.startswith("case_")]
LR = 0.1

# ── how a program is broken ──

RIGHT = """def f(x):
    ### BEGIN SOLUTION
    # broken: x = x + 1
    y = 2 * x
    # broken: y = 3 * x
    if y:
        # broken:
        y += 1
        # broken: y += 2
        # broken: y += 3
    z = y
    ### END SOLUTION
    return z"""
BROKEN = """def f(x):
    x = x + 1
    y = 3 * x
        y += 2
        y += 3
    z = y
    return z"""


def test_lines_are_replaced_deleted_and_put_in():
    assert is_broken(RIGHT) and broken_program(RIGHT) == BROKEN
    assert not is_broken("x = 1  # broken: never") and broken_program("x = 1") == "x = 1"


@pytest.mark.parametrize("source, words", [
    ("x = 1\n# broken: x = 2", "line 2: '# broken: x = 2' stands outside"),
    ("### BEGIN SOLUTION\nx = 1", "has no ### END SOLUTION"),
    ("x = 1\n### END SOLUTION", "line 2: '### END SOLUTION' where the other mark was expected"),
    ("### BEGIN SOLUTION\n### BEGIN SOLUTION", "line 2: '### BEGIN SOLUTION' where the other"),
])
def test_marks_that_do_not_fit_are_refused(source, words):
    with pytest.raises(ValueError, match=words):
        broken_program(source)


@pytest.mark.parametrize("case", CASES)
def test_what_is_released_is_the_broken_program(case):
    right, released = reference_cell(UNIT, case), released_cell(case)
    assert released == broken_program(right) and "SOLUTION" not in released and MARK not in released
    assert "NotImplementedError" not in released
    code = [[line for line in source.split("\n") if not line.strip().startswith("#")] for source in (right, released)]
    assert code[0] != code[1] and 10 <= len(code[1]) <= 25


def released_cell(case: str) -> str:
    notebook = nbformat.read(ROOT / "notebooks" / UNIT / f"{UNIT}.ipynb", as_version=4)
    source, = (cell.source for cell in notebook.cells if is_solution(cell) and name_of(cell) == case)
    return source


@pytest.mark.parametrize("case", CASES)
def test_what_runs_before_the_program_is_shown_is_that_program(case):
    program = getattr(hunted_broken, case)
    assert program.__code__.co_filename == f"{case}.py"  # so a verdict names its lines
    assert "".join(linecache.getlines(f"{case}.py")).rstrip("\n") == released_cell(case).rstrip("\n")
    ids = [cell.id for cell in nbformat.read(ROOT / "solutions" / UNIT / f"{UNIT}.ipynb", as_version=4).cells]
    assert ids.index(f"{case}-report") < ids.index(f"{case}-broken") < ids.index(f"{case}-guess") < ids.index(case)


def test_the_given_pipeline_s_verdict_names_lines_of_its_own():
    steps = hunted_plain.pipeline_steps(4)
    with pytest.raises(Deadlock, match=r"case_4\.py, line 14: passes\.backward\(\)"):
        run_ranks(lambda rank: hunted_broken.case_4(steps, LR, None), 3)


# ── the programs run ──


def setting(case: str):
    """(ranks, what the program of each is called with, what they should note)"""
    return settings().get(case, settings()["of replicas"])


@functools.cache
def settings() -> dict:
    shares, steps, micros = hunted_plain.shares(2), hunted_plain.pipeline_steps(4), hunted_plain.micro_shares(2, (1, 2))
    return {
        "of replicas": (2, lambda rank: (shares[rank], LR, None), hunted_plain.plain_replicas(shares, LR)),
        "case_1": (2, lambda rank: (micros[rank], LR, None), hunted_plain.plain_micro_batches(micros, LR)),
        "case_4": (3, lambda rank: (steps, LR, None), hunted_plain.plain_pipeline(steps, LR, 3)),
        "case_9": (2, lambda rank: (shares[rank], LR, None), hunted_plain.plain_shards(shares, LR)),
    }


def beside(folder: str, case: str) -> Beside:
    program = functions_of(folder, UNIT)[case]
    n, arguments, plain = setting(case)
    return beside_plain(run_ranks(_Calls(program, [arguments(rank) for rank in range(n)]), n), plain)


class _Calls:
    """program(*arguments of this rank)"""

    def __init__(self, program, arguments):
        self.program, self.arguments = program, arguments

    def __call__(self, rank):
        return self.program(*self.arguments[rank])


@pytest.mark.parametrize("case", CASES)
def test_the_right_program_is_the_plain_process(case):
    found = beside("solutions", case)
    assert found.agrees and str(found).startswith("Agrees with the plain process")
    assert {value for apart in found.apart for of_step in apart.values() for value in of_step} <= {0.0, None}


@pytest.mark.parametrize("case", [case for case in CASES if case != "case_4"])
def test_the_broken_program_runs_and_departs(case):
    found = beside("notebooks", case)
    assert not found.agrees and f"in step {1 if case == 'case_9' else 0}." in str(found)


def test_the_broken_pipeline_stands_still():
    with pytest.raises(Deadlock, match=r"passes\.backward"):
        beside("notebooks", "case_4")


# ── the plain processes are torch's own ──


def test_the_plain_process_trains_as_torch_does():
    shares, model = hunted_plain.shares(3), hunted.small_mlp()
    optimizer = torch.optim.SGD(model.parameters(), LR)
    for step, notes in enumerate(hunted_plain.plain_replicas(shares, LR)[1]):
        optimizer.zero_grad()
        x, y = (torch.cat(parts) for parts in zip(*(share[step] for share in shares), strict=True))
        torch.nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
        for name, p in model.named_parameters():
            torch.testing.assert_close(notes["weights"][name], p.detach())
            torch.testing.assert_close(notes["gradients"][name], p.grad)


def test_our_sgd_is_torch_s():
    ours, theirs = hunted.small_mlp(), hunted.small_mlp()
    x, y = hunted_plain.shares(1)[0][0]
    for model, optimizer in ((ours, hunted.SGD(ours.parameters(), LR)), (theirs, torch.optim.SGD(theirs.parameters(), LR))):
        for _ in range(3):
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(model(x), y).backward()
            optimizer.step()
    assert all(torch.allclose(a, b, rtol=1e-14) for a, b in zip(ours.parameters(), theirs.parameters(), strict=True))


# ── what the reader sees ──


def test_no_bug_occurs_twice_and_some_never():
    bugs = {bug_of(int(case.removeprefix("case_")))["formula"] for case in CASES}
    assert len(bugs) == len(CASES) and bugs < set(BUGS)


def test_ranks_that_depart_alike_share_a_row_and_factors_are_named():
    run = run_ranks(_Calls(functions_of("notebooks", UNIT)["case_6"], [setting("case_6")[1](rank) for rank in range(2)]), 2)
    found = beside_plain(run, setting("case_6")[2])
    assert {row["who"] for row in found.rows} == {"ranks 0 and 1"} and len(found.rows) == 4
    assert all("(2 times plain)" in row["program"] for row in found.rows) and "<table>" in found._repr_html_()
    for apart in found.apart:  # the first loss is right, the gradients are not, and so nothing is from then on
        assert [bool(value) for value in apart["loss"]] == [False, True, True]
        assert all(apart[name][0] for name in apart if name != "loss")
    assert "rank 1: loss from step 1, gradient of body.weight from step 0" in found.picture.words
    assert len(found.first) == 8 and all(round(factor, 9) == 2 for factor in found.first.values())
    assert found.in_a_line() == "first difference in step 0: 4 gradients"


def test_the_toy_departs_where_the_text_says():
    shares = hunted_plain.shares(2)
    run = run_ranks(lambda rank: hunted_toy.toy(shares[rank], LR), 2)
    found = beside_plain(run, hunted_plain.plain_replicas(shares, LR))
    row, = found.rows
    assert (row["step"], row["who"], row["what"]) == (1, "rank 1", "gradient of head.bias")
    assert "(2 times plain)" in row["program"]
    assert found.in_a_line() == "first difference in step 1: 1 gradient"
    assert not any(found.apart[0]["loss"])
    assert [bool(value) for value in found.apart[1]["new head.bias"]] == [False, True, True]


def test_notes_that_are_missing_are_named():
    run = run_ranks(_Calls(lambda *args: None, [()]), 1)
    with pytest.raises(ValueError, match="rank 0 should return a list of 3 notes, one a step; it returned NoneType"):
        beside_plain(run, setting("case_6")[2][:1])


# ── untouched cases ──


@pytest.mark.parametrize("case", CASES)
def test_an_untouched_program_is_a_wrong_answer(case, warm):
    verdict = verdict_on(EXERCISES[case], functions_of("notebooks", UNIT)[case], place=warm(EXERCISES[case]))
    assert verdict.points == 0 and verdict.hint_ids == ("untouched",) and "not written" not in str(verdict)
    (_, hint), = verdict.hints  # which says where to look, and not what is wrong
    assert hint.startswith("Your program still") and bug_of(int(case.removeprefix("case_")))["formula"] not in hint


def test_one_micro_batch_that_is_too_small_is_kept():
    settings = hunted_mesh.Settings(micro=100)
    run = run_ranks(lambda rank: hunted_mesh.run_trainer(trainer("remainder"), (2, 1, 1), settings), 2)
    assert beside_plain(run, hunted_mesh_plain.plain_run((2, 1, 1), settings)).agrees


@pytest.mark.long
@pytest.mark.skipif(not SANDBOX, reason="needs bubblewrap")
def test_untouched_programs_are_marked(tmp_path):
    course = Course(tmp_path, UNIT, ("case_4", "case_6"))
    released = nbformat.writes(course.skeleton).encode()
    _, record = mark_submission(released, released)
    assert record["alarms"] == [] and set(record["exercises"]) == {"case_4", "case_6"}
    for verdict in record["exercises"].values():
        assert verdict["points"] == 0 and verdict["hints"][0][0] == "untouched" and "not written" not in str(verdict)


# ── the blind hunt ──

BLIND, FAULTS = EXERCISES[hunt.EXERCISE], [fault for kind in hunt.KINDS for fault in kind]


def program(*faults: str) -> str:
    return hunt.program_with(hunt.right_program(), faults)


def trainer(*faults: str) -> type:
    return with_source(UNIT, hunt.EXERCISE, program(*faults))


def still_there(faults: tuple[str, ...], warm) -> set[str]:
    """The faults whose cases are wrong."""
    trials = trials_of(BLIND.id)
    evidences = tried_on(BLIND, trainer(*faults), trials, warm(BLIND))
    return {trial.case.inputs[0][FAULT] for trial, evidence in zip(trials, evidences, strict=True)
            if not judge(BLIND, [trial], [evidence]).passed}


def test_a_word_draws_one_fault_of_each_kind_and_the_same_ones_again():
    drawn = {word: hunt.drawn(word) for word in map(str, range(200))}
    assert all(fault in kind for faults in drawn.values() for fault, kind in zip(faults, hunt.KINDS, strict=True))
    assert {fault for faults in drawn.values() for fault in faults} == set(FAULTS) and len(FAULTS) == 15
    assert len(set(drawn.values())) > 100 and hunt.drawn("7") == drawn["7"]


def test_each_fault_changes_a_line_or_two_of_the_program_and_leaves_no_mark():
    right = program().split("\n")
    for fault in FAULTS:
        wrong = program(fault).split("\n")
        assert 1 <= sum(line[0] in "+-" for line in difflib.ndiff(right, wrong)) <= 4, fault
        compile("\n".join(wrong), fault, "exec")
    text = program(*FAULTS[::3], *FAULTS[2::3])
    assert "# fault" not in text and "SOLUTION" not in text and "# fault" not in program()


def test_a_program_takes_the_place_of_the_cell_that_draws_it(monkeypatch, capsys):
    placed = []

    class Shell:
        def set_next_input(self, text, replace):
            placed.append((text, replace))

    monkeypatch.setattr(hunt, "running_shell", Shell)
    assert hunt.draw_program("") == "" and not placed and "your name" in capsys.readouterr().out
    text = hunt.draw_program("Ada")
    assert placed == [(text, True)] and "run it" in capsys.readouterr().out
    assert text == f"# Drawn by draw_program('Ada'): five bugs\n{program(*hunt.drawn('Ada'))}"


def test_the_students_archive_draws_the_same_program(monkeypatch, tmp_path):
    text, stored = hunt.draw_program("Ada"), tmp_path / "hunt.txt"
    stored.write_text(archive.checks()[hunt.STORED.relative_to(ROOT).as_posix()])
    monkeypatch.setattr(hunt, "ROOT", tmp_path)
    monkeypatch.setattr(hunt, "STORED", stored)
    assert hunt.draw_program("Ada") == text


def test_the_cell_that_is_released_is_a_place_for_a_program():
    assert released_cell(hunt.EXERCISE) == hunt.EMPTY_CELL and not is_broken(reference_cell(UNIT, hunt.EXERCISE))


@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 1, 2), (1, 2, 1), (2, 1, 1), (2, 2, 1), (1, 2, 2),
                                   pytest.param((2, 2, 2), marks=pytest.mark.long)])
def test_the_right_trainer_is_the_plain_process_on_each_mesh(shape):
    settings = hunted_mesh.Settings(seed=5, batch=7, micro=3)
    run = run_ranks(lambda rank: hunted_mesh.run_trainer(trainer(), shape, settings), shape[0] * shape[1] * shape[2])
    assert beside_plain(run, hunted_mesh_plain.plain_run(shape, settings)).agrees


@pytest.mark.parametrize("fault", [pytest.param(fault, marks=[pytest.mark.long] * (number % 5 > 0))
                                   for number, fault in enumerate(FAULTS)])
def test_a_fault_costs_its_own_points(fault, warm):
    found = still_there((fault,), warm)
    assert found - {WHOLE_RUN} == {fault}
    assert WHOLE_RUN in found or fault == "race"  # which may go well, once in a while


@pytest.mark.long
@pytest.mark.parametrize("seed", range(20))
def test_faults_do_not_hide_each_other(seed, warm):
    faults = tuple(random.Random(seed).sample(FAULTS, 2 + seed % 6))
    assert still_there(faults, warm) - {WHOLE_RUN} == set(faults)


def test_a_drawn_program_earns_nothing_and_each_repair_two_points(warm):
    drawn, said = hunt.drawn("Grace"), set()
    for left, faults in ((5, drawn), (2, drawn[:2]), (2, drawn[3:])):
        verdict = verdict_on(BLIND, trainer(*faults), place=warm(BLIND))
        assert verdict.points == 10 - 2 * left and verdict.hint_ids == (f"{left} left",)
        assert f"{5 - left} of your 5 bugs" in str(verdict)
        said.add(str(verdict))
    assert len(said) == 2  # so it does not say which


@pytest.mark.long
@pytest.mark.skipif(not SANDBOX, reason="needs bubblewrap")
def test_a_drawn_program_is_marked_by_what_is_repaired(tmp_path):
    course = Course(tmp_path, UNIT, (hunt.EXERCISE,))
    released = nbformat.writes(course.skeleton)
    submitted = nbformat.reads(released, as_version=4)
    cell, = (cell for cell in submitted.cells if is_solution(cell))
    cell.source = hunt.program_with(hunt.right_program(), hunt.drawn("Grace")[2:4])
    _, record = mark_submission(nbformat.writes(submitted).encode(), released.encode())
    assert record["alarms"] == [] and record["exercises"][hunt.EXERCISE]["points"] == 6, record
