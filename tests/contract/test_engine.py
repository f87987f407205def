"""What every Engine promises. Add a factory to ``FACTORIES`` and these tests hold the new one to it.

1. A completion has as many logprobs as ids, at most ``max_tokens`` of them, and says why it ended.
2. A sampled stop id ends the completion and is part of it.
3. Equal keys give equal draws; other keys give others.
4. Temperature 0 takes the same ids whatever the key.
5. Every id has a version; a new version is in effect when ``load`` returns, and an older one can still be asked for.
6. Many requests at once are all answered, each with its own completion.
7. An unknown version and use after ``close`` are ``ProviderError``s.
"""

import asyncio
import math

import pytest

from art_core.errors import ProviderError
from art_core.inference.protocol import Engine, SamplingParams
from art_core.inference.transformers_engine import TransformersEngine
from art_core.trajectory.graph import PolicyVersion
from tests.tiny import tiny_model

PROMPT = [5, 6, 7, 8]


def transformers_engine():
    return TransformersEngine(tiny_model())


def deterministic_engine():
    return TransformersEngine(tiny_model(), deterministic=True)


FACTORIES = {"transformers": transformers_engine, "deterministic": deterministic_engine}


@pytest.fixture(params=FACTORIES)
async def engine(request):
    engine = FACTORIES[request.param]()
    yield engine
    await engine.close()


async def draw(engine, *, key=1, version=None, prompt=PROMPT, **params):
    return await engine.sample(prompt, SamplingParams(**{"max_tokens": 12} | params), version, key)


async def test_it_is_an_engine(engine):
    assert isinstance(engine, Engine)


async def test_1_ids_and_logprobs_are_parallel_and_bounded(engine):
    completion = await draw(engine)
    assert len(completion.ids) == len(completion.logprobs) == 12
    assert all(math.isfinite(value) and value <= 0 for value in completion.logprobs)
    assert completion.finish_reason == "length"


async def test_2_a_stop_id_ends_the_completion_and_is_kept(engine):
    free = await draw(engine)
    stopped = await draw(engine, stop_ids=frozenset({free.ids[4]}))
    assert stopped.ids == free.ids[: free.ids.index(free.ids[4]) + 1]
    assert stopped.finish_reason == "stop"


async def test_3_the_key_decides_the_draw(engine):
    one, again, other = [await draw(engine, key=key, temperature=1.3) for key in (1, 1, 2)]
    assert one.ids == again.ids != other.ids


async def test_4_greedy_ignores_the_key(engine):
    assert (await draw(engine, key=1, temperature=0)).ids == (await draw(engine, key=2, temperature=0)).ids


async def test_5_a_loaded_version_is_in_effect_and_older_ones_stay(engine):
    first = await draw(engine)
    await engine.load(PolicyVersion("default", 1), None)
    second = await draw(engine)
    old = await draw(engine, version=first.spans[0].version)
    assert second.spans[0].version == PolicyVersion("default", 1)
    assert old.spans == first.spans
    assert old.ids == first.ids


async def test_6_many_requests_are_each_answered(engine):
    prompts = [[number, number + 1] for number in range(1, 30)]
    together = await asyncio.gather(*(draw(engine, prompt=prompt, key=prompt[0]) for prompt in prompts))
    alone = await draw(engine, prompt=prompts[3], key=prompts[3][0])
    assert together[3].ids == alone.ids
    await engine.drain()


async def test_7_an_unknown_version_is_refused(engine):
    with pytest.raises(ProviderError, match="other@9"):
        await draw(engine, version=PolicyVersion("other", 9))


async def test_7_a_closed_engine_is_refused(engine):
    await engine.close()
    with pytest.raises(ProviderError, match="closed"):
        await draw(engine)
