"""What judges said before, by what they were asked: a run that goes on pays for nothing twice."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from art_core.disk import write_whole
from art_core.messages import canonical_json

__all__ = ["JudgeCache", "key_of"]


def key_of(asked: Any) -> str:
    """The SHA-256 of a plain value in canonical JSON."""
    return hashlib.sha256(canonical_json(asked).encode("utf-8", "surrogatepass")).hexdigest()


class JudgeCache:
    """In memory, and in a directory if one is given: a file for each answer, written in one move."""

    def __init__(self, directory: Path | None = None) -> None:
        self._directory = directory
        self._known: dict[str, Mapping[str, Any]] = {}

    def get(self, key: str) -> Mapping[str, Any] | None:
        """What was put there; None if nothing was, or its file cannot be read."""
        if key not in self._known and self._directory is not None:
            try:
                read = json.loads(self._path(key).read_text(encoding="utf-8"))
            except (OSError, ValueError):
                return None
            if isinstance(read, Mapping):
                self._known[key] = read
        return self._known.get(key)

    def put(self, key: str, value: Mapping[str, Any]) -> None:
        self._known[key] = value
        if self._directory is None:
            return
        write_whole(self._path(key), json.dumps(value, ensure_ascii=False))

    def _path(self, key: str) -> Path:
        assert self._directory is not None
        return self._directory / key[:2] / f"{key[2:]}.json"
