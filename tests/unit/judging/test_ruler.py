"""A group is scored by what its rollouts did, matched by name, the same in whatever order they come; a judge that fails leaves no score."""

from __future__ import annotations

import asyncio
import itertools
import re

import pytest

import art_core as art
from art_core.errors import InputError, JudgeError
from art_core.judging.ruler import Ruler, ruler_score_group
from tests.servers.chat_server import chat_server

from .malformed import GOOD, MEANT, UNCLEAR
from .rollouts import attempts_in, by_words, group, verdict

WORDS = {"noon": 1.0, "late": 0.25, "dunno": 0.0}


def values(rewards):
    return [reward.value for reward in rewards]


async def test_scores_are_matched_by_name_whatever_the_order_of_the_reply():
    def best_first(messages):
        shown = attempts_in(messages)
        return verdict(dict(sorted(((n, 1.0 if "noon" in t else 0.25) for n, t in shown.items()), key=lambda p: -p[1])))

    ruler = Ruler(best_first)
    assert values(await ruler.score_group(group("It is late.", "It is noon."))) == [0.25, 1.0]
    assert values(await ruler.score_group(group("It is noon.", "It is late."))) == [1.0, 0.25]


async def test_no_permutation_of_the_siblings_changes_a_score_or_asks_again():
    ruler = Ruler(by_words(WORDS))
    said = ["It is noon.", "It is late.", "I dunno."]
    for order in itertools.permutations(said):
        rewards = await ruler.score_group(group(*order))
        assert values(rewards) == [next(s for word, s in WORDS.items() if word in text) for text in order]
    assert (ruler.account.calls, ruler.account.cached) == (1, 5)


async def test_votes_see_other_orders_and_other_names_and_are_averaged():
    asked = []

    def first_is_best(messages):
        asked.append(attempts_in(messages))
        return verdict({name: float(place == 0) for place, name in enumerate(asked[-1])})

    rewards = await Ruler(first_is_best, votes=8).score_group(group("It is noon.", "It is late."))
    assert {tuple(text.split("\n")[-1] for text in shown.values()) for shown in asked} == {
        ("It is noon.", "It is late."),
        ("It is late.", "It is noon."),
    }
    assert len({name for shown in asked for name in shown}) > 2
    assert sum(values(rewards)) == 1.0
    assert 0 < rewards[0].value < 1


async def test_rollouts_that_did_the_same_are_shown_once_and_score_the_same():
    shown = []

    def judge(messages):
        shown.append(attempts_in(messages))
        return by_words(WORDS)(messages)

    assert values(await Ruler(judge).score_group(group("It is noon.", "It is late.", "It is noon."))) == [1, 0.25, 1]
    assert len(shown[0]) == 2


async def test_a_group_that_all_did_the_same_is_not_sent():
    ruler = Ruler(lambda messages: pytest.fail("asked"))
    rewards = await ruler.score_group(group("It is noon.", "It is noon."))
    assert [(r.value, r.reason) for r in rewards] == [(0.5, "all siblings did the same; the judge was not asked")] * 2
    assert (ruler.account.calls, ruler.account.not_sent) == (0, 1)


async def test_the_only_sibling_that_did_not_fail_has_no_score():
    ruler = Ruler(lambda messages: pytest.fail("asked"))
    found = await ruler_score_group(group("It is noon."), lambda messages: pytest.fail("asked"))
    assert found.trajectories[0].reward is None
    assert found.trajectories[0].reward_reason == (
        "judge: there is nothing to compare this rollout with: its siblings failed"
    )
    with pytest.raises(JudgeError, match="nothing to compare"):
        await ruler.score_group(group("It is noon."))


async def test_a_rollout_of_an_evaluation_is_graded_by_itself_with_another_prompt():
    prompts = []

    def judge(messages):
        prompts.append(messages[0]["content"])
        return by_words(WORDS)(messages)

    ruler = Ruler(judge, success_at=0.8)
    (reward,) = await ruler.score_group(group("It is noon.", evaluating=True))
    assert (reward.value, reward.success) == (1.0, True)
    await ruler.score_group(group("It is noon.", "It is late."))
    assert prompts[0] != prompts[1]


async def test_an_answer_that_cannot_be_used_is_sent_back_with_the_reason():
    asked = []

    def judge(messages):
        asked.append(messages)
        if len(asked) == 1:
            return verdict({next(iter(attempts_in(messages))): 0.5})
        return by_words(WORDS)(messages)

    ruler = Ruler(judge)
    assert values(await ruler.score_group(group("It is noon.", "It is late."))) == [1.0, 0.25]
    assert [message["role"] for message in asked[1]] == ["system", "user", "assistant", "user"]
    assert asked[1][-1]["content"].startswith("That cannot be used: no score for ")
    assert (ruler.account.calls, ruler.account.refused) == (2, 1)


def about(text, messages):
    """A reply about A and B, about the attempts that the judge is shown: A is the one that says noon."""
    names = {"A" if "noon" in said else "B": name for name, said in attempts_in(messages).items()}
    return re.sub(r"\b[AB]\b", lambda found: names[found[0]], text)


async def test_every_form_of_a_reply_that_can_be_meant_is_read_from_a_service():
    left = iter(MEANT)
    with chat_server(lambda body: about(next(left), body["messages"])) as server:
        ruler = Ruler(f"judge@{server.url}")
        for number, text in enumerate(MEANT):
            scores = await ruler.score_group(group("It is late.", f"It is noon, {number}."))
            assert values(scores) == [0.1, 0.9], text
        await ruler.close()
    assert len(server.requests) == len(MEANT) >= 25


async def test_every_reply_of_no_clear_meaning_is_refused_to_a_service_and_the_next_one_counts():
    replies = itertools.chain.from_iterable((text, GOOD) for text, _ in UNCLEAR)
    with chat_server(lambda body: about(next(replies), body["messages"])) as server:
        ruler = Ruler(f"judge@{server.url}")
        for number, (text, _) in enumerate(UNCLEAR):
            scores = await ruler.score_group(group("It is late.", f"It is noon, {number}."))
            assert values(scores) == [0.1, 0.9], text
        await ruler.close()
    again = server.requests[1::2]
    assert len(again) == len(UNCLEAR) >= 25
    assert all("That cannot be used: " in body["messages"][-1]["content"] for body in again)
    assert ruler.account.refused == len(UNCLEAR)


async def test_without_a_rubric_the_judge_goes_by_the_default_one():
    asked = []

    def judge(messages):
        asked.append(messages[1]["content"])
        return by_words(WORDS)(messages)

    await ruler_score_group(group("It is noon.", "It is late."), judge, rubric=None)
    assert art.DEFAULT_RUBRIC in asked[0]


async def test_only_scores_are_added_to_what_the_rollouts_hold():
    before = group("It is noon.", "It is late.")
    before.trajectories[0].metadata["kept"] = 1
    before.trajectories[0].metrics["latency"] = 2.0
    turns = [list(trajectory.turns) for trajectory in before]
    found = await ruler_score_group(before, by_words(WORDS))
    assert found is before
    first = found.trajectories[0]
    assert (first.reward, first.metadata["kept"], first.metrics["latency"]) == (1.0, 1, 2.0)
    assert [list(trajectory.turns) for trajectory in found] == turns


async def test_a_judge_that_never_answers_usably_leaves_the_group_unscored_with_the_reason():
    found = await ruler_score_group(group("It is noon.", "It is late."), lambda messages: "A is better.", attempts=2)
    assert found.rewards == [None, None]
    assert {t.reward_reason for t in found} == {
        "judge: <lambda> gave no usable reply in 2 attempts: the reply holds no JSON that can be read: A is better."
    }


async def test_a_judge_that_raises_leaves_the_group_unscored():
    def judge(messages):
        raise ValueError("[/INST] no")

    found = await ruler_score_group(group("It is noon.", "It is late."), judge)
    assert {t.reward_reason for t in found} == {"judge: judge: ValueError: [/INST] no"}


async def test_votes_that_failed_are_left_out_and_told():
    asked = []

    def judge(messages):
        asked.append(messages)
        if len(asked) == 1:
            raise ValueError("busy")
        return by_words(WORDS)(messages)

    rewards = await Ruler(judge, votes=3, concurrency=1).score_group(group("It is noon.", "It is late."))
    assert values(rewards) == [1.0, 0.25]
    assert rewards[0].reason.endswith(" (2 of 3 votes)")


async def test_a_slow_judge_is_given_up():
    async def judge(messages):
        await asyncio.sleep(30)

    found = await ruler_score_group(group("It is noon.", "It is late."), judge, seconds=0.05)
    assert {t.reward_reason for t in found} == {"judge: judge: no answer within 0.05 s"}


async def test_answers_are_remembered_in_a_directory(tmp_path):
    first, second = (Ruler(by_words(WORDS), cache=tmp_path) for _ in range(2))
    told = [values(await ruler.score_group(group("It is noon.", "It is late."))) for ruler in (first, second)]
    assert told == [[1.0, 0.25]] * 2
    assert (first.account.calls, second.account.calls, second.account.cached) == (1, 0, 1)


async def test_another_rubric_is_another_question(tmp_path):
    for rubric in (None, "Politeness.", None):
        ruler = Ruler(by_words(WORDS), rubric, cache=tmp_path)
        await ruler.score_group(group("It is noon.", "It is late."))
    assert len(list(tmp_path.rglob("*.json"))) == 2


async def test_tokens_and_money_are_counted_and_a_budget_is_never_exceeded():
    with chat_server(lambda body: by_words(WORDS)(body["messages"])) as server:
        ruler = Ruler(f"judge@{server.url}", price=(1.0, 10.0), budget=0.05, max_reply_tokens=4_000)
        await ruler.score_group(group("It is noon.", "It is late."))
        assert ruler.account.input_tokens == 11
        assert ruler.account.output_tokens == 3
        assert ruler.account.usd == pytest.approx((11 * 1 + 3 * 10) / 1e6)
        ruler.account.usd = 0.02  # what is left does not hold the longest reply
        with pytest.raises(JudgeError, match=r"the judge's budget of 0.05 USD is used up"):
            await ruler.score_group(group("It is noon.", "It is early."))
        assert ruler.exhausted == "the judge's budget of 0.05 USD is used up"
        assert len(server.requests) == 1
        await ruler.close()


async def test_a_judges_own_calls_are_never_turns_of_a_rollout():
    with chat_server(lambda body: by_words(WORDS)(body["messages"])) as server:
        ruler = Ruler(f"judge@{server.url}")

        async def agent(scenario, session):
            await session.chat([{"role": "user", "content": "Hi."}])
            return values(await ruler.score_group(group("It is noon.", "It is late.")))

        trajectory = await art.rollout(agent, art.Scenario("s", ""), art.ScriptedPolicy(["Hello."]))
        await ruler.close()
    assert trajectory.output == [1.0, 0.25]
    assert (len(trajectory.turns), trajectory.model_calls) == (1, [])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"judge": 3}, "judge 3 cannot be asked"),
        ({"judge": "gpt-5"}, "is not of the form provider/model"),
        ({"judge": len, "votes": 0}, "votes of a judge must be a whole number of at least 1, got 0"),
        ({"judge": len, "attempts": True}, "attempts of a judge must be a whole number of at least 1, got True"),
        ({"judge": len, "budget": 1.0}, "a judge's budget of 1.0 USD needs price"),
    ],
)
def test_what_cannot_be_used_is_told(options, message):
    with pytest.raises(InputError, match=message):
        Ruler(**options)
