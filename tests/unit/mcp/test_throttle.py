import asyncio

import pytest

from art_integrations.mcp.throttle import Throttle


async def test_no_more_than_the_allowed_number_run_at_once():
    throttle, running, most = Throttle(concurrency=2), 0, 0

    async def call():
        nonlocal running, most
        async with throttle.admit():
            running += 1
            most = max(most, running)
            await asyncio.sleep(0.005)
            running -= 1

    await asyncio.gather(*(call() for _ in range(10)))
    assert most == 2


async def test_calls_start_at_the_allowed_rate():
    throttle, loop = Throttle(per_second=100), asyncio.get_running_loop()
    started = loop.time()
    for _ in range(6):
        async with throttle.admit():
            pass
    assert loop.time() - started >= 0.045


async def test_a_cancelled_wait_gives_its_place_back():
    throttle = Throttle(concurrency=1)
    async with throttle.admit():
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(throttle.admit().__aenter__(), 0.01)
    async with asyncio.timeout(5), throttle.admit():
        pass
