"""Files that somebody else put there: opened as regular files of bounded size, and never through a link."""

import contextlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

KINDS = {stat.S_IFREG: "a regular file", stat.S_IFDIR: "a folder", stat.S_IFLNK: "a symbolic link",
         stat.S_IFIFO: "a named pipe", stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device"}
_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class BadFile(RuntimeError):
    """What lies at a path cannot be read as what was expected there. words: the same without the path."""

    def __init__(self, path: Path, words: str):
        super().__init__(f"{path} {words}")
        self.words = words


@dataclass(frozen=True)
class Entry:
    """What lies in a folder under a name. A link is not followed. changed_ns: when its content last changed; names: how many
    it has on this disk.
    """

    name: str
    kind: int
    changed_ns: int
    names: int

    @property
    def described(self) -> str:
        """Such as "a folder"."""
        return KINDS.get(self.kind, "an unknown thing")

    def __str__(self) -> str:
        return self.name if self.kind == stat.S_IFREG else f"{self.name} ({self.described})"


def entries(folder: Path, root: Path) -> list[Entry]:
    """All that lies in a folder, by name. No link below `root` is followed.  Raises: BadFile."""
    with _folder(folder, root) as descriptor, _in_words(folder), os.scandir(descriptor) as found:
        facts = [(entry.name, entry.stat(follow_symlinks=False)) for entry in found]
    return sorted((Entry(name, stat.S_IFMT(fact.st_mode), fact.st_mtime_ns, fact.st_nlink) for name, fact in facts),
                  key=lambda entry: entry.name)


def size_of(path: Path, root: Path, limit: int) -> int:
    """The size in bytes of a regular file that can be read and has at most `limit`.  Raises: BadFile."""
    with _regular(path, root, limit) as (_, size):
        return size


def read(path: Path, root: Path, limit: int) -> bytes:
    """The content of a regular file of at most `limit` bytes. No link below `root` is followed.  Raises: BadFile."""
    with _regular(path, root, limit) as (descriptor, size), _in_words(path), open(descriptor, "rb", closefd=False) as file:
        content = file.read(size + 1)
    if len(content) != size:
        raise BadFile(path, f"changed while it was read (from {size:,} bytes): try again when nobody writes to it")
    return content


@contextlib.contextmanager
def _regular(path: Path, root: Path, limit: int) -> Iterator[tuple[int, int]]:
    """(a descriptor of the file, its size)"""
    with _folder(path.parent, root) as parent:
        descriptor = _opened(path, parent, stat.S_IFREG)
    try:
        size = os.fstat(descriptor).st_size
        if size > limit:
            raise BadFile(path, f"has {_amount(size)}, more than the {_amount(limit)} that are read: ask for a smaller "
                                "file, or take a notebook's outputs out (`jupyter nbconvert --clear-output --inplace`)")
        yield descriptor, size
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _folder(path: Path, root: Path) -> Iterator[int]:
    """A descriptor of the folder. It is reached from `root` step by step, so that nobody can put a link in between."""
    with _in_words(root):
        descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        at = root
        for name in path.relative_to(root).parts:
            at /= name
            outer, descriptor = descriptor, _opened(at, descriptor, stat.S_IFDIR)
            os.close(outer)
        yield descriptor
    finally:
        os.close(descriptor)


def _opened(path: Path, parent: int, wanted: int) -> int:
    """Looked at before it is opened, for to open a device can do something; and after, for it can have changed."""
    with _in_words(path):
        _expect(path, os.stat(path.name, dir_fd=parent, follow_symlinks=False), wanted)
        descriptor = os.open(path.name, _FLAGS, dir_fd=parent)
        try:
            _expect(path, os.fstat(descriptor), wanted)
        except BaseException:
            os.close(descriptor)
            raise
    return descriptor


def _expect(path: Path, found: os.stat_result, wanted: int) -> None:
    kind = stat.S_IFMT(found.st_mode)
    if kind != wanted:
        try_next = "links are not followed, so put what it points to in its place" if kind == stat.S_IFLNK else (
            "delete it, or put what was handed in in its place")
        raise BadFile(path, f"is {KINDS.get(kind, 'an unknown thing')}, and {KINDS[wanted]} was expected: {try_next}")


@contextlib.contextmanager
def _in_words(path: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise BadFile(path, "is not there") from None
    except PermissionError:
        raise BadFile(path, "cannot be read by you: change its permissions (`chmod u+rX`)") from None
    except OSError as error:
        raise BadFile(path, f"cannot be read: {error.strerror or error}") from None


def _amount(size_bytes: int) -> str:
    return f"{size_bytes >> 20:,} MiB" if size_bytes >= 1 << 20 else f"{size_bytes:,} bytes"
