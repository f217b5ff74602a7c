"""The look at a submission's source: what cheats need is named with its cell and line; honest code is not."""

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from grader.course.alarms import NO_PYTHON, UNUSUAL, Alarm
from grader.course.suspicion import LINES_A_CELL, suspicions
from tests.course import ROOT

CONTROLS = sorted((ROOT / "tests" / "controls").glob("*/*.ipynb"))
NOTEBOOKS = sorted([*ROOT.glob("solutions/*/*.ipynb"), *ROOT.glob("notebooks/*/*.ipynb")])


def lines_of(*sources: str) -> list[str]:
    cells = [new_code_cell(source, metadata={"nbgrader": {"grade_id": "mine"}}) for source in sources]
    return [alarm.text for alarm in suspicions(new_notebook(cells=cells))]


@pytest.mark.parametrize("source, what", [
    ("import gc\n\nfor x in gc.get_objects():\n    pass", "uses gc.get_objects (line 3)"),
    ("from gc import get_objects as look\nlook()", "uses gc.get_objects (line 1)"),
    ("import ctypes", "uses ctypes (line 1)"),
    ("import ctypes.util as u\nu.find_library('c')", "uses ctypes (line 1)"),
    ("import sys\nsys._getframe(1).f_locals", "uses sys._getframe (line 2)"),
    ("import sys as s\ns.modules['grader'] = None", "uses sys.modules (line 2)"),
    ("import os\nos._exit(0)", "uses os._exit (line 2)"),
    ("import os\nos.execvp('sh', ['sh'])", "uses os.execvp (line 2)"),
    ("import torch\ntorch.equal = lambda *a: True", "assigns to torch.equal (line 2)"),
    ("dist.isend = None", "assigns to torch.distributed.isend (line 1)"),
    ("from torch import Tensor\nTensor.__eq__ = None", "assigns to torch.Tensor.__eq__ (line 2)"),
    ("setattr(time, 'sleep', print)", "assigns to time.sleep (line 1)"),
    ("del torch.equal", "assigns to torch.equal (line 1)"),
    ("class A(torch.Tensor):\n    pass", "subclasses torch.Tensor (line 1)"),
    ("class A:\n    def __reduce__(self):\n        return print, ()", "defines __reduce__ (line 2)"),
    ("open('/proc/self/mem', 'wb')", "names /proc (line 1)"),
    ("path = f'/dev/shm/{1}'", "names /dev/shm (line 1)"),
    ("shell = get_ipython()\nshell.ast_transformers.append(1)", "uses get_ipython().ast_transformers (line 2)"),
    ("get_ipython().run_cell = None", "assigns to get_ipython().run_cell (line 1)"),
    ("eval('1')", "uses eval (line 1)"),
    ("import runpy\nrunpy.run_path('x')", "uses runpy (line 1)"),
    ("from code import InteractiveInterpreter", "uses code (line 1)"),
    ("open(torch.__file__).read()", "uses __file__ (line 1)"),
    ("group._get_backend(x.device)", "uses _get_backend (line 1)"),
    ("import utils.trace.recorder", "uses utils.trace.recorder (line 1)"),
    ("from grader.sandbox import parcel", "uses grader.sandbox (line 1)"),
    ("!rm -rf /", "runs a shell command (line 1)"),
    ("%%bash\nfor i in 1 2; do echo $i; done", "runs a shell command (line 1)"),
    ("x = 1\n%%writefile grader.py", "writes a file grader.py (line 2)"),
    ("%%time\nimport socket", "uses socket (line 2)"),
    ("%%capture\n%%time\nimport socket", "uses socket (line 3)"),
    ("files = !ls", "runs a shell command (line 1)"),
    ("!!ls", "runs a shell command (line 1)"),
    ("files = %sx ls", "runs a shell command (line 1)"),
    (">>> import socket", "uses socket (line 1)"),
    ("%%script bash\nls", "runs a shell command (line 1)"),
    ("if True:\n    !ls", "runs a shell command (line 2)"),
    ("this is not Python (", "cannot be read as Python (line 1)"),
    ("x = 1\ndef broken(:\n  pass", "cannot be read as Python (line 2)"),
    ("\x00", "cannot be read as Python (line 1)"),
    ("x = " + "(" * 5000 + ")" * 5000, "cannot be read as Python (line 1)"),
])
def test_what_cheats_need_is_named(source, what):
    assert any(line.startswith("cell 1 (“") and line.endswith(f"”) {what}") for line in lines_of(source))


@pytest.mark.parametrize("source", [
    "def ring_time(compile, signal, time):\n    signal.value = time.x\n    return compile",
    "import math\n%matplotlib inline\nx?\nmath.sqrt(2)",
    "%%writefile my_helper.py\nimport socket",
    "model.eval()\nmodel.compile()\nresult = re_module.exec",
    "import torch\ntorch.set_num_threads(1)\ntorch.manual_seed(0)",
    "import matplotlib.pyplot as plt\nplt.rcParams['figure.dpi'] = 100\nax.figure.dpi = 3",
    "class Ring:\n    def __init__(self):\n        self.exit = 1\n    def __call__(self):\n        return self.exit",
    "get_ipython().run_line_magic('matplotlib', 'inline')",
    "counts = dict.fromkeys(range(3), 0)\ntext = str.join(', ', 'abc')",
    "",
])
def test_honest_code_is_left_alone(source):
    assert lines_of(source) == []


def test_imports_of_one_cell_count_in_the_others():
    assert lines_of("import os as system", "system.kill(1, 9)") == ["cell 2 (“system.kill(1, 9)”) uses os.kill (line 1)"]


def test_one_line_a_finding_and_not_too_many_a_cell():
    assert lines_of("import gc\n" + "gc.get_objects()\n" * 50) == ["cell 1 (“import gc”) uses gc.get_objects (line 2)"]
    many = "\n".join(f"torch.function_{i} = None" for i in range(50))
    assert len(lines_of(many)) == LINES_A_CELL


def test_markdown_is_not_looked_at():
    assert suspicions(new_notebook(cells=[new_markdown_cell("import ctypes")])) == []


@pytest.mark.parametrize("path", [*NOTEBOOKS, *CONTROLS], ids=lambda path: f"{path.parent.parent.name}-{path.stem}")
def test_honest_notebooks_raise_no_suspicion(path):
    released = ROOT / "notebooks" / path.stem / f"{path.stem}.ipynb"
    assert suspicions(nbformat.read(path, as_version=4),
                      nbformat.read(released, as_version=4) if released.exists() else None) == []


def test_what_came_with_the_unit_is_told_only_when_it_was_changed():
    given, changed = (new_notebook(cells=[new_code_cell(f"import subprocess{more}")]) for more in ("", "  # mine"))
    assert suspicions(given, given) == [] and len(suspicions(changed, given)) == 1
    used = new_notebook(cells=[*given.cells, new_code_cell('subprocess.run(["ls"])')])
    alarm, = suspicions(used, given)  # the import came with the unit, its use did not
    assert "uses subprocess" in alarm.text


@pytest.mark.parametrize("tag", ["raises-exception", "skip-execution", "watch"])
def test_a_tag_on_a_marked_cell_is_told_and_on_another_is_not(tag):
    cells = [new_code_cell("pass", metadata={"tags": [tag], "nbgrader": {"grade_id": "ring_time_check", "grade": True}}),
             new_code_cell("pass", metadata={"tags": [tag]}), new_code_cell("pass", metadata={"tags": [tag], "nbgrader": 5})]
    alarm, = suspicions(new_notebook(cells=cells))
    assert alarm == Alarm(UNUSUAL, f"cell 1 (“pass”) has the tag {tag!r}", "ring_time_check")


def test_a_slip_in_syntax_is_no_code_that_no_exercise_needs():
    alarm, = suspicions(new_notebook(cells=[new_code_cell("def f(:")]))
    assert alarm.kind == NO_PYTHON
