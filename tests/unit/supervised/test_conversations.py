"""Rollouts as chats: every reply once, after exactly what it was asked."""

from __future__ import annotations

import art_core as art
from art_core.messages import Message, ToolCall, ToolSpec
from art_core.rollout.selection import Selection
from art_core.supervised.conversations import chat_record, chats_of

LOOK = ToolSpec(name="look")
USER = Message(role="user", content="Time?")
CALLS = Message(role="assistant", tool_calls=(ToolCall(id="c1", name="look", arguments='{"at": "clock"}'),))
RESULT = Message(role="tool", tool_call_id="c1", content="12")
NOON = Message(role="assistant", content="Noon.")


def call(messages, reply, tools=(LOOK,), **more):
    return art.ModelCall(messages=tuple(messages), reply=reply, tools=tools, **more)


def chats(*calls, selection=None):
    trajectory = art.Trajectory(scenario=art.Scenario("s", "q"), rollout_id="r", model_calls=list(calls))
    return chats_of(trajectory, selection or Selection())


def learnt(chat):
    return [message.text or "call" for message, flag in zip(chat.messages, chat.trained, strict=True) if flag]


def test_a_conversation_of_two_calls_is_one_chat():
    (chat,) = chats(call([USER], CALLS), call([USER, CALLS, RESULT], NOON))
    assert chat.messages == (USER, CALLS, RESULT, NOON)
    assert chat.trained == (False, True, False, True)
    assert chat.tools == (LOOK,)


def test_an_echo_that_writes_its_arguments_otherwise_is_the_same():
    echo = Message(role="assistant", tool_calls=(ToolCall(id="c1", name="look", arguments='{ "at":"clock" }'),))
    (chat,) = chats(call([USER], CALLS), call([USER, echo, RESULT], NOON))
    assert learnt(chat) == ["call", "Noon."]


def test_an_edited_history_is_a_chat_of_its_own_and_the_edit_is_not_learnt():
    edited = Message(role="assistant", content="(summary)")
    first, second = chats(call([USER], CALLS), call([USER, edited, USER], NOON))
    assert (learnt(first), learnt(second)) == (["call"], ["Noon."])


def test_what_two_conversations_begin_with_is_learnt_once():
    other = Message(role="assistant", content="Midday.")
    begin = [USER, CALLS, RESULT]
    first, second = chats(call([USER], CALLS), call(begin, NOON), call(begin, other))
    assert (learnt(first), learnt(second)) == (["call", "Noon."], ["Midday."])


def test_other_tools_are_another_conversation():
    first, second = chats(call([USER], CALLS), call([USER, CALLS, RESULT], NOON, tools=()))
    assert (learnt(first), learnt(second)) == (["call"], ["Noon."])


def test_the_same_call_twice_is_learnt_once():
    (chat,) = chats(call([USER], NOON), call([USER], NOON))
    assert learnt(chat) == ["Noon."]


def test_an_example_that_was_given_is_not_learnt():
    given = [USER, Message(role="assistant", content="(example)"), USER]
    (chat,) = chats(call(given, NOON))
    assert learnt(chat) == ["Noon."]


def test_what_failed_or_said_nothing_is_left_out():
    broken = art.ModelCall(messages=(USER,), reply=None, error="500")
    assert chats(broken, call([USER], Message(role="assistant", content=" "))) == []


def test_calls_that_are_not_trained_are_left_out():
    judge, own = {"model": "judge"}, {"model": "gpt"}
    (chat,) = chats(call([USER], CALLS, metadata=judge), call([USER], NOON, metadata=own), selection=Selection("gpt"))
    assert learnt(chat) == ["Noon."]


async def test_turns_of_a_policy_become_chats_too():
    async def agent(scenario, session):
        first = await session.turn([USER], [LOOK])
        await session.turn([USER, first.reply, Message(role="user", content="Sure?")], [LOOK])

    trajectory = await art.rollout(agent, art.Scenario("s", "q"), art.ScriptedPolicy(["Noon.", "Yes."]))
    (chat,) = chats_of(trajectory, Selection())
    assert learnt(chat) == ["Noon.", "Yes."]


def test_a_chat_as_a_line_says_what_is_trained():
    first, second = chats(call([USER], CALLS), call([USER, NOON, USER], NOON))
    assert [message.get("train") for message in chat_record(second)["messages"]] == [None, False, None, None]
    assert chat_record(first)["tools"] == [LOOK.to_wire()]
