from __future__ import annotations

import pytest

from art_core.errors import InputError
from art_core.loop.preflight import check_scenarios, preflight, scripted_reply
from art_core.messages import Message, ToolSpec
from art_core.rollout.limits import Limits
from art_core.scenario import Scenario

from .fake import agent, reward

CALL = {"name": "convert", "arguments": {"time": "10:00"}}
USER = Message(role="user", content="go")
TOOLS = [ToolSpec(name="convert")]


async def tried(agent=agent, reward=reward, warn=print):
    await preflight(agent, Scenario("q", "go"), reward, limits=Limits(), warn=warn)


@pytest.mark.parametrize("expected", [CALL, [CALL], {"calls": [CALL]}, {"call": CALL}])
def test_the_script_makes_the_expected_call_in_any_form(expected):
    reply = scripted_reply(Scenario("q", "go", expected), [USER], TOOLS)
    assert [(call.name, call.parsed()) for call in reply.tool_calls] == [("convert", {"time": "10:00"})]


def test_the_script_makes_it_once():
    first = scripted_reply(Scenario("q", "go", CALL), [USER], TOOLS)
    assert scripted_reply(Scenario("q", "go", CALL), [USER, first], TOOLS).text == "done"


def test_the_script_calls_nothing_that_is_not_offered():
    assert scripted_reply(Scenario("q", "go", CALL), [USER], []).tool_calls == ()


def test_expected_text_is_said():
    assert scripted_reply(Scenario("q", "go", "Paris"), [USER], []).text == "Paris"


def test_an_agent_that_can_tell_is_asked_about_every_scenario():
    asked = []

    class Choosy:
        def check_scenario(self, scenario):
            asked.append(scenario.id)

        async def __call__(self, scenario, session): ...

    check_scenarios(Choosy(), [Scenario("a", "go"), Scenario("b", "stay")])
    assert asked == ["a", "b"]


async def test_a_reward_that_raises_is_named():
    def strict(trajectory, scenario):
        raise KeyError("answer")

    with pytest.raises(InputError, match=r"reward 'strict' cannot be used.*KeyError: 'answer'"):
        await tried(reward=strict)


async def test_what_is_not_a_reward_is_refused():
    with pytest.raises(InputError, match=r"reward 0.5 cannot be used; give a function"):
        await tried(reward=0.5)


async def test_an_agent_that_fails_before_asking_is_refused():
    async def broken(scenario, session):
        raise RuntimeError("server not found")

    with pytest.raises(InputError, match=r"the agent failed .*server not found.* before it asked the model anything"):
        await tried(broken)


async def test_an_agent_that_fails_on_the_scripted_answer_is_only_told():
    async def picky(scenario, session):
        await agent(scenario, session)
        raise ValueError("not JSON")

    told = []
    await tried(picky, warn=told.append)
    assert "not JSON" in told[0]
