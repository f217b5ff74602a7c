"""Near-identical solutions: copies are found whatever they are dressed up as, and work of one's own is not."""

import ast
import random
import re
import time
from pathlib import Path

import nbformat
import pytest

from grader.course import reading
from grader.course.splice import is_solution, name_of, splice
from grader.exercises import EXERCISES
from grader.report.likeness import grams, near_identical, tokens
from tests.changes import CHANGES, changed

ROOT = Path(__file__).resolve().parent.parent
UNIT = "01_collectives"


def code_of(folder: str) -> dict[str, str]:
    notebook = nbformat.read(ROOT / folder / UNIT / f"{UNIT}.ipynb", as_version=4)
    return {name_of(cell): cell.source for cell in notebook.cells if cell.cell_type == "code" and (
        is_solution(cell) or folder == "notebooks")}


RELEASED = code_of("notebooks")
REFERENCE = {name: re.sub(r"\s*### (BEGIN|END) SOLUTION", "", source) for name, source in code_of("solutions").items()}


def texts_of(exercise: str) -> list[str]:
    """Different texts for one exercise: the reference, and each solution in likeness/ with the helpers that it calls."""
    path = ROOT / "tests" / "likeness" / f"{exercise}.txt"
    if not path.exists():
        return [REFERENCE[exercise]]
    written = path.read_text()
    functions = [node for node in ast.parse(written).body if isinstance(node, ast.FunctionDef)]
    parts = {node.name: ast.get_source_segment(written, node) for node in functions}
    texts = [REFERENCE[exercise]]
    for name in [node.name for node in functions if node.decorator_list]:
        helpers = [parts[helper] for helper in parts if helper.startswith("_") and f"{helper}(" in parts[name]]
        texts.append("\n".join([*helpers, parts[name].replace(name, exercise)]))
    return texts


POOL = {exercise: texts_of(exercise) for exercise in REFERENCE}


def class_of(size: int, seed: int) -> dict[str, dict[str, str]]:
    """Everyone writes one of the pool's texts for each exercise: they agree here and there, as honest work does."""
    source = random.Random(seed)
    return {f"honest {i}": {name: source.choice(texts) for name, texts in POOL.items()} for i in range(size)}


def renamed(source: str) -> str:
    """Other names for all that the function calls its own."""
    chosen = {node.id for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Name)
              and isinstance(node.ctx, ast.Store)}
    return re.sub(r"(?<![\w.])[A-Za-z_]\w*", lambda match: f"my_{match[0].lower()}_2" if match[0] in chosen else match[0],
                  source)


def dressed_up(source: str) -> str:
    """Renamed, with comments, blank lines, another docstring, and a line that does nothing."""
    lines = renamed(source).split("\n")
    at = next(i for i, line in enumerate(lines) if line.rstrip().endswith('"""'))
    lines[at:at + 1] = ['    """All my own work."""', "", "    began = 0  # nothing hangs on this"]
    return "\n".join(line + "   # so" * (i % 3 == 0 and line.endswith(")")) for i, line in enumerate(lines))


def flagged(written) -> list[tuple[str, str]]:
    return [pair.students for pair in near_identical(written, RELEASED.values())]


@pytest.mark.parametrize("size", [2, 5, 20, 60])
@pytest.mark.parametrize("seed", range(3))
def test_work_of_ones_own_is_not_flagged(size, seed):
    assert flagged(class_of(size, seed)) == []


@pytest.mark.parametrize("disguise", [str, renamed, dressed_up])
@pytest.mark.parametrize("size", [0, 3, 18, 58])
def test_a_copy_is_flagged_and_nobody_else(size, disguise):
    copy = {name: disguise(source) for name, source in REFERENCE.items()}
    assert flagged(class_of(size, 1) | {"copy": copy, "first": REFERENCE}) == [("copy", "first")]


def test_a_copied_mix_of_texts_is_flagged_with_its_exercises():
    honest = class_of(20, 4)
    pair, = near_identical(honest | {"zoe": {name: renamed(source) for name, source in honest["honest 7"].items()}},
                           RELEASED.values())
    assert pair.students == ("honest 7", "zoe") and pair.share == 1.0 and len(pair.exercises) > len(REFERENCE) // 2


def test_a_class_that_wrote_nothing_or_all_the_same_flags_nobody():
    assert flagged({}) == flagged({"ann": {}, "bo": {}}) == []
    assert flagged({"ann": dict(RELEASED), "bo": dict(RELEASED)}) == []
    assert flagged({f"s{i}": REFERENCE for i in range(12)}) == []  # what everyone writes is nobody's own


def test_one_short_exercise_is_not_enough():
    short = {"broadcast_naive": REFERENCE["broadcast_naive"]}
    assert flagged({"ann": short, "bo": dict(short)}) == []


def test_tokens_without_layout_comments_docstrings_and_names():
    source = ('def f(x):\n    """Doc\n    string."""\n    # note\n'
              '    y = x.sum() + 0x1F  # why\n    return f"{y}" if y else None')
    assert tokens(source) == ["def", " f", "(", " x", ")", ":", " y", "=", " x", ".", "sum", "(", ")", "+", "0x1F", "return",
                              "''", "if", " y", "else", "None"]


@pytest.mark.parametrize("source", ["", "'", '"""', "def (", "é = 'ü'\n\x00", "%%ranks 4\nx = 1", "x" * 50_000, "(" * 50_000,
                                    "\\" * 999])
def test_text_that_is_not_python_is_read_too(source):
    assert isinstance(grams(source), frozenset)


def test_names_do_not_count_and_structure_does():
    line = "total = total + row[(rank - step) % n] * weights[rank]"
    assert grams(line) == grams(re.sub("total", "s", re.sub("rank", "r", line)))
    assert grams(line) != grams(line.replace("-", "+"))
    assert grams(line) != grams(line.replace("weights[rank]", "weights[step]"))


def test_a_class_four_times_as_large_does_not_cost_much_more_than_its_pairs():
    small, large = class_of(40, 0), class_of(160, 0)
    assert seconds(large) < 16 * 2 * seconds(small)


def seconds(written) -> float:
    times = []
    for _ in range(3):
        began = time.perf_counter()
        flagged(written)
        times.append(time.perf_counter() - began)
    return min(times)


def test_strangers_whose_program_dropped_all_names_are_not_alike():
    """Colab's notebooks have no cell ids, and every released cell in them is still the released one."""
    template = nbformat.read(ROOT / "notebooks" / UNIT / f"{UNIT}.ipynb", as_version=4)
    names, written = [name for name, exercise in EXERCISES.items() if exercise.unit == UNIT], {}
    for student, own in (("ann", names[:8]), ("bob", names[8:])):
        handed = changed(UNIT, ("what_shows_played_with",), names[0])
        for cell in handed.cells:
            name = cell["metadata"].get("nbgrader", {}).get("grade_id")
            if name in names and name not in own:
                cell["source"] = RELEASED[name]
        CHANGES["from_colab"](handed)
        cells = splice(template, reading.read(handed.content())[0]).notebook.cells
        written[student] = {name_of(cell): cell.source for cell in cells
                            if cell.cell_type == "code" and cell.source not in RELEASED.values()}
        assert written[student].keys() == set(own)
    assert near_identical(written, RELEASED.values()) == []
