"""A training run in a process of its own that may be killed anywhere, for the tests of resuming.

    python -m tests.e2e.run_to_kill MODEL

says that it is ready, then reads one JSON object a line, ``{"out": ..., "steps": ..., "die": [place, count] or null,
"seconds": number or null}``: it forks a process that begins the run in ``out`` or goes on with it, kills it after so many
seconds, and prints how it ended. Forking spares each life the seconds that imports take; nothing is computed in the
parent. Files are written slowly, so that many kills come meanwhile.
"""

import asyncio
import io
import json
import os
import random
import shutil
import signal
import sys
import time
from pathlib import Path
from types import SimpleNamespace

from art_core import disk
from art_core.loop import rundir
from art_core.loop.config import TrainConfig
from art_core.loop.embedded import EmbeddedBackend  # imported here so that the forked processes need not
from art_core.messages import Message
from art_core.observe.metrics import MetricsLog
from art_core.observe.progress import Progress
from art_core.scenario import Scenario
from art_core.supervised.train import train
from art_core.training import manifest

SCENARIOS = [Scenario(f"s{number}", f"{number} and {number}") for number in range(16)]
SLOW_S = 0.01
REMOVING = rundir.shutil = SimpleNamespace(rmtree=shutil.rmtree)  # for run directories alone


def config(out, steps, **more):
    return TrainConfig.build(
        {
            "steps": steps,
            "deterministic": True,
            "name": "run",
            "out": str(out),
            "keep_checkpoints": 2,
            "rollout": {"group_size": 4, "scenarios_per_step": 2, "max_tokens": 8},
            "lora": {"rank": 4},
            "training": {"learning_rate": 0.01, "micro_batch_tokens": 64},
            "evaluation": {"validation": 3, "test": 3, "every": 2},
            **more,
        }
    )


async def agent(scenario, session):
    """Two turns, with a tool in between that takes as long as it likes and always answers the same."""
    messages = [Message(role="user", content=scenario.input)]
    reply = (await session.turn(messages)).reply
    await asyncio.sleep(random.SystemRandom().random() * 0.03)
    seen = Message(role="user", content=f"{len(reply.text)} letters")
    return (await session.turn([*messages, reply, seen])).reply.text


def reward(trajectory, scenario):
    """Different for almost any two rollouts."""
    return sum(token for turn in trajectory.turns for token in turn.completion_ids) % 97 / 97


def live(model, out, steps):
    """Begin the run in ``out``, or go on with it."""
    progress = Progress(quiet=True, out=io.StringIO(), err=io.StringIO())
    begun = (out / "run").exists()
    given = {"resume": out / "run"} if begun else {"base_model": model, "config": config(out, steps)}
    train(agent, None if begun else SCENARIOS, reward, progress=progress, **given)


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def half_a_record(descriptor, data):
    os.write(descriptor, data[: len(data) // 2])
    die()


def half_a_row(log, *args, **values):
    log._file.write('{"kind": "train", "ste')
    log._file.flush()
    die()


def half_a_removal(path, **options):
    next(child for child in Path(path).iterdir() if child.is_file()).unlink()
    die()


def after(original):
    def call(*args, **options):
        original(*args, **options)
        die()

    return call


def before(original):
    return lambda *args, **options: die()


PLACES = {
    "before a file of a checkpoint is digested": (manifest, "_entry", before),
    "before a checkpoint is on the disk": (manifest, "_flush", before),
    "before a draft gets its name": (Path, "rename", before),
    "after a draft got its name": (Path, "rename", after),
    "before a file is replaced": (Path, "replace", before),
    "after a file was replaced": (Path, "replace", after),
    "in the middle of a rollout's record": (disk, "_write_all", lambda original: half_a_record),
    "in the middle of a row of the metrics": (MetricsLog, "append", lambda original: half_a_row),
    "in the middle of removing an old checkpoint": (REMOVING, "rmtree", lambda original: half_a_removal),
    "before the weights are served": (EmbeddedBackend, "publish", before),
    "before the journal is scored": (rundir.RunDir, "write_trajectories", before),
}
"""What a process can be told to die in: where the function is, its name, and what to put in its place."""


def arrange(place, count):
    """Make the ``count``-th call at ``place`` the last thing this process does."""
    owner, name, make = PLACES[place]
    original = getattr(owner, name)
    calls = []

    def counting(*args, **options):
        calls.append(place)
        return (make(original) if len(calls) == count else original)(*args, **options)

    setattr(owner, name, counting)


def slow_down():
    flush = manifest._flush

    def slowly(path):
        time.sleep(SLOW_S)
        flush(path)

    manifest._flush = slowly


def main():
    model = sys.argv[1]
    print("ready", flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        pid = os.fork()
        if not pid:
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(2, 1)
            slow_down()
            if order["die"]:
                arrange(*order["die"])
            live(model, Path(order["out"]), order["steps"])
            os._exit(0)
        if order["seconds"] is not None:
            time.sleep(order["seconds"])
            os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main()
