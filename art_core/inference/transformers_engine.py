"""The embedded engine: samples in this process with transformers, in batches, from versioned weights.

Who waits for whom::

    tasks (any loop, any thread)      engine thread (owns the batch and the folded weights)
    sample() ── request ──► inbox ──► admit rows of the present version, step, retire
        ◄──────── future ──────────── a finished row resolves its future
    load()   registers a version at once; requests already made keep theirs

Rows of one version are decoded together. When the batch runs empty and the oldest request wants other weights, these
are folded in. All arithmetic is done on the compute thread. A deterministic engine computes every row as if it were
alone (see ``models.lanes``).
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path

from transformers import PreTrainedModel

from art_core.errors import ProviderError, describe
from art_core.models.attention import use_segment_attention
from art_core.models.compute import COMPUTE
from art_core.models.config import Precision
from art_core.models.decoding import DecodeBatch, Row
from art_core.models.fold import FoldedModel
from art_core.models.lanes import LaneBatch
from art_core.models.load import context_of
from art_core.models.lora import AdapterWeights, read_adapter
from art_core.models.probe import PRECISIONS
from art_core.trajectory.graph import FinishReason, PolicyVersion, Span

from .protocol import Capabilities, Completion, Interrupted, SamplingParams

__all__ = ["TransformersEngine"]

_KEPT_VERSIONS = 4
_QUIET_S = 0.02  # an idle engine starts once no request has come for this long ...
_PATIENCE_S = 0.25  # ... or the first has waited this long


@dataclass(frozen=True, slots=True, eq=False)
class _Request:
    row: Row
    version: PolicyVersion
    weights: AdapterWeights | None
    future: Future[Completion]


class TransformersEngine:
    """See ``inference.protocol.Engine``.

    ``model`` is the base (it is shared, never changed); ``precision`` what to sample in, ``float32`` or
    ``bfloat16`` (default: the model's); ``version`` the first version, served from the directory ``adapter`` (None: the
    base). ``deterministic``: ids and logprobs of a completion are a function of weights, prompt, parameters and key alone, bit
    for bit, at the price of speed; ``max_rows`` then decides nothing.

    Raises:
        InputError: the directory is not a LoRA that fits this model.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        *,
        precision: Precision | None = None,
        max_rows: int = 64,
        version: PolicyVersion | None = None,
        adapter: Path | None = None,
        deterministic: bool = False,
    ) -> None:
        dtype = PRECISIONS[precision] if precision else None
        self._folded = COMPUTE.run(FoldedModel, model, dtype=dtype, apart=deterministic, packed=not deterministic)
        first = None if adapter is None else read_adapter(adapter)
        if first is not None:
            self._folded.check(first)
        self._batch: DecodeBatch | LaneBatch
        if deterministic:
            self._batch = COMPUTE.run(LaneBatch, self._folded.model)
        else:
            use_segment_attention(self._folded.model)
            self._batch = DecodeBatch(self._folded.model, max_rows=max_rows)
        self._newest = version or PolicyVersion("default", 0)
        self._versions: dict[PolicyVersion, AdapterWeights | None] = {self._newest: first}
        self._present: PolicyVersion | None = None
        self._lock = threading.Lock()
        self._idle = threading.Condition(self._lock)
        self._inbox: queue.SimpleQueue[_Request | None] = queue.SimpleQueue()
        self._waiting: list[_Request] = []
        self._in_flight = 0
        self._closed = False
        self._context = context_of(model.config)
        self._thread = threading.Thread(target=self._run, name="art-engine", daemon=True)
        self._thread.start()

    @property
    def capabilities(self) -> Capabilities:
        """No guided decoding, no sleep; the context is the model's."""
        return Capabilities(max_context=self._context)

    @property
    def computed_tokens(self) -> int:
        """Tokens forwarded so far, shared prompts once."""
        return self._batch.computed_tokens

    @property
    def lanes(self) -> int | None:
        """How many lanes a deterministic engine decodes in; None for another one."""
        return self._batch.lanes if isinstance(self._batch, LaneBatch) else None

    async def sample(
        self, prompt_ids: Sequence[int], params: SamplingParams, version: PolicyVersion | None, rng_key: int
    ) -> Completion:
        """Draw one completion; cancelling the call takes its row out of the batch.

        Raises:
            ProviderError: closed, unknown version, empty or over-long prompt, or a failure inside the engine.
            Interrupted: the call was cancelled after its first token.
        """
        if not prompt_ids:
            raise ProviderError("an empty prompt cannot be completed; at least one token is needed")
        if len(prompt_ids) + params.max_tokens > self._context:
            raise ProviderError(
                f"a prompt of {len(prompt_ids)} tokens and {params.max_tokens} new ones exceed the context of {self._context}"
            )
        future: Future[Completion] = Future()
        with self._lock:
            if self._closed:
                raise ProviderError("the engine is closed")
            wanted = version or self._newest
            if wanted not in self._versions:
                known = ", ".join(map(str, self._versions))
                raise ProviderError(f"policy version {wanted} is not loaded; loaded ones are {known}")
            self._in_flight += 1
            row = Row(tuple(prompt_ids), params, rng_key)
            self._inbox.put(_Request(row, wanted, self._versions[wanted], future))
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            if not row.logprobs:
                raise
            raise Interrupted(_completion(row, wanted, "abort")) from None
        finally:
            with self._idle:
                self._in_flight -= 1
                self._idle.notify_all()

    async def load(self, version: PolicyVersion, path: Path | None) -> None:
        """Serve ``version`` from an adapter directory (None: the base) from the next request on.

        Raises:
            InputError: the directory is not a LoRA that fits this model.
        """
        weights = None if path is None else await asyncio.to_thread(read_adapter, path)
        if weights is not None:
            self._folded.check(weights)
        with self._lock:
            self._versions.pop(version, None)
            self._versions[version] = weights
            self._newest = version
            if self._present == version:
                self._present = None
            for old in list(self._versions)[:-_KEPT_VERSIONS]:
                if self._versions[old] is not None:
                    del self._versions[old]

    async def drain(self) -> None:
        """Return when no request is in flight."""

        def wait() -> None:
            with self._idle:
                self._idle.wait_for(lambda: self._in_flight == 0)

        await asyncio.to_thread(wait)

    async def close(self) -> None:
        """Stop the thread; requests still in flight fail with ``ProviderError``."""
        with self._lock:
            already, self._closed = self._closed, True
        if not already:
            self._inbox.put(None)
        await asyncio.to_thread(self._thread.join)

    def _run(self) -> None:
        active: dict[int, _Request] = {}
        while self._collect(active):
            try:
                COMPUTE.run(self._turn, active)
            except Exception as error:  # noqa: BLE001 - the engine must outlive one bad batch; every request in it is told
                failure = ProviderError(f"engine: {describe(error)}")
                failure.__cause__ = error
                for request in [*active.values(), *self._waiting]:
                    _settle(request.future, failure)
                COMPUTE.run(self._batch.reset)
                active.clear()
                self._waiting.clear()
        for request in [*active.values(), *self._waiting]:
            _settle(request.future, ProviderError("the engine was closed"))

    def _collect(self, active: dict[int, _Request]) -> bool:
        """Move requests from the inbox to the waiting list; block while there is nothing to do. False: closed."""
        deadline: float | None = None
        while True:
            idle = not active
            if idle and not self._waiting:
                timeout = None
            elif idle:
                deadline = deadline or time.monotonic() + _PATIENCE_S
                timeout = min(_QUIET_S, max(0.0, deadline - time.monotonic()))
            else:
                timeout = 0.0
            try:
                request = (
                    self._inbox.get(timeout=timeout) if timeout is None or timeout > 0 else self._inbox.get_nowait()
                )
            except queue.Empty:
                return True
            if request is None:
                return False
            self._waiting.append(request)

    def _turn(self, active: dict[int, _Request]) -> None:
        """Admit, step once, retire."""
        self._waiting = [request for request in self._waiting if not request.future.cancelled()]
        dropped = [request.row for request in active.values() if request.future.cancelled()]
        for row in self._batch.remove(dropped):
            del active[id(row)]
        if not active and self._waiting:
            self._switch(self._waiting[0])
        joining = [r for r in self._waiting if r.version == self._present][: self._batch.free]
        if joining:
            self._waiting = [request for request in self._waiting if request not in joining]
            active.update((id(request.row), request) for request in joining)
            self._batch.admit([request.row for request in joining])
            self._finish(active)
        if active:
            self._batch.step()
            self._finish(active)

    def _switch(self, request: _Request) -> None:
        if request.version != self._present:
            self._present = None  # should it fail half way
            self._folded.fold(request.weights)
            self._batch.weights_changed()
            self._present = request.version

    def _finish(self, active: dict[int, _Request]) -> None:
        for row in self._batch.retire():
            request = active.pop(id(row))
            reason: FinishReason = "stop" if row.finish_reason == "stop" else "length"
            _settle(request.future, _completion(row, request.version, reason))


def _completion(row: Row, version: PolicyVersion, reason: FinishReason) -> Completion:
    """What a row holds; the engine's thread may be adding to it, ids first."""
    logprobs = tuple(row.logprobs)
    return Completion(
        ids=tuple(row.ids[: len(logprobs)]), logprobs=logprobs, finish_reason=reason, spans=(Span(0, version),)
    )


def _settle(future: Future[Completion], outcome: Completion | Exception) -> None:
    """Resolve a future whose caller may have gone."""
    with contextlib.suppress(asyncio.InvalidStateError):
        if not future.set_running_or_notify_cancel():
            return
        if isinstance(outcome, Exception):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)
