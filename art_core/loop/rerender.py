"""How far a server that renders every request anew drifts from what was trained.

Training keeps the ids that were sampled. An ordinary OpenAI-compatible server gets messages: the replies come back to it as text and
calls, and are put through the chat template and the tokenizer again. Where that gives other ids the model is asked
something it was not trained on. This measures a deployment, not the trainer: it never fails.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from art_core.errors import InputError
from art_core.messages import Message
from art_core.rendering.renderer import Renderer
from art_core.training.numerics import Check, Figure
from art_core.trajectory.graph import TokenGraph, Turn
from art_core.trajectory.samples import TrainingSample
from art_core.trajectory.trajectory import Trajectory

from .bench import row_of

__all__ = ["LaterTurn", "check_rerendering", "later_turns"]

_TURNS = 200  # turns that are rendered again
_ROW_TOKENS = 4096  # tokens of the rows whose logprobs are compared

Logprobs = Callable[[Sequence[TrainingSample]], list[NDArray[np.float32]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class LaterTurn:
    """A turn whose prompt holds an earlier reply."""

    recorded: tuple[int, ...]
    """Its prompt's ids as they were when it was sampled."""
    rendered: tuple[int, ...]
    """Its prompt's ids when the messages are rendered again."""
    completion: tuple[int, ...]
    temperature: float

    @property
    def agreeing(self) -> int:
        """How many ids at the beginning of the recorded prompt the rendered one has too."""
        pairs = zip(self.recorded, self.rendered, strict=False)
        return next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(self.recorded), len(self.rendered)))

    @property
    def differs(self) -> bool:
        return self.recorded != self.rendered


def later_turns(trajectories: Sequence[Trajectory], renderer: Renderer) -> tuple[list[LaterTurn], int]:
    """The turns after the first of each conversation, at most 200, and how many more there are or cannot be rendered."""
    found: list[LaterTurn] = []
    left_out = 0
    for trajectory in trajectories:
        for turn in trajectory.graph:
            if not _follows_a_reply(trajectory.graph, turn):
                continue
            rendered = _rendered(trajectory.graph, turn, renderer) if len(found) < _TURNS else None
            if rendered is None:
                left_out += 1
                continue
            path = trajectory.graph.path(turn.id)
            found.append(
                LaterTurn(
                    recorded=tuple(path[: len(path) - len(turn.completion_ids)]),
                    rendered=rendered,
                    completion=turn.completion_ids,
                    temperature=turn.temperature or 1.0,
                )
            )
    return found, left_out


def check_rerendering(turns: Sequence[LaterTurn], left_out: int, logprobs: Logprobs, *, source: str) -> Check:
    """Compare recorded with rendered prompts, and what the model thinks of the same replies under each.

    Args:
        logprobs: the trainer's, of rows.
        source: where the turns are from, for the note.
    """
    name, question = "re-rendering", "Would a server that renders each request anew ask what was trained?"
    if not turns:
        return Check(
            name=name, question=question, status="warn", note=f"not measured: no turn follows another in {source}"
        )
    differing = [turn for turn in turns if turn.differs]
    prompt_tokens = sum(len(turn.recorded) for turn in turns)
    after = sum(len(turn.recorded) - turn.agreeing for turn in differing)
    figures = [
        Figure(name="turns asked with other ids", value=len(differing) / len(turns), unit="share"),
        Figure(name="prompt tokens after a difference", value=after / prompt_tokens, unit="share"),
    ]
    note = f"measured on {len(turns)} turns of {source}" + (f", {left_out} more left out" if left_out else "")
    if not differing:
        return Check(name=name, question=question, figures=tuple(figures), note=note)
    sizes, compared = _gaps(differing, logprobs)
    figures += [
        Figure(name="mean gap of their replies", value=float(sizes.mean())),
        Figure(name="largest gap of their replies", value=float(sizes.max())),
    ]
    note += f", gaps on {compared} that differ; deploy with a server that is given ids, or expect this drift"
    return Check(name=name, question=question, figures=tuple(figures), status="warn", note=note)


def _gaps(turns: Sequence[LaterTurn], logprobs: Logprobs) -> tuple[NDArray[np.float64], int]:
    """Absolute differences of the replies' logprobs under both prompts, and of how many turns."""
    pairs: list[tuple[TrainingSample, TrainingSample]] = []
    tokens = 0
    for number, turn in enumerate(turns):
        tokens += len(turn.recorded) + len(turn.rendered) + 2 * len(turn.completion)
        if pairs and tokens > _ROW_TOKENS:
            break
        recorded, rendered = (
            row_of(prompt, turn.completion, temperature=turn.temperature, rollout_id=str(number))
            for prompt in (turn.recorded, turn.rendered)
        )
        pairs.append((recorded, rendered))
    values = logprobs([row for pair in pairs for row in pair])
    sizes = [
        np.abs(values[2 * number][recorded.mask].astype(np.float64) - values[2 * number + 1][rendered.mask])
        for number, (recorded, rendered) in enumerate(pairs)
    ]
    return np.concatenate(sizes), len(pairs)


def _follows_a_reply(graph: TokenGraph, turn: Turn) -> bool:
    """Whether sampled ids are part of the turn's prompt."""
    above = graph.chain(turn.id)[:-1]
    return bool(turn.completion_ids) and any(keep > t.parent_len + len(t.context_ids) for t, keep in above)


def _rendered(graph: TokenGraph, turn: Turn, renderer: Renderer) -> tuple[int, ...] | None:
    """The turn's request as ids, its messages as they come back over the wire; None where the template refuses them."""
    messages = [Message.from_wire(message.to_wire()) for message in graph.history(turn.id)[:-1]]
    try:
        return tuple(renderer.prompt(messages, turn.tools))
    except InputError:
        return None
