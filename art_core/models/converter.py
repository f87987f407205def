"""llama.cpp's converter from a model directory to a GGUF file: finding it, and running it to its end.

It is a foreign program (``convert_hf_to_gguf.py``); what it wrote is checked by who asked for it.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from art_core.errors import ArtError, InputError
from art_core.process import Child

__all__ = ["OUTTYPES", "convert_to_gguf", "find_converter"]

OUTTYPES: Mapping[str, str] = {"float32": "f32", "float16": "f16", "bfloat16": "bf16", "q8_0": "q8_0"}
"""Precision → what the converter calls it."""

NAMES = ("convert_hf_to_gguf.py", "convert-hf-to-gguf")
CONVERT_SECONDS = 7200


def find_converter(given: Path | None = None) -> tuple[str, ...]:
    """The command that converts: ``given``, or the first of ``NAMES`` on the PATH.

    A Python script is run by this interpreter, which has the torch, transformers and gguf packages it needs.

    Raises:
        InputError: there is none; the message says what to install.
    """
    found = shutil.which(given) if given else next(filter(None, map(shutil.which, NAMES)), None)
    if given and given.is_file() and given.suffix == ".py":
        found = str(given)
    if found is None and given:
        raise InputError(f"converter {str(given)!r} is not a Python script or a program that can be executed")
    if found is None:
        raise InputError(
            f"a GGUF file is made by llama.cpp's {NAMES[0]}, which is not on the PATH; install llama.cpp (the script is in "
            "its source tree) and name the script with --converter PATH"
        )
    path = str(Path(found).absolute())
    return (sys.executable, path) if path.endswith(".py") else (path,)


def convert_to_gguf(command: tuple[str, ...], model: Path, target: Path, *, dtype: str) -> None:
    """Run the converter on the directory ``model``; it writes the file ``target``. ``dtype`` is a key of ``OUTTYPES``.

    Raises:
        ArtError: it failed, took longer than two hours, or wrote no file; the message ends with what it said last.
    """
    words = (*command, str(model), "--outfile", str(target), "--outtype", OUTTYPES[dtype])
    with Child(words, cwd=target.parent) as child:
        code = child.wait(CONVERT_SECONDS)
        if code is None:
            raise ArtError(f"the converter {command[-1]!r} did not end within {CONVERT_SECONDS} s")
    if code != 0 or not target.is_file():
        said = child.guarded.stderr_tail(3) or "nothing"
        raise ArtError(f"the converter {command[-1]!r} wrote no GGUF file (exit code {code}); it said: {said}")
