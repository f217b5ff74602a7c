"""A look at a submission's source for what no honest solution needs. It tells a person where to look, and costs nothing."""

import ast
import builtins
import re
import sys
from collections.abc import Iterator

from nbformat import NotebookNode

from grader.course.alarms import NO_PYTHON, UNUSUAL, Alarm
from grader.course.cell import in_words, is_check, is_solution, name_of
from grader.course.source import MAX_LETTERS, UNPARSABLE, as_run

LINES_A_CELL = 12
UNREAD = "cannot be read as Python"
KNOWN = {"torch": "torch", "dist": "torch.distributed", "time": "time", "check": "grader.checks",
         "hunted": "utils.models.hunted", "parts": "utils.models.hunted_mesh"}  # by the set-up cells

# Modules of which any use is told, and single names of other modules.
MODULES = ("atexit", "_thread", "cloudpickle", "code", "codeop", "copyreg", "ctypes", "http", "importlib", "mmap",
           "multiprocessing", "pickle", "pkgutil", "pty", "requests", "runpy", "signal", "socket", "sqlite3", "subprocess",
           "threading", "urllib", "builtins", "linecache",
           "grader.calling", "grader.course", "grader.evidence", "grader.exercises", "grader.judging", "grader.sandbox",
           "utils.ranks.channel", "utils.ranks.launcher", "utils.ranks.payload", "utils.ranks.place",
           "utils.ranks.worker", "utils.trace.calls", "utils.trace.recorder", "utils.trace.spans",
           "utils.trace.traced_group", "utils.trace.wire",
           "torch._C", "torch.library", "torch.ops", "torch.overrides", "torch.multiprocessing",
           "torch.distributed.TCPStore", "torch.distributed.FileStore", "torch.utils._python_dispatch")
NAMES = ("gc.get_objects", "gc.get_referrers", "gc.get_referents", "sys._getframe", "sys._current_frames", "sys.exit",
         "sys.excepthook", "sys.meta_path", "sys.modules", "sys.path_hooks", "sys.setprofile", "sys.settrace",
         "sys.path", "inspect.currentframe", "inspect.stack", "inspect.getouterframes", "inspect.getsource",
         "inspect.getsourcelines",
         "os._exit", "os.abort", "os.environ", "os.fork", "os.forkpty", "os.getenv", "os.getppid", "os.kill", "os.killpg",
         "os.popen", "os.putenv", "os.setsid", "os.system", "os.walk", "os.write",
         "asyncio.create_subprocess_exec", "asyncio.create_subprocess_shell")
STARTS = re.compile(r"os\.(exec|spawn|posix_spawn)|torch\.distributed\..*_get_default_store")
BUILTINS = ("__import__", "compile", "eval", "exec", "exit", "quit", "globals")
PLAIN_METHOD = re.compile(r"builtins\.(?!type\.|object\.)\w+\.(?!__)\w+")  # dict.fromkeys, str.join
ATTRIBUTES = ("_get_backend", "_get_default_store", "_untraced", "__closure__", "cell_contents", "__code__", "__file__",
              "__globals__", "__loader__", "__spec__", "__subclasses__", "f_back", "f_globals", "f_locals", "gi_frame",
              "tb_frame")
METHODS = ("__del__", "__eq__", "__ne__", "__reduce__", "__reduce_ex__", "__setstate__", "__torch_dispatch__",
           "__torch_function__")
SHELL = "get_ipython()"
SYSTEM = ("getoutput", "system")  # !ls, as Python gets to see it
HONEST_SHELL = ("magic", "run_cell_magic", "run_line_magic", *SYSTEM)  # what it is honestly asked for, or told of by itself
SHELLS = ("bash", "sh", "script", "perl", "ruby", "system", "sx")
TAGS = ("raises-exception", "skip-execution", "watch")  # that would decide whether and how a cell runs
PATHS = re.compile(r"/proc\b|/dev/shm\b|/course\b|gradebook\b|\bsolutions/")
OWN = frozenset(sys.stdlib_module_names) | {
    "grader", "numpy", "safetensors", "sitecustomize", "torch", "usercustomize", "utils"}

Finding = tuple[int, str]  # line, what


def suspicions(notebook: NotebookNode, released: NotebookNode | None = None) -> list[Alarm]:
    """One alarm for each thing found: the cell, what, and where. Never raises.

    released: as students got it; its cells, where they are unchanged, are not theirs.
    """
    given = {cell.source for cell in released.cells} if released else set()
    cells = [(number, cell) for number, cell in enumerate(notebook.cells, 1) if cell.cell_type == "code"]
    trees = [_parsed(cell.source) for _, cell in cells]
    aliases = dict(KNOWN)
    for tree, _ in trees:
        aliases.update(_aliases(tree))
    alarms = []
    for (number, cell), (tree, unread) in zip(cells, trees, strict=True):
        first: dict[str, int] = {}
        for line, what in () if cell.source in given else sorted([*unread, *_findings(tree, aliases)]):
            first.setdefault(what, line)
        told = [(UNUSUAL, f"has the tag {tag!r}") for tag in _tags(cell)]
        told += [(NO_PYTHON if what == UNREAD else UNUSUAL, f"{what} (line {line})")
                 for what, line in list(first.items())[:LINES_A_CELL]]
        alarms += [Alarm(kind, f"{in_words(cell, number)} {text}", name_of(cell)) for kind, text in told]
    return alarms


def _parsed(source: str) -> tuple[ast.Module, list[Finding]]:
    """What Python gets to see of a cell once IPython has had it; and that it can make nothing of it, if so."""
    if len(source) > MAX_LETTERS:
        return ast.Module([], []), [(1, f"has more than {MAX_LETTERS:,} letters and was not read")]
    try:
        return ast.parse(as_run(source)), []
    except UNPARSABLE as error:
        return ast.Module([], []), [(getattr(error, "lineno", None) or 1, UNREAD)]


def _tags(cell: NotebookNode) -> list[str]:
    tags = cell.metadata.get("tags", [])
    marked = is_solution(cell) or is_check(cell)
    return [tag for tag in TAGS if marked and isinstance(tags, list) and tag in tags]


def _aliases(tree: ast.AST) -> dict[str, str]:
    """Imported name -> where it comes from; and names of the notebook's shell."""
    aliases = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.split(".")[0]
                aliases[alias.asname or top] = alias.name if alias.asname else top
        elif isinstance(node, ast.ImportFrom) and node.module:
            aliases |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Assign) and _dotted(node.value, {}) == SHELL:
            aliases |= {target.id: SHELL for target in node.targets if isinstance(target, ast.Name)}
    return aliases


def _findings(tree: ast.AST, aliases: dict[str, str]) -> Iterator[Finding]:
    for node in ast.walk(tree):
        yield from ((getattr(node, "lineno", 0), what) for what in _look(node, aliases))


def _look(node: ast.AST, aliases: dict[str, str]) -> Iterator[str]:
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield from _use(alias.name)
    elif isinstance(node, ast.ImportFrom) and node.module:
        for alias in node.names:
            yield from _use(f"{node.module}.{alias.name}")
    elif isinstance(node, (ast.Name, ast.Attribute)):
        yield from _named(node, aliases)
    elif isinstance(node, ast.Call):
        yield from _called(node, aliases)
    elif isinstance(node, ast.ClassDef):
        yield from ("subclasses torch.Tensor" for base in node.bases if _dotted(base, aliases) == "torch.Tensor")
    elif isinstance(node, ast.FunctionDef) and node.name in METHODS:
        yield f"defines {node.name}"
    elif isinstance(node, ast.Constant) and isinstance(node.value, str) and (path := PATHS.search(node.value)):
        yield f"names {path[0]}"


def _named(node: ast.Name | ast.Attribute, aliases: dict[str, str]) -> Iterator[str]:
    dotted = _dotted(node, aliases)
    if isinstance(node, ast.Attribute) and isinstance(node.ctx, (ast.Store, ast.Del)):
        if dotted:
            yield f"assigns to {dotted}"
    elif isinstance(node.ctx, ast.Load):
        yield from _use(dotted)
    if isinstance(node, ast.Attribute) and node.attr in ATTRIBUTES:
        yield f"uses {node.attr}"
    elif isinstance(node, ast.Name) and node.id == "__builtins__":
        yield "uses __builtins__"


def _called(node: ast.Call, aliases: dict[str, str]) -> Iterator[str]:
    name = node.func.id if isinstance(node.func, ast.Name) else ""
    if _dotted(node.func, aliases).startswith(f"{SHELL}."):
        yield from _magic(node.func.attr, [a.value for a in node.args if isinstance(a, ast.Constant)])
    if name in BUILTINS and name not in aliases:
        yield f"uses {name}"
    elif name in ("setattr", "delattr") and node.args and (dotted := _dotted(node.args[0], aliases)):
        what = node.args[1].value if len(node.args) > 1 and isinstance(node.args[1], ast.Constant) else "..."
        yield f"assigns to {dotted}.{what}"


def _magic(method: str, words: list[str]) -> Iterator[str]:
    """That a magic runs another program, or writes over a file of ours."""
    name, line = ([str(word).lstrip("%") for word in words] + ["", ""])[:2]
    if method in SYSTEM or name in SHELLS:
        yield "runs a shell command"
    elif name == "writefile" and line and (file := line.split()[-1]).split("/")[0].removesuffix(".py") in OWN:
        yield f"writes a file {file}"


def _use(dotted: str) -> Iterator[str]:
    """That a name is used which the lists hold."""
    name = dotted.removeprefix(f"{SHELL}.").split(".")[0]
    if PLAIN_METHOD.fullmatch(dotted):
        return
    if dotted.startswith(f"{SHELL}.") and name not in HONEST_SHELL:
        yield f"uses {SHELL}.{name}"
    elif listed := next((entry for entry in (*MODULES, *NAMES) if f"{dotted}.".startswith(f"{entry}.")), None):
        yield f"uses {listed}"
    elif STARTS.match(dotted):
        yield f"uses {dotted}"


def _dotted(node: ast.AST, aliases: dict[str, str]) -> str:
    """"torch.distributed.send" for dist.send; "" for what is neither imported, nor a builtin type's, nor the shell's."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    root = ""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "get_ipython":
        root = SHELL
    elif isinstance(node, ast.Name):
        root = aliases.get(node.id, "")
        if not root and parts and isinstance(getattr(builtins, node.id, None), type):
            root = f"builtins.{node.id}"
    return ".".join([root, *reversed(parts)]) if root else ""
