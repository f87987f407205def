"""The checkpoints of a run on disk: which one is the result, and the removal of those that need not be kept.

What decides is ``retention``; here it meets the run directory and the user.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from art_core.training.manifest import is_whole

from .config import TrainConfig
from .figures import Row
from .retention import best_step, kept_steps, without_figure
from .rundir import RunDir

__all__ = ["Checkpoints"]


@dataclass(slots=True, kw_only=True)
class Checkpoints:
    """Those of one run."""

    directory: RunDir
    config: TrainConfig
    warn: Callable[[str], None]
    _told: bool = field(default=False, init=False)

    def chosen(self, rows: Sequence[Row], step: int) -> int:
        """The step whose adapter is the result of a run that stands at ``step``: the best whole one on disk, the last
        one where none has a figure."""
        there = set(self.directory.checkpoint_steps())
        while True:
            best = self._best(rows, there)
            if best is None:
                return step
            if is_whole(self.directory.checkpoint(best)):
                return best
            there.discard(best)

    def check_chosen(self, rows: Sequence[Row], step: int) -> None:
        """Tell it if the best one of all is not there any more."""
        best, chosen = self._best(rows), self.chosen(rows, step)
        if best not in (None, chosen):
            by = self.config.best_metric or "validation"
            self.warn(f"step {best} is the best by {by}, but its checkpoint is gone or damaged; step {chosen} is used")

    def prune(self, rows: Sequence[Row], step: int) -> None:
        """Remove those that need not be kept; tell once if no row has the metric to decide by."""
        metric = self.config.best_metric
        if (
            metric is not None
            and not self._told
            and (problem := without_figure(rows, metric, self.config.first_checkpoint))
        ):
            self._told = True
            self.warn(problem)
        kept = kept_steps(
            rows,
            self.directory.checkpoint_steps(),
            step=step,
            keep=self.config.keep_checkpoints,
            metric=metric,
            mode=self.config.best_mode,
            first=self.config.first_checkpoint,
        )
        self.directory.keep_checkpoints(kept)

    def _best(self, rows: Sequence[Row], among: Collection[int] | None = None) -> int | None:
        """See ``retention.best_step``."""
        settings = self.config
        return best_step(rows, settings.best_metric, settings.best_mode, first=settings.first_checkpoint, among=among)
