from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from art_core.errors import InputError
from art_core.messages import MalformedCall, Message, ToolCall, ToolSpec, canonical_json
from art_core.rewards.tool_call import ToolCallReward, ToolCallWeights
from art_core.scenario import Scenario
from art_core.trajectory.graph import Turn
from art_core.trajectory.trajectory import Reward, ToolEvent, Trajectory

ZONES = {"source_timezone": "Asia/Tokyo", "time": "14:30", "target_timezone": "America/New_York"}
RIGHT = ("convert_time", ZONES)
Call = tuple[str, dict[str, Any]]


def played(
    *turns: Message, error: str | None = None, answered: bool = True, tools: tuple[ToolSpec, ...] = ()
) -> Trajectory:
    """A trajectory of these replies, each call of which was answered, with ``error`` if given."""
    trajectory = Trajectory(scenario=Scenario("s", "?"), rollout_id="r")
    for number, reply in enumerate(turns):
        ids = {"context_ids": (1,), "completion_ids": (2,), "logprobs": (-1.0,)}
        trajectory.graph.add(Turn(id=f"t{number}", reply=reply, tools=tools, **ids))
        for call in reply.tool_calls if answered else ():
            event = ToolEvent(
                turn=f"t{number}", call_id=call.id, name=call.name, arguments=call.parsed(), result="", error=error
            )
            trajectory.events.append(event)
    return trajectory


def says(*calls: Call, text: str = "", malformed: int = 0) -> Message:
    made = tuple(ToolCall(id=f"c{i}", name=name, arguments=canonical_json(a)) for i, (name, a) in enumerate(calls))
    return Message(
        role="assistant",
        content=text,
        tool_calls=made,
        malformed_calls=(MalformedCall(raw="{", error="cut"),) * malformed,
    )


def scored(*turns: Message, expected: tuple[Call, ...] = (RIGHT,), **more: Any) -> Reward:
    calls = [{"name": name, "arguments": arguments} for name, arguments in expected]
    return ToolCallReward()(played(*turns, **more), Scenario("s", "?", {"calls": calls}))


def test_the_expected_call_answered_is_a_success() -> None:
    reward = scored(says(RIGHT), says(text="It is 00:30 in New York. " * 40))
    assert (reward.value, reward.success) == (1.0, True)


def test_no_call_earns_nothing() -> None:
    reward = scored(says(text="It is half past two."))
    assert (reward.value, reward.success, reward.reason) == (0.0, False, "no call was made")


def test_each_step_towards_the_right_call_earns_more() -> None:
    steps = [
        says(text="no"),
        says(malformed=1),
        says(("get_current_time", {"timezone": "Asia/Tokyo"})),
        says(("convert_time", {})),
        says(("convert_time", {"from": "Asia/Tokyo", "time": "14:30"})),
        says(("convert_time", ZONES | {"target_timezone": "New York", "source_timezone": "Tokyo"})),
        says(("convert_time", ZONES | {"target_timezone": "America/Chicago"})),
        says(RIGHT),
    ]
    values = [scored(step).value for step in steps]
    assert values == sorted(values)
    assert len(set(values)) == len(values)


def test_parts_are_reported() -> None:
    reward = scored(says(("convert_time", ZONES | {"time": "14:00"})), error="tool_error")
    assert reward.parts == pytest.approx(
        {"call": 1, "tool": 1, "names": 1, "values": 2.256 / 3, "answered": 0, "surplus": 0, "text": 0}
    )
    assert reward.value == pytest.approx(0.1 + 0.05 + 0.35 + 0.4 * 2.256 / 3)


def test_a_valid_call_to_somewhere_else_earns_less_than_a_misspelt_right_one() -> None:
    elsewhere = scored(says(("convert_time", ZONES | {"source_timezone": "Europe/Paris"})))
    misspelt = scored(says(("convert_time", ZONES | {"source_timezone": "Asia/Tokio"})), error="tool_error")
    assert elsewhere.value < misspelt.value


@pytest.mark.parametrize("more", [{"error": "tool_error"}, {"answered": False}])
def test_a_call_without_a_good_answer_is_no_success(more: dict[str, Any]) -> None:
    reward = scored(says(RIGHT), **more)
    assert reward.success is False
    assert reward.value == pytest.approx(0.9)


def test_repeating_the_right_call_earns_less() -> None:
    values = [scored(says(*[RIGHT] * times)).value for times in (1, 2, 3, 8)]
    assert values == pytest.approx([1, 1 / 2, 1 / 3, 1 / 8])
    assert scored(says(RIGHT), says(RIGHT)).value == pytest.approx(0.5)


@pytest.mark.parametrize("tools", [2, 3, 8, 20])
@pytest.mark.parametrize("error", [None, "tool_error"])
def test_calling_every_tool_earns_less_than_guessing_one(tools: int, error: str | None) -> None:
    others = [(f"other{i}", ZONES) for i in range(tools - 1)]
    guessing = (
        scored(says(RIGHT), error=error).value + sum(scored(says(o), error=error).value for o in others)
    ) / tools
    assert scored(says(*others, RIGHT), error=error).value < guessing
    assert scored(*(says(call) for call in [*others, RIGHT]), error=error).value < guessing


def test_guessing_many_values_earns_less_than_one_guess() -> None:
    guesses = [("convert_time", ZONES | {"time": f"{hour:02}:30"}) for hour in range(24)]
    one = sum(scored(says(guess)).value for guess in guesses) / 24
    assert scored(says(*guesses)).value < one


def test_empty_arguments_earn_less_than_wrong_values() -> None:
    assert scored(says(("convert_time", {}))).value < scored(says(("convert_time", dict.fromkeys(ZONES, "x")))).value


def test_superfluous_arguments_cost() -> None:
    reward = scored(says(("convert_time", ZONES | {"note": "please"})))
    assert reward.success is False
    assert (reward.parts["names"], reward.parts["values"]) == (0.75**2, 0)


def test_a_call_that_cannot_be_carried_out_earns_less_than_the_wrong_tool() -> None:
    tools = tuple(
        ToolSpec(name=name, parameters={"type": "object", "required": required})
        for name, required in (("convert_time", list(ZONES)), ("get_current_time", ["timezone"]))
    )
    wrong_tool = scored(says(("get_current_time", {"timezone": "Asia/Tokyo"})), tools=tools)
    wrong_values = scored(says(("convert_time", dict.fromkeys(ZONES, "x"))), tools=tools)
    incomplete = scored(says(("convert_time", {"source_timezone": "Asia/Tokyo"})), tools=tools)
    unknown = scored(says(("convert", ZONES)), tools=tools)
    assert wrong_tool.value == pytest.approx(0.1)
    assert wrong_values.value == pytest.approx(0.1 + 0.05 + 0.35)
    assert incomplete.value == unknown.value == scored(says(malformed=1)).value == pytest.approx(0.025)
    assert incomplete.reason == "a call names a tool that was not offered or lacks a required argument"


def test_an_argument_at_its_declared_default_costs_nothing() -> None:
    tool = ToolSpec(name="convert_time", parameters={"type": "object", "properties": {"day": {"default": 0}}})
    assert scored(says(("convert_time", ZONES | {"day": 0})), tools=(tool,)).success is True
    assert scored(says(("convert_time", ZONES | {"day": 1})), tools=(tool,)).success is False


def test_a_refused_attempt_made_again_costs_little() -> None:
    trajectory = played(says(("convert_time", {"time": "14:30"})), says(RIGHT))
    trajectory.events[0] = ToolEvent(
        turn="t0", call_id="c0", name="convert_time", arguments={}, result="", error="tool_error"
    )
    reward = ToolCallReward()(trajectory, Scenario("s", "?", {"calls": [{"name": "convert_time", "arguments": ZONES}]}))
    assert (reward.value, reward.success) == (pytest.approx(0.8), False)


def test_malformed_attempts_beside_the_right_call_cost() -> None:
    values = [scored(says(RIGHT, malformed=n)).value for n in (0, 1, 4)]
    assert values == pytest.approx([1, 0.8, 0.5])


def test_many_malformed_attempts_earn_less_than_one() -> None:
    assert scored(says(malformed=5)).value < scored(says(malformed=1)).value < 0.05


def test_text_around_the_call_costs_at_most_a_tenth() -> None:
    values = [scored(says(RIGHT, text="a" * size)).value for size in (80, 280, 480, 5000)]
    assert values == pytest.approx([1, 0.95, 0.9, 0.9])


def test_expected_calls_are_paired_whatever_their_order() -> None:
    pair = (("a", {"x": 1}), ("a", {"x": 2}))
    assert scored(says(*pair[::-1]), expected=pair).success is True
    assert scored(says(pair[1]), says(pair[0]), expected=pair).value == 1.0


def test_a_missing_call_of_two_earns_half() -> None:
    pair = (("a", {"x": 1}), ("b", {"x": 2}))
    reward = scored(says(pair[0]), expected=pair)
    assert (reward.value, reward.success, reward.reason) == (0.5, False, "a call is missing")


def test_where_no_call_is_expected_silence_is_right() -> None:
    assert scored(says(text="Hello!"), expected=()).success is True
    assert scored(says(RIGHT), expected=()).value == 0.0


def test_numbers_are_compared_by_value() -> None:
    assert scored(says(("add", {"a": 1.0, "b": 2})), expected=(("add", {"a": 1, "b": 2.0}),)).success is True


@pytest.mark.parametrize(
    "expected", [None, "x", {"calls": "x"}, {"calls": [{"arguments": {}}]}, {"calls": [{"name": "a", "arguments": 1}]}]
)
def test_a_scenario_without_expected_calls_is_an_error(expected: Any) -> None:
    with pytest.raises(InputError, match="scenario 's'"):
        ToolCallReward()(played(says(RIGHT)), Scenario("s", "?", expected))


def test_weights_are_scaled() -> None:
    reward = ToolCallReward(ToolCallWeights(call=1, tool=1, names=0, values=0, answered=0))
    assert reward(played(says(("x", {}))), Scenario("s", "?", {"calls": [{"name": "y"}]})).value == 0.5


@pytest.mark.parametrize(
    "weights", [{"call": -1.0}, dict.fromkeys(("call", "tool", "names", "values", "answered"), 0.0)]
)
def test_weights_that_make_no_sense_are_refused(weights: dict[str, float]) -> None:
    with pytest.raises(InputError, match="weight"):
        ToolCallWeights(**weights)


_CALLS = st.tuples(
    st.sampled_from(["convert_time", "other"]),
    st.dictionaries(st.sampled_from([*ZONES, "note"]), st.sampled_from(["Asia/Tokyo", "14:30", "America/New_York", 3])),
)


@given(st.lists(st.lists(_CALLS, max_size=3), max_size=3), st.integers(0, 2), st.sampled_from([None, "tool_error"]))
def test_only_the_exact_calls_earn_everything(turns: list[list[Call]], malformed: int, error: str | None) -> None:
    reward = scored(*(says(*calls) for calls in turns), says(malformed=malformed), error=error)
    exact = [call for calls in turns for call in calls] == [RIGHT] and not malformed and error is None
    assert 0 <= reward.value <= 1
    assert (reward.value > 0.999) == reward.success == exact
