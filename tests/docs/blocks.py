"""The fenced code blocks of the documentation."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("**/*.md"), *(ROOT / "examples").glob("**/*.md")])
_FENCE = re.compile(r"^```(\w+)?([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """One block: where it starts, its language, the words after it, and its text."""

    page: Path
    line: int
    language: str
    options: str
    text: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks(page: Path) -> list[Block]:
    """The blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    return [
        Block(page, text.count("\n", 0, match.start()) + 1, match[1] or "", match[2].strip(), match[3])
        for match in _FENCE.finditer(text)
    ]


def commands(block: Block) -> list[str]:
    """The command lines of a console block, without prompt and comment."""
    lines = [line.removeprefix("$ ") for line in block.text.splitlines() if line.startswith("$ ")]
    return [line.partition("  #")[0].strip() for line in lines]
