"""Files in one stream of bytes (tar): how jobs enter the sandbox and evidence leaves it, with no shared folder."""

import io
import tarfile
from collections.abc import Mapping
from typing import BinaryIO


class Writer:
    """Writes files to a stream one by one; what is written stays, even if the writer dies before the end."""

    def __init__(self, stream: BinaryIO):
        self._stream = stream

    def add(self, name: str, content: bytes) -> None:
        entry = tarfile.TarInfo(name)
        entry.size = len(content)
        # by hand: tarfile's own stream keeps the last block back until it is closed
        self._stream.write(entry.tobuf(tarfile.GNU_FORMAT) + content + bytes(-len(content) % tarfile.BLOCKSIZE))
        self._stream.flush()

    def close(self) -> None:
        self._stream.write(bytes(2 * tarfile.BLOCKSIZE))
        self._stream.flush()


def to_bytes(files: Mapping[str, bytes]) -> bytes:
    """One stream of all `files`."""
    stream = io.BytesIO()
    writer = Writer(stream)
    for name, content in files.items():
        writer.add(name, content)
    writer.close()
    return stream.getvalue()


def from_bytes(data: bytes) -> dict[str, bytes]:
    """The whole files of a stream, by name; a stream that was cut off yields those before the cut."""
    files: dict[str, bytes] = {}
    try:
        with tarfile.open(fileobj=io.BytesIO(data), mode="r|") as tar:
            for entry in tar:
                content = tar.extractfile(entry) if entry.isreg() else None
                read = content.read() if content else b""
                if content and len(read) == entry.size:
                    files.setdefault(entry.name, read)
    except (tarfile.TarError, EOFError, ValueError):
        pass  # the end is missing
    return files
