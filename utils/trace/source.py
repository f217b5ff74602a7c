"""Lines of code as a reader of the notebook knows them: "Cell In[5], line 3"."""

import linecache
import sys
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Line:
    """One line of somebody's program."""

    place: str
    number: int
    function: str
    code: str

    def __str__(self) -> str:
        return f"{self.place}, line {self.number}" + (f": {self.code}" if self.code else "")


def remember(name: str, source: str) -> str:
    """`name` as the file of code that is in no file, so that messages can show its lines."""
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    return name


def to_line(where: list | tuple | None) -> Line | None:
    """A Line for [file, line number, function], read in the process that knows the notebook's cells."""
    if not where:
        return None
    filename, number, function = where
    return Line(place_name(filename), number, function, linecache.getline(filename, number).strip())


def place_name(filename: str) -> str:
    """"Cell In[5]" for a cell of the running notebook, else the file's name."""
    shell = running_shell()
    named = shell.compile.format_code_name(filename) if shell is not None else None
    return " ".join(named) if named else Path(filename).name


def running_shell():
    """The running IPython shell, without importing IPython where it is not in use."""
    ipython = sys.modules.get("IPython")
    return ipython.get_ipython() if ipython is not None else None
