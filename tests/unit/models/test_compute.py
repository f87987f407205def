import threading

import pytest

from art_core.models.compute import ComputeThread


def test_every_call_runs_on_the_same_thread_which_is_not_the_callers():
    compute = ComputeThread()
    names = {compute.run(threading.get_ident) for _ in range(3)}
    assert len(names) == 1
    assert threading.get_ident() not in names


def test_what_a_call_raises_is_raised_in_the_caller_and_the_thread_lives_on():
    compute = ComputeThread()
    with pytest.raises(ZeroDivisionError):
        compute.run(lambda: 1 / 0)
    assert compute.run(int, "3") == 3


def test_a_call_from_the_thread_itself_is_a_plain_call():
    compute = ComputeThread()
    assert compute.run(lambda: compute.run(sum, [1, 2])) == 3


def test_long_work_lets_others_go_first_where_it_gives_way():
    compute, order, started = ComputeThread(), [], threading.Event()
    waiting = threading.Event()

    def long():
        started.set()
        waiting.wait(5)
        order.append("first half")
        compute.give_way()
        order.append("second half")

    one = threading.Thread(target=compute.run, args=(long,))
    one.start()
    started.wait(5)
    two = threading.Thread(target=compute.run, args=(order.append, "other"))
    two.start()
    while compute._waiting.empty():
        pass
    waiting.set()
    one.join(5)
    two.join(5)
    assert order == ["first half", "other", "second half"]


def test_giving_way_elsewhere_does_nothing():
    ComputeThread().give_way()
