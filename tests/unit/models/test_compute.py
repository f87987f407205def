import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from transformers import LlamaConfig, LlamaForCausalLM

from art_core.models.compute import ComputeThread
from tests.tiny import tiny_tokenizer

ONE_POOL = """
import os, sys, torch
from pathlib import Path
from art_core.inference.transformers_engine import TransformersEngine
from art_core.models.compute import COMPUTE
from art_core.models.config import LoraConfig
from art_core.models.load import load_model
from art_core.models.lora import attach
from art_core.models.packed import can_pack
from art_core.models.probe import probe
from art_core.training import checkpoint
from art_core.training.trainer import GrpoTrainer

threads = lambda: len(os.listdir("/proc/self/task"))
COMPUTE.run(lambda: torch.ones(512, 512) @ torch.ones(512, 512))  # its pool
before = threads()
probe()
can_pack("cpu", torch.float32)
model = load_model(sys.argv[1]).model
engine = TransformersEngine(model)
trainer = GrpoTrainer(attach(model, LoraConfig(rank=128)))
checkpoint.save(Path(sys.argv[2]), trainer, chat_template="")
checkpoint.load(Path(sys.argv[2]), trainer)
ours = threads() - before
torch.ones(512, 512) @ torch.ones(512, 512)
print(ours, threads() - before)
"""


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


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="threads are counted there")
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one core needs no pool")
def test_what_loads_measures_and_trains_starts_no_second_pool_of_workers(tmp_path):
    """Wherever it is called from. The last product shows that a second pool would have been counted."""
    config = LlamaConfig(vocab_size=4096, hidden_size=256, intermediate_size=512, num_hidden_layers=1)
    LlamaForCausalLM(config).save_pretrained(tmp_path / "model")
    tiny_tokenizer().save_pretrained(tmp_path / "model")
    done = subprocess.run(
        [sys.executable, "-c", ONE_POOL, tmp_path / "model", tmp_path / "checkpoint"],
        env={**os.environ, "OMP_NUM_THREADS": "2"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stdout.split() == ["1", "2"], done.stderr  # the engine's own thread; a pool of two has one worker
