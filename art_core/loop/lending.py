"""Lending the base model to a reward that asks it: once, by whoever has its weights, before anything is scored."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from art_core.errors import InputError
from art_core.rewards.protocol import borrower_of

from .backend import Backend, BackendWithBase
from .config import TrainConfig

__all__ = ["check_lending", "lend", "lent"]


def check_lending(reward: object, base_model: str, backend: Backend | None) -> None:
    """Whether a run of ``base_model`` can lend it to ``reward``; asked before anything is loaded.

    Args:
        backend: the one that was given; None for one that the run opens itself.

    Raises:
        InputError: the reward asks another model, or the backend lends none.
    """
    borrower = borrower_of(reward)
    if borrower is None:
        return
    if borrower.wanted not in (None, base_model):
        raise InputError(
            f"judge 'base/{borrower.wanted}' is not the base model of this run, {base_model!r}; say 'base' for that one, or "
            "serve the other one and give model@URL"
        )
    if backend is not None and not isinstance(backend, BackendWithBase):
        raise InputError(
            f"judge 'base' is the base model of the run, and a {type(backend).__name__} does not lend it; give provider/model, "
            "model@URL or a function of messages"
        )


async def lend(reward: object, backend: Backend) -> None:
    """Let ``reward`` ask the base model of ``backend``, if it asks any."""
    borrower = borrower_of(reward)
    if borrower is not None and isinstance(backend, BackendWithBase):
        borrower.lend(await backend.base())


@contextlib.asynccontextmanager
async def lent(reward: object, base_model: str | None, config: TrainConfig) -> AsyncIterator[None]:
    """Where nothing is trained: load the model that ``reward`` asks, if it asks any, and lend it while the block runs.

    Args:
        base_model: that of the run, unless the reward wants a certain one; None where there is no run.

    Raises:
        InputError: there is no such model.
    """
    borrower = borrower_of(reward)
    if borrower is None:
        yield
        return
    name = borrower.wanted or base_model
    if name is None:
        raise InputError("judge 'base' is the base model of a run, and there is none here; name the model: base/MODEL")
    from .embedded import load_base

    base = await asyncio.to_thread(load_base, name, config)
    try:
        borrower.lend(await base.open())
        yield
    finally:
        await base.close()
