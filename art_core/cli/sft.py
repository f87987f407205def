"""``art train sft``: fine-tune on conversations, or on the best rollouts of a run."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from art_core.loop.rundir import RunDir
from art_core.observe.progress import Progress
from art_core.supervised.config import SftConfig
from art_core.supervised.run import asft

from .options import given
from .train import DEFAULT_MODEL, show_result

__all__ = ["SftOptions", "train_sft"]

_FIELDS = (
    *("epochs", "batch_rows", "learning_rate", "max_time", "min_reward", "best", "validation_share"),
    *("max_row_tokens", "seed", "precision", "name", "out"),
)
"""Options that are fields of ``SftConfig``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SftOptions:
    """What can be said on the command line; an option that is not given changes nothing."""

    model: str | None = None
    """Base model: a name from `art models`, a directory or a model id. Default: smollm2-135m."""
    start_from: str | None = None
    """Begin from this adapter: a PEFT directory, or the directory of a run; its rank is taken over."""
    epochs: int | None = None
    """How often every row is trained on. Default: 3."""
    batch_rows: int | None = None
    """Rows of one update. Default: 16."""
    learning_rate: float | None = None
    """Of the LoRA, falling to zero at the end. Default: 0.0005."""
    rank: int | None = None
    """Of the LoRA."""
    max_time: str | None = None
    """Time it may take, the last validation included: 90s, 10m, 1h30m."""
    min_reward: float | None = None
    """Of stored rollouts, train only on those with at least this reward."""
    best: int | None = None
    """Of stored rollouts, train only on so many of each group, those with the highest rewards."""
    validation_share: float | None = None
    """How much is held out to measure the loss and choose the best adapter. Default: 0.1; 0 for none."""
    max_row_tokens: int | None = None
    """Drop longer rows, counted. Default: the model's context."""
    seed: int | None = None
    """Of everything random."""
    precision: Literal["auto", "float32", "bfloat16"] | None = None
    """Of the computations; auto measures which one this machine is faster at."""
    name: str | None = None
    """Name of the run and its directory."""
    out: str | None = None
    """Directory to put runs in. Default: runs."""
    resume: str | None = None
    """Directory of a run to go on with; only when to stop may be changed."""
    json_output: Annotated[bool, Parameter(name="--json", negative="")] = False
    """Print the summary as one JSON object; progress goes to standard error."""
    quiet: Annotated[bool, Parameter(negative="")] = False
    """Show the result only."""

    def config(self, base: SftConfig) -> SftConfig:
        """``base`` with every option that was given.

        Raises:
            InputError: a value is not valid; the message names it.
        """
        values: dict[str, Any] = base.model_dump(mode="json", exclude_none=True, exclude_unset=True)
        values |= given({name: getattr(self, name) for name in _FIELDS})
        values["lora"] = values.get("lora", {}) | given({"rank": self.rank, "start": self.start_from})
        return SftConfig.build(values)


def train_sft(
    file: Path | None = None,
    /,
    *,
    options: Annotated[SftOptions, Parameter(name="*")] = SftOptions(),
) -> int:
    """Fine-tune a model on what it should have said: a warm start, or imitation of the best rollouts.

    ```console
    $ art train sft chats.jsonl --model smollm2-135m --epochs 3
    $ art train sft runs/support --best 1 --min-reward 0.8
    ```

    Assistant messages are trained, unless they say `"train": false`; of stored rollouts exactly the sampled tokens are.

    Parameters
    ----------
    file
        A JSONL file of chats (`messages`, `tools`) or stored rollouts, or the directory of a run. Not with --resume.
    """
    shown = Progress(quiet=options.quiet, as_json=options.json_output)
    base, model = SftConfig(), options.model or DEFAULT_MODEL
    if options.resume is not None:
        record = RunDir.open(Path(options.resume)).read_record()
        stored = record.get("config") if record.get("kind") == "sft" else None
        base, model = SftConfig.build(stored or {}), options.model or ""
    try:
        result = asyncio.run(
            asft(file, base_model=model or None, config=options.config(base), resume=options.resume, progress=shown)
        )
        return show_result(shown, result, without="no checkpoint was made")
    finally:
        shown.close()
