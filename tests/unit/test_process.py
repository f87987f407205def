import os
import signal
import subprocess
import sys
import time

import pytest

from art_core.errors import InputError
from art_core.process import TAIL_BYTES, Child, GuardedCommand
from tests.servers.processes import children, left_over, read_pids, rich

PARENT = """
import sys, time
from art_core.process import Child
child = Child(sys.argv[1:])
time.sleep(600)
"""


def test_exit_code_and_last_stderr_lines_are_known():
    child = Child(rich("--say", "bad weather", "--die", 7))
    assert child.wait(20) == 7
    assert child.guarded.stderr_tail() == "bad weather"


def test_a_program_that_does_not_exist_ends_with_127_and_says_so():
    child = Child(["no-such-program"])
    assert child.wait(20) == 127
    assert child.guarded.stderr_tail() == "cannot execute 'no-such-program': No such file or directory"


def test_death_by_a_signal_is_a_negative_exit_code():
    child = Child(["sh", "-c", "kill -9 $$"])
    assert child.wait(20) == -9


def test_stop_closes_stdin_and_that_is_enough_for_a_polite_child():
    child = Child(["sh", "-c", "cat; exit 5"])
    assert child.running
    assert child.stop() == 5


def test_stop_is_bounded_for_a_child_that_ignores_everything(tmp_path):
    child = Child(rich("--deaf", "--child", "--pids", tmp_path / "pids"), grace=0.3)
    pids = read_pids(tmp_path / "pids", 2)
    started = time.monotonic()
    assert child.stop() == -9
    assert time.monotonic() - started < 10
    assert left_over(pids) == []


def test_stop_twice_is_fine():
    child = Child(["cat"])
    assert child.stop() == 0
    assert child.stop() == 0


def test_grandchildren_end_when_the_child_ends_by_itself(tmp_path):
    child = Child(rich("--child", "--pids", tmp_path / "pids", "--die", 0))
    assert child.wait(20) == 0
    assert left_over(read_pids(tmp_path / "pids", 2)) == []


def test_child_and_grandchild_end_when_the_parent_is_killed(tmp_path):
    command = [sys.executable, "-c", PARENT, *rich("--deaf", "--child", "--pids", tmp_path / "pids")]
    with subprocess.Popen(command) as parent:
        pids = read_pids(tmp_path / "pids", 2)
        parent.kill()
    assert left_over(pids) == []


def test_child_and_grandchild_end_when_the_guard_is_killed(tmp_path):
    with Child(rich("--deaf", "--child", "--pids", tmp_path / "pids"), grace=0.3) as child:
        pids = read_pids(tmp_path / "pids", 2)
        os.kill(child._process.pid, signal.SIGKILL)
        assert left_over(pids) == []


def test_child_and_grandchild_end_when_the_inner_guard_is_killed(tmp_path):
    with Child(rich("--deaf", "--child", "--pids", tmp_path / "pids"), grace=0.3) as child:
        pids = read_pids(tmp_path / "pids", 2)
        (inner,) = children(child._process.pid)
        os.kill(inner, signal.SIGKILL)
        assert left_over(pids) == []


def test_the_stderr_tail_is_bounded():
    child = Child([sys.executable, "-c", "import sys; sys.stderr.write('x' * 200_000 + '\\nlast')"])
    assert child.wait(20) == 0
    assert child.guarded.stderr_tail(1) == "last"
    assert len(child.guarded.stderr_tail(100)) <= TAIL_BYTES


def test_env_is_added_and_the_working_directory_used(tmp_path):
    child = Child(["sh", "-c", "pwd; echo $GREETING"], env={"GREETING": "hi"}, cwd=tmp_path)
    child.wait(20)
    assert child.guarded.stderr_tail() == f"{tmp_path}\nhi"


def test_stdout_can_go_to_a_file(tmp_path):
    with (tmp_path / "out").open("wb") as out:
        Child(["echo", "hello"], stdout=out).wait(20)
    assert (tmp_path / "out").read_text() == "hello\n"


def test_a_missing_working_directory_is_named(tmp_path):
    with pytest.raises(InputError, match=r"gone.*does not exist"):
        Child(["cat"], cwd=tmp_path / "gone")


def test_an_empty_command_is_refused():
    with pytest.raises(InputError, match="needs a command"):
        GuardedCommand([])


def test_a_command_that_was_never_spawned_ends_its_reader():
    guarded = GuardedCommand(["cat"])
    guarded.spawned()
    assert guarded.wait(10)
    assert guarded.exit_code is None
