"""Folders with one file each on the filesystem server, all of whose tools are offered; a question takes two calls."""

from __future__ import annotations

from art_core.randomness import rng

from .names import BIRDS, FIRST, LAST, node_server
from .world import RULER, Question, World

__all__ = ["files"]


def files() -> World:
    draw = rng("worlds", "files")
    folders = [f"{first.lower()}-{last.lower()}" for first in FIRST for last in LAST]
    draw.shuffle(folders)
    texts, questions = {}, []
    for number, folder in enumerate(folders):
        name, code = f"{draw.choice(BIRDS).lower()}.txt", str(2000 + 31 * number)
        texts[f"{folder}/{name}"] = f"The code of this folder is {code}.\n"
        questions.append(
            Question(
                text=f"Which code is in the only file of the folder {folder}?",
                difficulty=3,
                calls=(("list_directory", {"path": folder}), ("read_text_file", {"path": f"{folder}/{name}"})),
                fact=code,
                answer=f"The code is {code}.",
            )
        )
    return World(
        verb=lambda home: ["mcp", f"{node_server(home, 'filesystem')} {{workdir}}"],
        questions=questions,
        files=texts,
        options=(*RULER, "--max-turns", "4"),
    )
