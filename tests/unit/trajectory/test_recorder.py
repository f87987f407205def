from __future__ import annotations

import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from art_core.messages import MalformedCall, Message, ToolCall, ToolSpec
from art_core.trajectory.graph import Turn
from art_core.trajectory.recorder import Recorder

USER = Message(role="user", content="hi")
TOOLS = (ToolSpec(name="f"), ToolSpec(name="g"))


def reply(text: str | None = "yes", **more: Any) -> Message:
    return Message(role="assistant", content=text, **more)


def turn(turn_id: str, messages: tuple[Message, ...], answer: Message, **more: Any) -> Turn:
    ids = {"context_ids": (1, 2), "completion_ids": (3,), "logprobs": (-1.0,), **more}
    return Turn(id=turn_id, messages=messages, reply=answer, **ids)


def recorded(*turns: Turn) -> Recorder:
    recorder = Recorder()
    for item in turns:
        recorder.add(item)
    return recorder


def found(
    recorder: Recorder, *messages: Message, tools: tuple[ToolSpec, ...] = ()
) -> tuple[str | None, int, str | None]:
    match = recorder.match(messages, tools)
    return match.turn.id if match.turn else None, match.kept, match.reason


def test_the_first_request_matches_nothing_and_is_no_fork() -> None:
    assert found(Recorder(), USER) == (None, 0, None)


def test_a_history_is_found_by_its_messages() -> None:
    assert found(recorded(turn("t0", (USER,), reply())), USER, reply(), USER) == ("t0", 2, None)


def test_the_longest_history_wins() -> None:
    more = turn("t1", (USER,), reply("two"), parent="t0", parent_len=3, parent_messages=2)
    recorder = recorded(turn("t0", (USER,), reply()), more)
    assert found(recorder, USER, reply(), USER, reply("two"), USER) == ("t1", 4, None)


def test_an_equal_request_is_a_repeat() -> None:
    match = recorded(turn("t0", (USER,), reply())).match([USER], ())
    assert (match.repeat, match.kept, match.turn and match.turn.id) == (True, 1, "t0")


@pytest.mark.parametrize(
    "echo",
    [
        reply(None),
        reply(({"type": "text", "text": ""},)),  # type: ignore[arg-type]
        reply("", reasoning="hmm"),
        reply("", name="bot"),
    ],
)
def test_an_echo_may_differ_in_form(echo: Message) -> None:
    own = reply("", reasoning="hmm", malformed_calls=(MalformedCall(raw="<", error="bad"),))
    assert found(recorded(turn("t0", (USER,), own)), USER, echo) == ("t0", 2, None)


def test_the_recorded_history_is_given_back() -> None:
    own = reply("a", reasoning="hmm")
    assert recorded(turn("t0", (USER,), own)).match([USER, reply("a"), USER], ()).history == (USER, own)


@pytest.mark.parametrize(
    "echo", [reply("no"), reply("yes "), reply("yes", reasoning="other"), Message(role="user", content="yes")]
)
def test_an_edited_reply_is_another_history(echo: Message) -> None:
    own = turn("t0", (USER,), reply("yes", reasoning="hmm"))
    assert found(recorded(own), USER, echo, USER) == (None, 0, "the history was edited")


def test_arguments_are_compared_by_value_and_calls_by_id() -> None:
    def calling(call_id: str, arguments: str) -> Message:
        return reply(None, tool_calls=(ToolCall(id=call_id, name="f", arguments=arguments),))

    recorder = recorded(turn("t0", (USER,), calling("c", '{"a": 1, "b": 2}')))
    assert found(recorder, USER, calling("c", '{"b":2,"a":1}'))[0] == "t0"
    assert found(recorder, USER, calling("d", '{"a": 1, "b": 2}'))[0] is None
    assert found(recorder, USER, calling("c", '{"a": 1, "b": 3}'))[0] is None


def test_other_tools_are_another_root() -> None:
    recorder = recorded(turn("t0", (USER,), reply(), tools=TOOLS))
    assert found(recorder, USER, reply(), USER, tools=TOOLS) == ("t0", 2, None)
    assert found(recorder, USER, reply(), USER) == (None, 0, "other tools are offered")
    assert found(recorder, USER, tools=TOOLS[::-1])[2] == "other tools are offered"


def test_another_first_message_is_another_conversation() -> None:
    system = Message(role="system", content="s")
    recorder = recorded(turn("t0", (system, USER), reply()))
    assert found(recorder, system, Message(role="user", content="other")) == (None, 0, "a new conversation")


def test_the_latest_of_equals_is_taken() -> None:
    recorder = recorded(turn("t0", (USER,), reply()), turn("t1", (USER,), reply()))
    assert found(recorder, USER, reply(), USER)[0] == "t1"


def test_reasoning_tells_siblings_apart() -> None:
    recorder = recorded(*(turn(f"t{i}", (USER,), reply(reasoning=why)) for i, why in enumerate("ab")))
    assert found(recorder, USER, reply(reasoning="a"), USER)[0] == "t0"
    assert found(recorder, USER, reply(), USER)[0] == "t1"


def test_the_longest_shared_beginning_of_ids() -> None:
    recorder = recorded(
        turn("t0", (USER,), reply(), context_ids=(1, 2)), turn("t1", (USER,), reply(), context_ids=(1, 5))
    )
    assert recorder.longest_prefix([1, 2, 3, 4]) == ("t0", 3)
    assert recorder.longest_prefix([1, 5, 9]) == ("t1", 2)
    assert recorder.longest_prefix([9]) == (None, 0)


def test_many_threads_record_every_turn() -> None:
    recorder = Recorder()

    def work() -> None:
        for _ in range(20):
            turn_id = recorder.next_id()
            recorder.match([USER, reply(), USER], ())
            recorder.add(turn(turn_id, (Message(role="user", content=turn_id),), reply()))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(int(t.id[1:]) for t in recorder.graph) == list(range(160))


CHAT = st.lists(
    st.builds(Message, role=st.just("user"), content=st.text(max_size=3))
    | st.builds(Message, role=st.just("assistant"), content=st.text(max_size=3)),
    min_size=1,
    max_size=4,
)


@given(st.lists(CHAT, max_size=5), CHAT)
def test_a_match_is_a_recorded_beginning_and_no_longer_one_exists(
    chats: list[list[Message]], asked: list[Message]
) -> None:
    recorder = recorded(*(turn(f"t{i}", tuple(chat), reply("r")) for i, chat in enumerate(chats)))
    match = recorder.match(asked, ())
    histories = [[*chat, reply("r")] for chat in chats]
    lengths = [len(h) for h in histories if asked[: len(h)] == h] + [len(asked) for chat in chats if chat == asked]
    assert match.kept == max(lengths, default=0)
    assert list(match.history) == asked[: match.kept]
