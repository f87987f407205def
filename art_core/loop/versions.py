"""The weights being served: one version for each adapter of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from art_core.rollout.protocol import Agent
from art_core.trajectory.graph import DEFAULT_ADAPTER, PolicyVersion

from .backend import Backend

__all__ = ["Versions", "adapters_of"]


def adapters_of(agent: Agent) -> tuple[str, ...]:
    """The adapters that an agent's calls are trained as; see ``rollout.selection``."""
    return tuple(getattr(agent, "adapters", ())) or (DEFAULT_ADAPTER,)


class Versions:
    """How many updates each adapter has had; all begin at 0.

    >>> versions = Versions(["plans", "texts"])
    >>> versions.advance(versions.next("texts"))
    >>> str(versions), versions.to_record()
    ('plans@0, texts@1', {'plans': 0, 'texts': 1})
    """

    def __init__(self, adapters: Sequence[str] = (DEFAULT_ADAPTER,)) -> None:
        self._updates = dict.fromkeys(adapters, 0)

    def __iter__(self) -> Any:
        return iter([PolicyVersion(adapter, step) for adapter, step in self._updates.items()])

    def __contains__(self, version: object) -> bool:
        return isinstance(version, PolicyVersion) and self._updates.get(version.adapter) == version.step

    def __str__(self) -> str:
        return ", ".join(str(version) for version in self)

    @property
    def adapters(self) -> tuple[str, ...]:
        return tuple(self._updates)

    async def publish(self, backend: Backend) -> None:
        """Have ``backend`` serve what it has loaded, as these versions."""
        for version in self:
            await backend.publish(version)

    def next(self, adapter: str) -> PolicyVersion:
        """What comes after the present version of an adapter."""
        return PolicyVersion(adapter, self._updates[adapter] + 1)

    def advance(self, version: PolicyVersion) -> None:
        """``version`` is being served now."""
        self._updates[version.adapter] = version.step

    def to_record(self) -> Any:
        """For a checkpoint: of the usual one adapter a number, else adapter → number."""
        return self._updates[DEFAULT_ADAPTER] if self.adapters == (DEFAULT_ADAPTER,) else dict(self._updates)

    def restore(self, record: Any) -> None:
        """Stand where ``to_record`` was made, of the same adapters."""
        found = record if isinstance(record, Mapping) else {DEFAULT_ADAPTER: record}
        self._updates = {adapter: int(found[adapter]) for adapter in self._updates}
