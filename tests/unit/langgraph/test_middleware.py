"""``create_agent`` with the middleware that people put around its model calls."""

from __future__ import annotations

from langchain.agents.middleware import (
    HumanInTheLoopMiddleware,
    ModelCallLimitMiddleware,
    ModelFallbackMiddleware,
    ModelRetryMiddleware,
    SummarizationMiddleware,
    after_model,
    before_model,
    dynamic_prompt,
    wrap_model_call,
)
from langchain_anthropic import ChatAnthropic
from langgraph.checkpoint.memory import InMemorySaver

from tests.unit.rollout.reading import said

from .graphs import assistant, production_model
from .running import asked, callers, forks, run

CALL = [("get_time", {"city": "Rome"})]
CALL_TEXT = '<tool_call>\n{"name": "get_time", "arguments": {"city": "Rome"}}\n</tool_call>'


async def test_a_call_that_failed_and_is_tried_again_is_one_turn():
    again = ModelRetryMiddleware(max_retries=2, initial_delay=0, jitter=False)
    trajectory = await run(assistant(middleware=[again]), [RuntimeError("busy"), CALL, "Noon."])
    assert said(trajectory) == [CALL_TEXT, "Noon."]
    assert trajectory.metrics["provider_errors"] == 1
    assert trajectory.error is None


async def test_a_fallback_model_is_the_policy_too():
    other = ModelFallbackMiddleware(ChatAnthropic(model="claude-sonnet-5", api_key="none"))
    trajectory = await run(assistant(middleware=[other]), [RuntimeError("busy"), "Noon."])
    assert said(trajectory) == ["Noon."]
    assert callers(trajectory, "model") == ["claude-sonnet-5"]


async def test_a_limit_of_model_calls_ends_the_graph_as_in_production():
    limit = ModelCallLimitMiddleware(run_limit=1)
    trajectory = await run(assistant(middleware=[limit]), [CALL])
    assert trajectory.error is None
    assert trajectory.output["messages"][-1].text.startswith("Model call limits exceeded")
    assert said(trajectory) == [CALL_TEXT]


async def test_a_summary_is_a_turn_and_what_follows_it_a_new_conversation():
    summarise = SummarizationMiddleware(production_model(), trigger=("messages", 4), keep=("messages", 2))
    replies = [CALL, CALL, "Time in Rome was asked.", "Noon."]
    trajectory = await run(assistant(middleware=[summarise]), replies)
    assert said(trajectory) == [CALL_TEXT, CALL_TEXT, "Time in Rome was asked.", "Noon."]
    assert callers(trajectory, "source") == [None, None, "summarization", None]
    assert forks(trajectory) == [None, None, "a new conversation", "a new conversation"]
    assert "Time in Rome was asked." in asked(trajectory)[3][0][1]
    assert len(trajectory.samples()) == 3


async def test_a_summariser_that_is_not_trained_answers_itself():
    from langchain_core.language_models.fake_chat_models import FakeListChatModel

    summariser = FakeListChatModel(responses=["Time in Rome was asked."])
    summarise = SummarizationMiddleware(summariser, trigger=("messages", 4), keep=("messages", 2))
    trajectory = await run(assistant(middleware=[summarise]), [CALL, CALL, "Noon."], train="gpt-5-mini")
    assert said(trajectory) == [CALL_TEXT, CALL_TEXT, "Noon."]
    assert "Time in Rome was asked." in asked(trajectory)[2][0][1]
    assert trajectory.metrics["environment_model_calls"] == 1


def supervised():
    ask = HumanInTheLoopMiddleware({"get_time": True})
    return assistant(middleware=[ask], checkpointer=InMemorySaver())


async def test_a_call_that_a_person_approves_goes_on_where_it_was():
    trajectory = await run(
        supervised(), [CALL, "Noon."], on_interrupt=lambda asked: {"decisions": [{"type": "approve"}]}
    )
    assert said(trajectory) == [CALL_TEXT, "Noon."]
    assert asked(trajectory)[1][-1] == ("tool", "It is noon in Rome.")
    assert forks(trajectory) == [None, None]


async def test_a_call_that_a_person_rejects_is_told_to_the_model():
    trajectory = await run(
        supervised(),
        [CALL, "Sorry."],
        on_interrupt=lambda asked: {"decisions": [{"type": "reject", "message": "not now"}]},
    )
    assert asked(trajectory)[1][-1][1].endswith("not now")
    assert forks(trajectory) == [None, None]


async def test_a_call_that_a_person_edits_is_trained_as_it_was_sampled_and_run_as_edited():
    edited = {"name": "get_time", "args": {"city": "Oslo"}}
    trajectory = await run(
        supervised(),
        [CALL, "Noon in Oslo."],
        on_interrupt=lambda asked: {"decisions": [{"type": "edit", "edited_action": edited}]},
    )
    assert said(trajectory) == [CALL_TEXT, "Noon in Oslo."]
    assert asked(trajectory)[1][-1][1].endswith("It is noon in Oslo.")


async def test_a_call_that_a_hook_edits_is_context_and_the_sampled_one_is_trained():
    @after_model
    def to_oslo(state, runtime):
        last = state["messages"][-1]
        calls = [{**call, "args": {"city": "Oslo"}} for call in last.tool_calls]
        return {"messages": [last.model_copy(update={"tool_calls": calls})]}

    trajectory = await run(assistant(middleware=[to_oslo]), [CALL, "Noon in Oslo."])
    assert said(trajectory) == [CALL_TEXT, "Noon in Oslo."]
    assert trajectory.messages[1].tool_calls[0].parsed() == {"city": "Oslo"}
    assert forks(trajectory) == [None, "the history was edited"]
    assert len(trajectory.samples()) == 2


async def test_a_model_that_is_chosen_per_call_is_captured_as_what_it_is():
    claude = ChatAnthropic(model="claude-sonnet-5", api_key="none")

    @wrap_model_call
    async def later_claude(request, handler):
        return await handler(request.override(model=claude) if len(request.messages) > 1 else request)

    trajectory = await run(assistant(middleware=[later_claude]), [CALL, "Noon."])
    assert callers(trajectory, "model") == ["gpt-5-mini", "claude-sonnet-5"]
    assert callers(trajectory, "provider") == ["ChatOpenAI", "ChatAnthropic"]
    assert forks(trajectory) == [None, None]
    assert len(trajectory.samples()) == 1


async def test_tools_that_are_chosen_per_call_are_a_new_conversation():
    @wrap_model_call
    async def without_tools(request, handler):
        return await handler(request.override(tools=[]) if len(request.messages) > 1 else request)

    trajectory = await run(assistant(middleware=[without_tools]), [CALL, "Noon."])
    assert [len(turn.tools) for turn in trajectory.turns] == [2, 0]
    assert forks(trajectory) == [None, "other tools are offered"]


async def test_a_prompt_that_changes_is_a_new_conversation():
    prompt = dynamic_prompt(lambda request: f"Message {len(request.messages)}.")
    trajectory = await run(assistant(middleware=[prompt]), [CALL, "Noon."])
    assert [request[0] for request in asked(trajectory)] == [("system", "Message 1."), ("system", "Message 3.")]
    assert forks(trajectory) == [None, "a new conversation"]


async def test_a_hook_before_the_model_is_a_node_and_asks_nothing():
    seen = []
    hook = before_model(lambda state, runtime: seen.append(len(state["messages"])))
    trajectory = await run(assistant(middleware=[hook]), [CALL, "Noon."])
    assert seen == [1, 3]
    assert callers(trajectory) == ["model", "model"]
