"""Files that a crash leaves whole: replaced in one move, or made longer by a whole line.

They are in UTF-8. A lone surrogate, which that cannot hold, is written as ``\\udc80``, in a JSON text its escape: it is read back as it was.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from pathlib import Path

__all__ = ["append_line", "write_whole"]

_LONE = "backslashreplace"
_lock = threading.Lock()


def write_whole(path: Path, text: str | Iterable[str]) -> None:
    """Make a file hold exactly this; whoever reads it finds what was there before or all of it. Its folder is made.

    Raises:
        OSError: the file cannot be written; what was there is left.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}.tmp")
    try:
        with draft.open("w", encoding="utf-8", errors=_LONE) as file:
            file.writelines([text] if isinstance(text, str) else text)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def append_line(path: Path, line: str) -> None:
    """Add one line, without its end, in one write. Its folder is made.

    A line begins where the last one ends, also where that has no newline (a person's editor left it out, or a crash cut it). Threads of
    one process may append at once; two processes must not.

    Raises:
        OSError: the file cannot be written; it is as it was.
    """
    data = line.encode(errors=_LONE) + b"\n"
    with _lock:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab+", buffering=0) as file:
            end = file.seek(0, os.SEEK_END)
            if end:
                file.seek(end - 1)
                if file.read(1) != b"\n":
                    data = b"\n" + data
            try:
                _write_all(file.fileno(), data)
            except OSError:
                file.truncate(end)
                raise


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
