"""What every policy keeps, whatever is behind it.

A factory makes a policy that answers anything, in more than three tokens; add one to ``FACTORIES`` to hold another
policy to the same rules.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from art_core import randomness
from art_core.errors import InputError
from art_core.inference.local_policy import LocalPolicy
from art_core.inference.protocol import Capabilities, Completion, Policy, SamplingParams
from art_core.inference.scripted import ScriptedPolicy
from art_core.inference.transformers_engine import TransformersEngine
from art_core.messages import Message, ToolSpec
from art_core.rendering.renderer import Renderer
from art_core.rendering.tokenizer import BytesTokenizer, TransformersTokenizer
from art_core.trajectory.graph import PolicyVersion, Span, Turn
from art_core.trajectory.recorder import Recorder
from art_core.trajectory.samples import samples_of
from tests.tiny import tiny_model, tiny_tokenizer


class RandomEngine:
    """Letters drawn by the key, then the stop token."""

    capabilities = Capabilities()

    async def sample(self, prompt_ids: Any, params: SamplingParams, version: Any, rng_key: int) -> Completion:
        await asyncio.sleep(0)
        key = 0 if params.temperature == 0 else rng_key
        letters = [97 + int(26 * randomness.uniform(key, i)) for i in range(8)]
        ids = tuple([*letters, min(params.stop_ids)][: params.max_tokens])
        finish = "stop" if ids[-1] in params.stop_ids else "length"
        spans = (Span(0, PolicyVersion("default", 0)),)
        return Completion(ids=ids, logprobs=(math.log(1 / 26),) * len(ids), finish_reason=finish, spans=spans)  # type: ignore[arg-type]


FACTORIES: dict[str, Callable[[], Policy]] = {
    "local": lambda: LocalPolicy(RandomEngine(), Renderer(BytesTokenizer())),  # type: ignore[arg-type]
    "transformers": lambda: LocalPolicy(
        TransformersEngine(tiny_model()),
        Renderer(TransformersTokenizer(tiny_tokenizer())),
        sampling=SamplingParams(max_tokens=12),
    ),
    "scripted": lambda: ScriptedPolicy(lambda messages, tools: f"answer {len(messages)}"),
}

USER = Message(role="user", content="hello")
TOOL = ToolSpec(name="f", parameters={"type": "object", "properties": {"a": {"type": "string"}}})


class Chat:
    def __init__(self, policy: Policy, *, evaluating: bool = False, key: int = 1) -> None:
        self.policy = policy
        self.session = SimpleNamespace(recorder=Recorder(), rng_parts=(key,), evaluating=evaluating)

    async def ask(self, *messages: Message, tools: tuple[ToolSpec, ...] = (), **params: Any) -> Turn:
        turn = await self.policy.complete(self.session, messages, tools, params)
        self.session.recorder.add(turn)
        return turn


@pytest.fixture(params=sorted(FACTORIES))
def policy(request: pytest.FixtureRequest) -> Policy:
    return FACTORIES[request.param]()


def test_it_is_a_policy(policy: Policy) -> None:
    assert isinstance(policy, Policy)


async def test_ids_and_logprobs_are_parallel_and_trainable(policy: Policy) -> None:
    turn = await Chat(policy).ask(USER)
    assert turn.trainable
    assert turn.logprobs is not None
    assert len(turn.completion_ids) == len(turn.logprobs) > 3
    assert all(math.isfinite(value) and value <= 0 for value in turn.logprobs)


async def test_the_version_covers_the_completion_from_its_start(policy: Policy) -> None:
    turn = await Chat(policy).ask(USER)
    assert turn.versions[0].start == 0


async def test_a_conversation_is_one_row_with_every_sampled_token_trained(policy: Policy) -> None:
    chat = Chat(policy)
    messages = [USER]
    for _ in range(3):
        turn = await chat.ask(*messages, tools=(TOOL,))
        messages += [turn.reply, USER]
    (row,) = samples_of(chat.session.recorder.graph, rollout_id="r")
    assert row.trained_tokens == sum(len(turn.completion_ids) for turn in chat.session.recorder.graph)
    assert [turn.fork for turn in chat.session.recorder.graph] == [None, None, None]


async def test_an_edited_history_is_a_fork_with_a_reason(policy: Policy) -> None:
    chat = Chat(policy)
    await chat.ask(USER)
    turn = await chat.ask(USER, Message(role="assistant", content="I never said that"), USER)
    assert turn.fork == "the history was edited"


async def test_a_repeated_request_has_the_same_prompt(policy: Policy) -> None:
    chat = Chat(policy)
    first, second = await chat.ask(USER), await chat.ask(USER)
    path = chat.session.recorder.graph.path
    assert path(first.id)[: len(first.context_ids)] == path(second.id)[: len(first.context_ids)]
    assert second.fork == "the same request again"


async def test_max_tokens_is_honoured_and_a_cut_turn_can_be_continued(policy: Policy) -> None:
    chat = Chat(policy)
    first = await chat.ask(USER, max_tokens=3)
    assert (len(first.completion_ids), first.finish_reason) == (3, "length")
    second = await chat.ask(USER, first.reply, USER)
    assert (second.fork, second.parent_len) == (None, chat.session.recorder.graph.path_len(first.id))


async def test_a_stop_text_is_honoured_and_left_out_of_the_reply(policy: Policy) -> None:
    whole = (await Chat(policy).ask(USER)).reply.text
    stop = whole[2:4]
    turn = await Chat(policy).ask(USER, stop=[stop])
    assert (turn.reply.content, turn.finish_reason) == (whole[: whole.index(stop)], "stop")


async def test_sampling_asked_for_while_training_is_recorded_not_used(policy: Policy) -> None:
    turn = await Chat(policy).ask(USER, temperature=0.1)
    assert (turn.temperature, turn.metadata["overridden"]) == (1.0, {"temperature": 0.1})


async def test_evaluating_is_greedy_unless_asked_otherwise(policy: Policy) -> None:
    chat = Chat(policy, evaluating=True)
    greedy, warm = await chat.ask(USER), await chat.ask(USER, temperature=0.7)
    assert (greedy.temperature, warm.temperature) == (0.0, 0.7)
    assert (greedy.trainable, warm.trainable) == (False, True)


async def test_an_unknown_argument_is_named(policy: Policy) -> None:
    with pytest.raises(InputError, match="'temprature'"):
        await Chat(policy).ask(USER, temprature=1)


async def test_equal_keys_draw_equally(policy: Policy) -> None:
    one, two = await Chat(policy, key=4).ask(USER), await Chat(policy, key=4).ask(USER)
    assert (one.completion_ids, one.logprobs) == (two.completion_ids, two.logprobs)


async def test_concurrent_calls_of_one_session_have_different_ids(policy: Policy) -> None:
    chat = Chat(policy)
    asks = [chat.ask(Message(role="user", content=f"q{i}")) for i in range(8)]
    turns = await asyncio.gather(*asks)
    assert len({turn.id for turn in turns}) == 8
    assert len(chat.session.recorder.graph) == 8
