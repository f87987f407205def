"""The base model of a run is asked within its own context, by its own template, and only where a run lends it."""

from __future__ import annotations

import pytest

from art_core.errors import InputError, JudgeError
from art_core.inference.base_model import BaseModel
from art_core.inference.protocol import Completion
from art_core.judging.ruler import Ruler, ruler_score_group
from art_core.rendering.renderer import Renderer
from art_core.rendering.tokenizer import TransformersTokenizer
from art_core.rewards.combine import Combined
from art_core.rollout.group import gather
from art_core.trajectory.graph import Span
from tests.tiny import CHATML, tiny_tokenizer

from .rollouts import SCENARIO, by_words, group

WORDS = {"noon": 1.0, "late": 0.25}
STRICT = "{% if messages[0]['role'] == 'system' %}{{ raise_exception('no system') }}{% endif %}" + CHATML


class ReadingEngine:
    """Samples what a function makes of the prompt's text."""

    def __init__(self, renderer, answer):
        self.renderer, self.answer = renderer, answer
        self.loaded, self.asked = [], []

    async def load(self, version, path):
        self.loaded.append((version, path))

    async def sample(self, prompt_ids, params, version, rng_key):
        self.asked.append((tuple(prompt_ids), params, version))
        said = self.renderer.tokenizer.encode(self.answer(self.renderer.text(prompt_ids)))
        ids = (*said, *self.renderer.stop_ids)[: params.max_tokens]
        ended = "stop" if ids[-1] in params.stop_ids else "length"
        return Completion(ids=ids, logprobs=(0.0,) * len(ids), finish_reason=ended, spans=(Span(0, version),))

    async def close(self):
        pass


async def lend(ruler, answer=None, *, context=16_000, template=CHATML, name="tiny"):
    """The engine that answers for a ruler's base model; by WORDS unless told."""
    renderer = Renderer(TransformersTokenizer(tiny_tokenizer(), stop_ids=[], chat_template=template))
    told = answer or (lambda text: by_words(WORDS)([None, {"content": text}]))
    engine = ReadingEngine(renderer, told)
    ruler.borrower.lend(await BaseModel(name, engine, renderer, context=context).open())
    return engine


async def test_it_scores_by_the_base_weights_greedily_and_counts_true_tokens():
    ruler = Ruler("base", max_reply_tokens=900, price=(1, 1))
    engine = await lend(ruler)
    rewards = await ruler.score_group(group("It is noon.", "It is late."))
    assert [reward.value for reward in rewards] == [1.0, 0.25]
    ((prompt, params, version),) = engine.asked
    assert engine.loaded == [(version, None)]
    assert (params.temperature, params.max_tokens) == (0.0, 900)
    assert (ruler.account.calls, ruler.account.estimated_calls) == (1, 0)
    assert ruler.account.input_tokens == len(prompt)
    assert ruler.account.usd == pytest.approx((len(prompt) + ruler.account.output_tokens) / 1e6)


async def test_the_template_has_the_last_word():
    ruler = Ruler("base")
    engine = await lend(ruler, template=STRICT)
    await ruler.score_group(group("It is noon.", "It is late."))
    text = engine.renderer.text(engine.asked[0][0])
    assert text.startswith("<|im_start|>user\nYou compare attempts at one task.")
    assert text.endswith("<|im_start|>assistant\n")
    assert "<rubric>" in text


async def test_a_prompt_longer_than_the_context_is_cut_in_the_middle():
    ruler = Ruler("base")
    engine = await lend(ruler, context=8_000)
    long = "It is noon. " + "x" * 7_500 + " That is all."
    rewards = await ruler.score_group(group(long, "It is late."))
    assert [reward.value for reward in rewards] == [1.0, 0.25]
    prompt, params, _ = engine.asked[0]
    assert len(prompt) + params.max_tokens <= 8_000
    assert params.max_tokens == 2_000
    text = engine.renderer.text(prompt)
    assert "characters left out …]" in text
    assert "That is all.\n</trajectory>" in text


async def test_a_context_that_holds_no_prompt_leaves_the_group_unscored():
    ruler = Ruler("base")
    engine = await lend(ruler, context=512)
    with pytest.raises(JudgeError, match="2 attempts and the rubric do not fit into base/tiny"):
        await ruler.score_group(group("It is noon.", "It is late."))
    assert engine.asked == []


async def test_its_own_reply_is_cut_where_it_is_asked_again():
    replies = iter(["I think " * 200, by_words(WORDS)])
    ruler = Ruler("base")

    def answer(text):
        said = next(replies)
        return said if isinstance(said, str) else said([None, {"content": text}])

    engine = await lend(ruler, answer, context=2_000)
    await ruler.score_group(group("It is noon.", "It is late."))
    first, second = (engine.renderer.text(prompt) for prompt, *_ in engine.asked)
    assert second.startswith(first)
    assert "I think I think" in second[len(first) :]
    assert "characters left out …]" in second[len(first) :]
    assert "the reply was cut off after 500 tokens" in second
    assert all(len(prompt) + params.max_tokens <= 2_000 for prompt, params, _ in engine.asked)


async def test_two_base_models_share_no_answers(tmp_path):
    for name in ("one", "two", "one"):
        ruler = Ruler("base", cache=tmp_path)
        await lend(ruler, name=name)
        await ruler.score_group(group("It is noon.", "It is late."))
    assert len(list(tmp_path.rglob("*.json"))) == 2
    assert (ruler.account.calls, ruler.account.cached) == (0, 1)


async def test_a_model_that_is_named_must_be_that_one():
    with pytest.raises(InputError, match="judge base/other cannot be 'tiny'"):
        await lend(Ruler("base/other"))


@pytest.mark.parametrize("make", [Ruler, lambda judge: Combined(Ruler(judge), len, by="beside")])
async def test_rollouts_without_a_run_refuse_it_before_the_first(make):
    with pytest.raises(InputError, match="is the base model of a run, which only that run's engine can ask"):
        await gather(None, [SCENARIO], None, reward=make("base"))


async def test_a_group_without_a_run_refuses_it():
    with pytest.raises(InputError, match="give provider/model, model@URL or a function of messages"):
        await ruler_score_group(group("It is noon.", "It is late."), "base")
