"""From records to the rows that are trained, to those held out, and to the rows of each step.

A chat is replayed as a session in which the model said what is written: its rows hold exactly the ids the sampler would
have been prompted with, and those it would have had to sample. Where the chat template renders the history differently
after a reply, a new row begins, as a fork would. A stored rollout gives the rows it was sampled in. All are trained at
temperature 1.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from art_core.disk import write_whole
from art_core.errors import InputError, NotTrainable
from art_core.inference.local_policy import build_prompt
from art_core.messages import canonical_json
from art_core.randomness import rng
from art_core.rendering.renderer import Renderer
from art_core.trajectory.graph import DEFAULT_ADAPTER, PolicyVersion, Turn
from art_core.trajectory.recorder import Recorder
from art_core.trajectory.samples import TrainingSample, samples_of

from .records import MISSHAPEN, Chat, Record, Records, Rollout

__all__ = ["MEANINGS", "Prepared", "Rows", "batch", "chat_rows", "prepare", "steps_per_epoch"]

MEANINGS = {
    "cut": "cut off while they were written",
    "superseded": "replaced by a later record of the same rollout",
    "failed": "rollouts that ended by an error",
    "unscored": "rollouts without a reward",
    "below_min_reward": "rollouts below the reward asked for",
    "not_best": "rollouts that are not among the best of their group",
    "nothing_to_train": "with no message or token to train",
    "refused": "that the chat template does not take",
    "over_long": "rows longer than a row may be",
}
"""Why something was left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """What is trained, and what is held out."""

    train: tuple[TrainingSample, ...]
    validation: tuple[TrainingSample, ...] = ()

    def write(self, directory: Path) -> None:
        """One JSONL file for each, whole or not at all."""
        for name in ("train", "validation"):
            lines = (json.dumps(_to_record(row)) + "\n" for row in getattr(self, name))
            write_whole(directory / f"{name}.jsonl", lines)

    @classmethod
    def read(cls, directory: Path) -> Rows:
        """What ``write`` wrote.

        Raises:
            InputError: a file is missing or damaged.
        """
        found = {}
        for name in ("train", "validation"):
            path = directory / f"{name}.jsonl"
            try:
                lines = path.read_text(encoding="utf-8").splitlines()
                found[name] = tuple(_from_record(json.loads(line)) for line in lines)
            except (OSError, ValueError, KeyError, TypeError) as error:
                raise InputError(f"{str(path)!r} cannot be read: {error!r}") from error
        return cls(**found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """Rows, and the account of the records they were made of."""

    rows: Rows
    left_out: Counter[str] = field(default_factory=Counter)
    """By reason; see ``MEANINGS``."""
    forked: int = 0
    """Chats that became several rows because the template renders their history differently."""
    reason: str = ""
    """Why the first record that was refused was."""


def prepare(
    records: Records, renderer: Renderer, *, max_row_tokens: int, validation_share: float, seed: int
) -> Prepared:
    """The rows of the records kept; whole records are held out, equal ones and siblings of one scenario together.

    Raises:
        InputError: nothing is left to train on, or too little to hold something out.
    """
    left_out = Counter(records.left_out)
    forked, reason = 0, ""
    units: dict[str, list[TrainingSample]] = {}
    for record in records.kept:
        try:
            own = _rows(record, renderer)
        except NotTrainable:
            left_out["nothing_to_train"] += 1
            continue
        except MISSHAPEN as error:
            raise InputError(
                f"{record.source} holds a message or a tool of another shape than the API's, or half a character: {error!r}"
            ) from error
        except InputError as error:
            left_out["refused"] += 1
            reason = reason or f"{record.source}: {error}"
            continue
        forked += isinstance(record, Chat) and len(own) > 1
        kept = [row for row in own if len(row.token_ids) <= max_row_tokens]
        left_out["over_long"] += len(own) - len(kept)
        if kept:
            units.setdefault(_unit(record), []).extend(kept)
    if not units:
        told = "; ".join(f"{count} {MEANINGS[name]}" for name, count in (+left_out).items())
        raise InputError(f"there is nothing to train on: {told or 'no records'}{f' ({reason})' if reason else ''}")
    held = _held_out(list(units), validation_share, seed)
    rows = Rows(
        train=tuple(row for unit, members in units.items() if unit not in held for row in members),
        validation=tuple(row for unit, members in units.items() if unit in held for row in members),
    )
    return Prepared(rows=rows, left_out=+left_out, forked=forked, reason=reason)


def chat_rows(chat: Chat, renderer: Renderer) -> list[TrainingSample]:
    """The rows of a chat: one, or one more wherever the template renders its history differently.

    Raises:
        NotTrainable: no message is to be trained.
        InputError: the template refuses the chat.
    """
    recorder = Recorder()
    for index, message in enumerate(chat.messages):
        if not chat.trained[index]:
            continue
        history = chat.messages[:index]
        prompt = build_prompt(renderer, recorder, history, chat.tools)
        following = chat.messages[index + 1] if index + 1 < len(chat.messages) else None
        ids = renderer.completion(history, message, chat.tools, following=following)
        if ids is None:
            raise InputError("the chat template does not show where the reply begins or ends")
        turn = Turn(
            id=recorder.next_id(),
            completion_ids=tuple(ids),
            logprobs=(0.0,) * len(ids),
            reply=message,
            tools=chat.tools,
            **prompt.turn_fields(),
        )
        recorder.add(turn)
    return samples_of(recorder.graph, rollout_id=chat.source)


def steps_per_epoch(rows: int, batch_rows: int) -> int:
    """Updates that see every row once."""
    return -(-rows // batch_rows)


def batch(rows: int, *, batch_rows: int, seed: int, step: int) -> list[int]:
    """The indices of the rows of step ``step`` (counted from 1), in seeded epochs: a function of its arguments."""
    epoch, position = divmod(step - 1, steps_per_epoch(rows, batch_rows))
    order = list(range(rows))
    rng("sft", seed, epoch).shuffle(order)
    return order[position * batch_rows : (position + 1) * batch_rows]


def _rows(record: Record, renderer: Renderer) -> list[TrainingSample]:
    if isinstance(record, Chat):
        return chat_rows(record, renderer)
    return [replace(row, temperature=1.0, adapter=DEFAULT_ADAPTER) for row in record.trajectory.samples()]


def _unit(record: Record) -> str:
    """What is held out or trained on as a whole."""
    if isinstance(record, Rollout):
        return f"scenario {record.trajectory.scenario.id}"
    content = [[message.to_record() for message in record.messages], [tool.to_wire() for tool in record.tools]]
    return f"chat {hashlib.sha256(canonical_json(content).encode('utf-8', 'surrogatepass')).hexdigest()}"


def _held_out(units: list[str], share: float, seed: int) -> set[str]:
    if not share:
        return set()
    if len(units) < 2:
        raise InputError(
            f"{len(units)} record is too few to hold out a share of {share:g} for validation; give more, or set "
            "validation_share to 0"
        )
    order = sorted(units)
    rng("sft validation", seed).shuffle(order)
    return set(order[: min(max(1, round(share * len(units))), len(units) - 1)])


def _to_record(row: TrainingSample) -> dict[str, Any]:
    edges = np.flatnonzero(np.diff(np.concatenate([[0], row.mask.astype(np.int8), [0]]))).reshape(-1, 2)
    return {"from": row.rollout_id, "ids": row.token_ids.tolist(), "trained": edges.tolist()}


def _from_record(record: dict[str, Any]) -> TrainingSample:
    ids = np.asarray(record["ids"], dtype=np.int64)
    mask = np.zeros(len(ids), dtype=np.bool_)
    for begin, end in record["trained"]:
        mask[begin:end] = True
    return TrainingSample(
        token_ids=ids,
        mask=mask,
        logprobs=np.zeros(len(ids), dtype=np.float32),
        temperature=1.0,
        version=PolicyVersion(DEFAULT_ADAPTER, 0),
        adapter=DEFAULT_ADAPTER,
        rollout_id=record["from"],
    )
