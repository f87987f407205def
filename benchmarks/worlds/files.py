"""Folders with one file each on the filesystem server, all of whose tools are offered; a question takes one call or two."""

from __future__ import annotations

from art_core.randomness import rng

from .names import BIRDS, FIRST, LAST, node_server
from .world import RULER, Question, World

__all__ = ["files"]


def files() -> World:
    """Three kinds of questions: what a file says, which file is in a folder, and what the file in a folder says."""
    draw = rng("worlds", "files")
    folders = [f"{first.lower()}-{last.lower()}" for first in FIRST for last in LAST]
    draw.shuffle(folders)
    texts: dict[str, str] = {}
    questions = []
    for number, folder in enumerate(folders):
        name, code = f"{draw.choice(BIRDS).lower()}.txt", str(2000 + 31 * number)
        texts[f"{folder}/{name}"] = f"The code of this folder is {code}.\n"
        questions.append(_question(number % 3, folder, name, code))
    return World(
        verb=lambda home: ["mcp", f"{node_server(home, 'filesystem')} {{workdir}}"],
        questions=questions,
        files=texts,
        options=(*RULER, "--max-turns", "4"),
    )


def _question(kind: int, folder: str, name: str, code: str) -> Question:
    listing, reading = ("list_directory", {"path": folder}), ("read_text_file", {"path": f"{folder}/{name}"})
    found, told = f"The file is {name}.", f"The code is {code}."
    if kind == 0:
        text = f"What is the name of the file in the folder {folder}?"
        return Question(text=text, difficulty=1, calls=(listing,), fact=name, answer=found)
    if kind == 1:
        text = f"Which code does the file {folder}/{name} tell?"
        return Question(text=text, difficulty=1, calls=(reading,), fact=code, answer=told)
    text = f"Which code is in the only file of {folder}?"
    return Question(text=text, difficulty=3, calls=(listing, reading), fact=code, answer=told)
