"""T26 of supervised fine-tuning: every field of its configuration changes what a run computes or leaves behind.

As in ``tests/unit/loop/test_no_dead_knobs.py``, an entry of ``KNOBS`` is two configurations that differ in one field, and
there is one for every leaf of ``SftConfig``; it says besides what of a run that field is there to change.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from art_core.supervised.config import SftConfig
from art_core.supervised.learner import Learner
from art_core.supervised.run import asft
from tests.knobs import leaves, with_values
from tests.tiny import save_tiny
from tests.unit.loop.fake import quiet

from .chats import plain_chat, rollout, write

CHATS, ROLLOUTS = "chats.jsonl", "rollouts.jsonl"
SMALL = {"epochs": 1, "batch_rows": 3, "learning_rate": 0.01, "precision": "float32", "name": "run", "lora.rank": 4}


@dataclass(frozen=True, kw_only=True)
class Knob:
    """Two configurations that differ in one field, and what of a run that must change."""

    path: str
    changed: Any
    shows: str
    """A key of what ``observed`` gives."""
    given: dict[str, Any] = field(default_factory=dict)
    """Of both."""
    data: str = CHATS

    def __str__(self) -> str:
        return f"{self.path}={self.changed}"


KNOBS = [
    Knob(path="max_time", changed=0.001, shows="stop_reason"),
    Knob(path="keep_checkpoints", changed=1, shows="checkpoints", given={"checkpoint_every": 1}),
    Knob(path="seed", changed=1, shows="updates"),
    Knob(path="name", changed="other", shows="where"),
    Knob(path="out", changed="elsewhere", shows="where"),
    Knob(path="precision", changed="bfloat16", shows="weights"),
    Knob(path="lora.start", changed="start", shows="before"),
    Knob(path="lora.rank", changed=2, shows="weights"),
    Knob(path="lora.alpha", changed=8.0, shows="weights"),
    Knob(path="lora.targets", changed=("q_proj",), shows="weights"),
    Knob(path="epochs", changed=2, shows="updates"),
    Knob(path="batch_rows", changed=2, shows="updates"),
    Knob(path="learning_rate", changed=0.02, shows="weights"),
    Knob(path="schedule", changed="constant", shows="weights"),
    Knob(path="max_grad_norm", changed=0.01, shows="weights"),
    Knob(path="min_reward", changed=0.5, shows="updates", data=ROLLOUTS),
    Knob(path="best", changed=1, shows="updates", data=ROLLOUTS),
    Knob(path="validation_share", changed=0.3, shows="rows"),
    Knob(path="max_row_tokens", changed=45, shows="rows"),
    Knob(path="micro_batch_tokens", changed=1, shows="passes"),
    Knob(path="checkpoint_every", changed=1, shows="checkpoints"),
]


def test_no_field_is_left_out() -> None:
    tried, fields = [knob.path for knob in KNOBS], leaves(SftConfig)
    assert sorted(tried) == sorted(fields)


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What every run finds where it is started: a model, chats of several lengths, rollouts, and an adapter."""
    place = tmp_path_factory.mktemp("given")
    save_tiny(place / "model")
    write(place / CHATS, *(plain_chat("Count.", "one two three four five"[: 2 * n + 3]) for n in range(10)))
    write(place / ROLLOUTS, *(rollout(f"r{n}", n / 8, scenario=f"s{n % 4}", group=f"g{n % 4}") for n in range(8)))
    with contextlib.chdir(place):
        config = SftConfig.build(with_values({**SMALL, "seed": 5}))
        result = asyncio.run(asft(CHATS, base_model="model", config=config, progress=quiet()))
        shutil.move(str(result.adapter), "start")
        shutil.rmtree("runs")
    return place


async def observed(knob: Knob, values: dict[str, Any], place: Path) -> dict[str, Any]:
    """What a run made updates of, and what it left behind."""
    updates: list[Any] = []
    passes: list[int] = []
    update = Learner.update

    def watching(self: Learner, rows: Any) -> Any:
        parts: list[float] = []
        report = update(self, rows, parts.append)
        updates.append([row.rollout_id for row in rows])
        passes.append(len(parts))
        return report

    with pytest.MonkeyPatch.context() as patch, contextlib.chdir(place):
        patch.setattr(Learner, "update", watching)
        config = SftConfig.build(with_values({**SMALL, **values}))
        result = await asft(knob.data, base_model="model", config=config, progress=quiet())
        kept = sorted((result.run_dir / "checkpoints").iterdir())
        return {
            "where": str(result.run_dir),
            "updates": updates,
            "passes": passes,
            "checkpoints": [path.name for path in kept],
            "weights": hashlib.sha256((kept[-1] / "adapter_model.safetensors").read_bytes()).hexdigest(),
            **{name: result.summary[name] for name in ("stop_reason", "before", "rows")},
        }


async def both(knob: Knob, given: Path, place: Path) -> list[dict[str, Any]]:
    """What is observed without the change, and with it."""
    settings = {"plain": knob.given, "changed": {**knob.given, knob.path: knob.changed}}
    return [await observed(knob, values, shutil.copytree(given, place / name)) for name, values in settings.items()]


@pytest.mark.parametrize("knob", KNOBS, ids=str)
async def test_every_field_shows(knob: Knob, given: Path, tmp_path: Path) -> None:
    plain, changed = await both(knob, given, tmp_path)
    assert plain[knob.shows] != changed[knob.shows]


@pytest.mark.parametrize("data", [CHATS, ROLLOUTS])
async def test_what_is_observed_is_the_same_where_nothing_was_changed(data: str, given: Path, tmp_path: Path) -> None:
    """Otherwise the test above could not fail."""
    plain, same = await both(Knob(path="seed", changed=0, shows="", data=data), given, tmp_path)
    assert plain == same
