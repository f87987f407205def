"""How large a model's stored weights are, and in which precision: read from its files without loading them or torch."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from art_core.errors import InputError

__all__ = ["stored_dtype", "weight_count"]

_KNOWN = ("float32", "bfloat16", "float16")


def weight_count(directory: Path) -> int:
    """The number of weights in a directory's safetensors files; for older formats, what their bytes would be in halves.

    Raises:
        InputError: a file is damaged.
    """
    files = sorted(directory.glob("*.safetensors"))
    if files:
        return sum(map(_count, files))
    return sum(file.stat().st_size // 2 for file in directory.glob("*.bin"))


def stored_dtype(directory: Path) -> str:
    """The precision a model's config.json says its weights are in; float32 where it says nothing or something else.

    Raises:
        InputError: config.json is damaged.
    """
    path = directory / "config.json"
    try:
        config: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        parts = [config, config.get("text_config") or {}]
        named = [str(part[key]) for part in parts for key in ("dtype", "torch_dtype") if part.get(key)]
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise InputError(f"{path} cannot be read: {error}") from error
    found = named[0].removeprefix("torch.") if named else ""
    return found if found in _KNOWN else "float32"


def _count(file: Path) -> int:
    """The weights a safetensors file holds: it begins with the length of its JSON header, in 8 bytes."""
    try:
        with file.open("rb") as stream:
            header = json.loads(stream.read(int.from_bytes(stream.read(8), "little")))
        return sum(math.prod(entry["shape"]) for name, entry in header.items() if name != "__metadata__")
    except (OSError, ValueError, KeyError, TypeError, MemoryError, OverflowError) as error:
        raise InputError(f"{str(file)!r} is not a safetensors file: {error}") from error
