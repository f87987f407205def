import asyncio
import contextvars
import functools
import threading

import pytest

from art_core import workers

NAME: contextvars.ContextVar[str] = contextvars.ContextVar("name")


async def later(value):
    return value


class AsyncCallable:
    async def __call__(self, value):
        return value


@pytest.mark.parametrize("function", [later, functools.partial(later), AsyncCallable(), lambda value: later(value)])
async def test_whatever_makes_an_awaitable_is_awaited(function) -> None:
    assert await workers.call(function, 7, name="f") == 7


@pytest.mark.parametrize(
    ("function", "expected"), [(later, True), (functools.partial(later), True), (AsyncCallable(), True), (print, False)]
)
def test_is_async(function, expected) -> None:
    assert workers.is_async(function) is expected


async def test_a_thread_has_the_callers_context_and_its_own_name() -> None:
    NAME.set("mine")
    name, thread = await workers.call(lambda: (NAME.get(), threading.current_thread()), name="agent of r1")
    assert name == "mine"
    assert thread.name.startswith("agent of r1 #")
    assert thread.daemon


async def test_any_number_of_nested_calls_finishes() -> None:
    loop = asyncio.get_running_loop()

    def nest(depth: int) -> int:
        if depth == 0:
            return 0
        inner = workers.call(nest, depth - 1, name="nest")
        return 1 + asyncio.run_coroutine_threadsafe(inner, loop).result()

    calls = [workers.call(nest, 8, name="nest") for _ in range(20)]
    assert await asyncio.wait_for(asyncio.gather(*calls), 60) == [8] * 20


async def test_an_exception_is_the_callers() -> None:
    def fail():
        raise KeyError("x")

    with pytest.raises(KeyError, match="x"):
        await workers.call(fail, name="f")


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt, GeneratorExit])
async def test_an_exit_in_a_thread_is_an_ordinary_error(kind) -> None:
    def leave():
        raise kind

    with pytest.raises(RuntimeError, match=f"f tried to end the process \\({kind.__name__}\\)"):
        await workers.call(leave, name="f")


async def test_an_exit_in_a_coroutine_is_an_ordinary_error() -> None:
    async def leave():
        raise SystemExit(3)

    with pytest.raises(RuntimeError, match=r"f tried to end the process \(SystemExit: 3\)"):
        await workers.call(leave, name="f")


async def test_what_comes_after_the_cancellation_goes_to_on_late() -> None:
    go, late = threading.Event(), []

    def slow():
        go.wait(20)
        return 7

    task = asyncio.create_task(workers.call(slow, name="f", on_late=late.append))
    await asyncio.sleep(0.01)
    task.cancel()
    await asyncio.wait({task})
    go.set()
    for _ in range(500):
        await asyncio.sleep(0.01)
        if late:
            break
    assert (task.cancelled(), late) == (True, [7])


def test_what_comes_after_the_loop_was_closed_goes_to_on_late() -> None:
    go, late, ended = threading.Event(), [], threading.Event()

    def slow():
        go.wait(20)
        return 7

    def note(outcome):
        late.append(outcome)
        ended.set()

    async def main():
        task = asyncio.create_task(workers.call(slow, name="f", on_late=note))
        await asyncio.sleep(0.01)
        task.cancel()

    asyncio.run(main())
    go.set()
    assert ended.wait(10)
    assert late == [7]


async def test_the_loops_executor_grows_to_what_is_asked() -> None:
    loop = asyncio.get_running_loop()
    workers.size_executor(40)
    barrier = threading.Barrier(40)
    waits = [loop.run_in_executor(None, barrier.wait, 20) for _ in range(40)]
    assert sorted(await asyncio.gather(*waits)) == list(range(40))
