"""Whether a model that was written computes what its adapter does: both are run on the same ids and compared.

The measure is the difference of logprobs over the whole vocabulary, in nats, computed in float32 on both sides, so that
only the rounding of what was written counts. The limits are several times what rounding was seen to cost on small
models. A rounded model may differ that much and still have lost a faint adapter, or hold it at another scale, so it must
also lie nearer to the adapter than to the base, and what it changes must be as large as what the adapter changes: its
projection on that, ``sum((written - base) (adapted - base)) / sum((adapted - base)^2)``, must be near 1. Rounding
has nothing to do with the adapter and averages out in that sum, unless it is many times larger.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from peft import PeftModel
from transformers import PreTrainedModel

from art_core.errors import ArtError
from art_core.messages import Message, ToolSpec
from art_core.rendering.renderer import Renderer

__all__ = ["FAINT", "LIMITS", "Difference", "Logprobs", "Reference", "logprobs_of", "probe_sequences"]

Logprobs = list[torch.Tensor]
"""Per sequence (T, V) float32 logprobs in nats."""

LIMITS: Mapping[str, float] = {"float32": 1e-3, "float16": 0.25, "bfloat16": 2.0, "q8_0": 4.0}
"""Precision of the written weights → the largest difference of any logprob, in nats."""

FAINT = 1e-4
"""Mean difference in nats below which an adapter cannot be told from its base in float32."""

_SHARE = 0.25  # how far from 1 the written share of the adapter's change may be ...
_NOISE = 4.0  # ... unless rounding changes more than so many times as much as the adapter

_TOKENS = 48
_ASK = Message(role="user", content="What time is it in Zürich, and how long is the way to 東京?")
_TOOL = ToolSpec(
    name="get_time",
    description="The time in a city.",
    parameters={"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """How far two models are apart, over the logprobs of every id at every position."""

    largest: float
    """In nats."""
    mean: float
    """In nats."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """What base and adapted base compute on ``sequences``."""

    sequences: Sequence[Sequence[int]]
    base: Logprobs
    adapted: Logprobs

    @property
    def effect(self) -> Difference:
        """What the adapter changes."""
        return difference(self.adapted, self.base)

    def check(self, model: PreTrainedModel | PeftModel, *, dtype: str) -> Difference:
        """How far ``model``, whose weights were written as ``dtype``, is from the adapted base.

        Raises:
            ArtError: farther than ``LIMITS`` allows, or nearer to the base; the message has the figures.
        """
        written = logprobs_of(model, self.sequences)
        found, from_base = difference(written, self.adapted), difference(written, self.base)
        figures = (
            f"its logprobs differ from the adapter's by up to {found.largest:.3g} nats ({dtype} may cost "
            f"{LIMITS[dtype]:g}), by {found.mean:.3g} on average, and from the base's by {from_base.mean:.3g} on average"
        )
        if not found.largest <= LIMITS[dtype]:
            raise ArtError(f"what was written does not compute what the adapter does: {figures}")
        if self.effect.mean > FAINT:
            if not found.mean < from_base.mean:
                raise ArtError(f"what was written is as far from the adapter as from the base: {figures}")
            share, noise = self._share(written)
            if noise <= _NOISE and not abs(share - 1) <= _SHARE:
                raise ArtError(f"what was written holds {share:.2f} times what the adapter changes: {figures}")
        return found

    def _share(self, written: Logprobs) -> tuple[float, float]:
        """How much of the adapter's change is in ``written``, and how much else, as multiples of that change (L2)."""
        change, own = (
            torch.cat([(one - base).flatten().double() for one, base in zip(of, self.base, strict=True)])
            for of in (self.adapted, written)
        )
        size = change.square().sum()
        share = (own * change).sum() / size
        return share.item(), ((own - share * change).square().sum() / size).sqrt().item()


def probe_sequences(renderer: Renderer, vocab_size: int) -> list[list[int]]:
    """Three short sequences of ids: a prompt, one with a tool, and ids from all over the vocabulary."""
    prompts = [renderer.prompt([_ASK], tools) for tools in ((), (_TOOL,))]
    return [*(ids[-_TOKENS:] for ids in prompts), [(7919 * i + 13) % vocab_size for i in range(_TOKENS)]]


@torch.inference_mode()
def logprobs_of(model: PreTrainedModel | PeftModel, sequences: Sequence[Sequence[int]]) -> Logprobs:
    """The logprobs of every next id after each of the sequences' ids."""
    rows = (torch.tensor([list(ids)], device=model.device) for ids in sequences)
    return [model(input_ids=ids, use_cache=False).logits[0].float().log_softmax(-1) for ids in rows]


def difference(one: Logprobs, other: Logprobs) -> Difference:
    """The largest and the mean absolute difference; infinite where a number is not finite."""
    gaps = [(a - b).abs().nan_to_num(nan=torch.inf) for a, b in zip(one, other, strict=True)]
    total = sum(gap.double().sum().item() for gap in gaps)
    return Difference(largest=max(gap.max().item() for gap in gaps), mean=total / sum(gap.numel() for gap in gaps))
