"""The benchmark of captured calls takes apart what it measures."""

from __future__ import annotations

import pytest

from art_integrations.langgraph import install
from benchmarks.capture_overhead import REPLY, Fake, captured


@pytest.fixture(autouse=True)
def _installed():
    install()


@pytest.mark.parametrize("way", ["invoke", "stream", "ainvoke", "astream"])
async def test_a_captured_call_takes_longer_than_its_policy(way):
    figures = await captured(way, 2)
    assert 0 < figures["policy"] < figures["whole"]


async def test_the_fake_model_says_what_the_policy_says():
    assert (await Fake().ainvoke("?")).content == REPLY
    assert "".join([chunk.text async for chunk in Fake().astream("?")]).strip() == REPLY
