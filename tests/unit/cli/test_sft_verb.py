from __future__ import annotations

import json

import pytest

from art_core.cli.main import main
from art_core.cli.sft import SftOptions
from art_core.errors import InputError
from art_core.supervised.config import SftConfig
from tests.tiny import save_tiny
from tests.unit.supervised.chats import plain_chat, write


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save_tiny(tmp_path / "model")
    write(tmp_path / "chats.jsonl", *(plain_chat(f"question {number}", f"answer {number}") for number in range(8)))
    return tmp_path


def sft(*words):
    return main(["train", "sft", *words])


SMALL = (
    "--model",
    "model",
    "--epochs",
    "1",
    "--batch-rows",
    "4",
    "--rank",
    "2",
    "--name",
    "r",
    "--precision",
    "float32",
)


def test_options_change_what_they_name_and_nothing_else():
    base = SftConfig(epochs=7)
    changed = SftOptions(best=2, max_time="10m", start_from="runs/a", out="o").config(base)
    assert (changed.epochs, changed.best, changed.max_time, changed.lora.start, changed.out) == (
        7,
        2,
        600,
        "runs/a",
        "o",
    )
    assert SftOptions().config(base) == base
    with pytest.raises(InputError, match=r"^validation_share = 1.0: Input should be less than 1$"):
        SftOptions(validation_share=1.0).config(base)


def test_a_file_is_trained_with_a_line_per_step(place, capsys):
    assert sft("chats.jsonl", *SMALL) == 0
    out = capsys.readouterr().out
    assert "step 1/2 │ epoch 1 │ loss " in out
    assert "eval before  │ 1 held-out rows │ loss " in out
    assert "Held-out rows" in out
    assert (place / "runs" / "r" / "report.html").is_file()


def test_json_is_the_summary_alone(place, capsys):
    assert sft("chats.jsonl", *SMALL, "--json") == 0
    summary = json.loads(capsys.readouterr().out)
    assert (summary["kind"], summary["steps"], summary["base_model"]) == ("sft", 2, "model")


def test_a_run_goes_on_by_its_directory_alone(place, capsys):
    assert sft("chats.jsonl", *SMALL, "--max-time", "0.001", "--quiet") == 0
    assert sft("--resume", "runs/r", "--max-time", "1h", "--json") == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["stop_reason"] == "steps"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ((), "data is needed"),
        (("chats.jsonl", "--epochs", "0"), "epochs = 0: Input should be greater than or equal to 1"),
        (("nothing.jsonl", *SMALL), "cannot read 'nothing.jsonl'"),
        (("--resume", "runs/none"), "is not a run directory"),
        (("chats.jsonl", "--start-form", "x"), "unknown option '--start-form'; did you mean '--start-from'?"),
    ],
)
def test_bad_input_is_one_sentence(place, capsys, words, sentence):
    assert sft(*words) == 2
    told = capsys.readouterr().err
    assert sentence in told
    assert told.count("\n") == 1


@pytest.mark.parametrize("verb", [("train", "--resume"), ("eval",)])
def test_verbs_that_need_an_agent_say_so(place, capsys, verb):
    sft("chats.jsonl", *SMALL, "--quiet")
    capsys.readouterr()
    assert main([*verb, "runs/r"]) == 2
    assert "is supervised fine-tuning and has no agent and no reward" in capsys.readouterr().err
