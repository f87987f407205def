from __future__ import annotations

import json

from art_core.cli.main import main
from tests.unit.models.adapters import save_base, save_lora


def test_the_verb_prints_one_json_object_and_tells_what_it_does_on_stderr(tmp_path, capsys):
    base, lora = save_base(tmp_path), save_lora(tmp_path)
    words = ["export", lora, "--model", base, "--to", tmp_path / "out", "--form", "merged", "--json"]
    capsys.readouterr()
    assert main([str(word) for word in words]) == 0
    out, err = capsys.readouterr()
    told = json.loads(out)
    assert (told["path"], told["form"], told["dtype"]) == (str(tmp_path / "out"), "merged", "float32")
    assert 0 <= told["difference"] < told["limit"] == 0.001
    assert err.splitlines() == [
        f"loading {base}",
        "merging into float32 weights",
        "loading it again and comparing",
    ]


def test_without_json_it_prints_what_was_found_out(tmp_path, capsys):
    lora = save_lora(tmp_path, b_std=0.0)
    assert main(["export", str(lora), "--model", str(save_base(tmp_path)), "--to", str(tmp_path / "out")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1:] == [
        "loaded again, its logprobs are within 0 nats of the adapter's (limit 0.001)",
        "warning: this adapter changes nothing: one of its two factors is zero in every module",
    ]


def test_a_source_that_is_none_is_one_sentence_and_exit_code_2(tmp_path, capsys):
    assert main(["export", str(tmp_path), "--to", str(tmp_path / "out")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line == (
        f"error: {str(tmp_path)!r} is not a run, a checkpoint or a PEFT adapter: "
        "it has neither run.toml nor adapter_config.json"
    )


def test_without_a_converter_nothing_is_loaded(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["export", str(tmp_path), "--to", str(tmp_path / "out"), "--form", "gguf"]) == 2
    assert "install llama.cpp" in capsys.readouterr().err
