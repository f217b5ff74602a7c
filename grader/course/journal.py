"""What marking has done so far, on disk, so that it can be killed at any moment and go on: nothing lost, nothing twice.

A folder a unit: `pending/` holds results that are not in the gradebook yet, `kept/` says what is in it: a file a student,
named by a digest of the student's name, which can be any. Every file is complete from the moment it is there.
"""

import contextlib
import fcntl
import functools
import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Result:
    """One marked submission. digest: of what was marked; code: of the program that marked it; asked: what of it, and on
    which cases, where that was said."""

    student: str
    unit: str
    digest: str
    code: str
    notebook: str
    record: dict[str, Any]
    asked: str = ""

    @property
    def points(self) -> dict[str, float]:
        return {name: verdict["points"] for name, verdict in self.record["exercises"].items()}


@functools.cache
def code_digest() -> str:
    """A short name for the course's code: marks of two versions must not be mixed. The instructor's settings are none."""
    paths = sorted({*ROOT.glob("utils/**/*.py"), *ROOT.glob("grader/**/*.py"), *ROOT.glob("grader/**/*.html"),
                    *ROOT.glob("grader/**/*.toml")}
                   - {ROOT / "grader" / "nbgrader_config.py"})
    return digest_of(*(f"{path.relative_to(ROOT)}\0".encode() + path.read_bytes() for path in paths))[:16]


class Busy(RuntimeError):
    """Another process is writing."""


class Journal:
    """See the module's first line."""

    def __init__(self, folder: Path):
        self._folder = folder

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """One writer at a time.  Raises: Busy."""
        self._folder.mkdir(parents=True, exist_ok=True)
        with open(self._folder / ".lock", "w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise Busy(f"another autograde is at work in {self._folder}: wait for it, or end it") from None
            for remains in (self._folder / "staging", *self._folder.glob("*/.*.part")):  # of one that was killed
                shutil.rmtree(remains) if remains.is_dir() else remains.unlink(missing_ok=True)
            for path in self._folder.glob("*/*.json"):
                if not re.fullmatch(r"[0-9a-f]{64}", path.stem):  # of an earlier version, which used the student's name
                    path.replace(self._file(path.parent.name, path.stem))
            yield

    @contextlib.contextmanager
    def staging(self) -> Iterator[Path]:
        """A folder to prepare files in, on the same disk as the journal."""
        (self._folder / "staging").mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self._folder / "staging") as folder:
            yield Path(folder)

    def pending_file(self, student: str) -> Path:
        return self._file("pending", student)

    def _file(self, kind: str, student: str) -> Path:
        return self._folder / kind / f"{hashlib.sha256(os.fsencode(student)).hexdigest()}.json"

    def put(self, result: Result) -> None:
        write_whole(self.pending_file(result.student), json.dumps(asdict(result)))

    def pending(self, student: str, digest: str, code: str, asked: str = "") -> Result | None:
        """A result that still waits for the gradebook, if it is of just this submission, release, program and demand."""
        try:
            result = Result(**json.loads(self.pending_file(student).read_text()))
            whole = isinstance(result.notebook, str) and all(type(p) in (int, float) for p in result.points.values())
        except (OSError, ValueError, TypeError, LookupError, AttributeError, RecursionError):
            return None
        same = (result.student, result.digest, result.code, result.asked) == (student, digest, code, asked)
        return result if whole and same else None

    def drop(self, student: str) -> None:
        self.pending_file(student).unlink(missing_ok=True)

    def is_kept(self, student: str, digest: str, gradebook: str) -> bool:
        """Whether the gradebook (its URL) holds the marks of just this submission and release."""
        try:
            kept = json.loads(self._file("kept", student).read_text())
            return kept == _kept(digest, gradebook)
        except (OSError, ValueError, RecursionError):
            return False

    def note_kept(self, result: Result, gradebook: str) -> None:
        write_whole(self._file("kept", result.student), json.dumps(_kept(result.digest, gradebook)))
        self.drop(result.student)


def _kept(digest: str, gradebook: str) -> dict[str, str]:
    return {"digest": digest, "gradebook": hashlib.sha256(gradebook.encode()).hexdigest()}  # a URL may hold a password


def write_whole(path: Path, text: str) -> None:
    """Write so that the file is there in full or not at all, whatever happens."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".part")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


def digest_of(*parts: bytes) -> str:
    """One short name for some contents."""
    whole = hashlib.sha256()
    for part in parts:
        whole.update(len(part).to_bytes(8, "little") + part)
    return whole.hexdigest()
