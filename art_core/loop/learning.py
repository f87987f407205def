"""From the batch of a step to new weights being served: every adapter is trained on its own rows alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from time import monotonic
from typing import Any

from art_core import workers
from art_core.errors import ProviderError
from art_core.training.config import StepReport, TrainingConfig
from art_core.trajectory.trajectory import TrajectoryGroup

from .backend import Backend
from .batch import Batch
from .figures import REPORTED
from .versions import Versions

__all__ = ["check_versions", "figures_of", "gap_between", "learn"]

_SUMMED = frozenset({"forward_tokens"})
_ROUNDING = 0.01  # nats a token; in bfloat16 about 0.001 is measured


async def learn(
    batch: Batch,
    backend: Backend,
    versions: Versions,
    *,
    seconds: MutableMapping[str, float],
    on_progress: Callable[[float], None],
) -> dict[str, StepReport]:
    """Train each adapter that has rows, and have what changed served; ``versions`` follows.

    ``seconds`` is given the stages ``train`` and ``reload``.

    Returns:
        What each of them came to.
    """
    reports: dict[str, StepReport] = {}
    ready = [name for name in versions.adapters if any(sample.adapter == name for sample in batch.samples)]
    for number, adapter in enumerate(ready):
        rows = [index for index, sample in enumerate(batch.samples) if sample.adapter == adapter]
        began = monotonic()
        report = await workers.call(
            backend.train,
            [batch.samples[index] for index in rows],
            [batch.advantages[index] for index in rows],
            lambda fraction, done=number: on_progress((done + fraction) / len(ready)),
            name="training",
        )
        seconds["train"] = seconds.get("train", 0.0) + monotonic() - began
        reports[adapter] = report
        if report.updated:
            began = monotonic()
            after = versions.next(adapter)
            await backend.publish(after)
            versions.advance(after)
            seconds["reload"] = seconds.get("reload", 0.0) + monotonic() - began
        if report.masked_rollouts:
            batch.ledger.add("masked_by_ratio", rollouts=report.masked_rollouts, tokens=report.masked_tokens)
    return reports


def figures_of(batch: Batch, reports: Mapping[str, StepReport], versions: Versions) -> dict[str, Any]:
    """What a training row says of the training.

    Of several adapters: ``updated`` if one was, sums of counts, the smallest bound on a pass, and means over them weighted by their
    trained tokens; ``adapters`` holds the figures of each.
    """
    figures: dict[str, Any] = {
        "updated": any(report.updated for report in reports.values()),
        **{name: _together(name, reports.values()) for name in REPORTED},
    }
    if len(versions.adapters) > 1:
        told = {name: {"updated": report.updated, **_reported(report)} for name, report in reports.items()}
        untrained = {"updated": False, **dict.fromkeys(REPORTED)}
        figures["adapters"] = {
            version.adapter: {
                "version": str(version),
                **told.get(version.adapter, untrained),
                "ledger": batch.by_adapter[version.adapter].to_dict() if version.adapter in batch.by_adapter else None,
            }
            for version in versions
        }
    return figures


def gap_between(figures: Mapping[str, Any], training: TrainingConfig) -> str | None:
    """One sentence if sampler and trainer give the same tokens other logprobs than rounding explains; else None.

    With one pass the tokens are those of the very weights that are trained, so ``kl_behaviour`` would be 0 in exact arithmetic. With
    several it also holds what the passes before changed, and says nothing.
    """
    gap = figures.get("kl_behaviour")
    if training.passes > 1 or gap is None or gap <= _ROUNDING:
        return None
    return f"sampler and trainer differ by {gap:.2g} nats a token (kl_behaviour), and rounding explains no more than {_ROUNDING:g}"


def check_versions(groups: Sequence[TrajectoryGroup], batch: Batch, versions: Versions) -> None:
    """Every token that is to be trained was sampled by the weights being served, and says so.

    Raises:
        ProviderError: one was not; names the rollout.
    """
    trained = (t for group in groups for t in group if batch.fates[t.rollout_id] == "trained")
    for trajectory in trained:
        for turn in trajectory.graph:
            found = {span.version for span in turn.versions}
            if turn.trainable and not (found and all(version in versions for version in found)):
                named = " and ".join(sorted(map(str, found))) or "weights it does not name"
                raise ProviderError(
                    f"rollout {trajectory.rollout_id!r} was sampled by {named}, but {versions} was published: the engine "
                    "serves other weights than it says"
                )


def _reported(report: StepReport) -> dict[str, Any]:
    return {name: getattr(report, name) for name in REPORTED}


def _together(name: str, reports: Iterable[StepReport]) -> Any:
    found = [(getattr(report, name), report.tokens) for report in reports]
    found = [(value, tokens) for value, tokens in found if value is not None]
    if len(found) < 2:
        return found[0][0] if found else None
    if name in _SUMMED:
        return sum(value for value, _ in found)
    if name == "micro_batch_tokens":
        return min(value for value, _ in found)
    weight = sum(tokens for _, tokens in found)
    return sum(value * tokens for value, tokens in found) / weight if weight else None
