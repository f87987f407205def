"""T19 for GGUF: llama.cpp's converter is found, run, and what it wrote is read back and compared."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from gguf import GGUFReader

from art_core.errors import ArtError, InputError
from art_core.models.converter import convert_to_gguf, find_converter
from art_core.models.export import ExportJob, make
from tests.tiny import CHATML

from .adapters import save_base, save_lora

STAND_IN = Path(__file__).with_name("stand_in_converter.py")


def exported(tmp_path, dtype="float32", converter=STAND_IN):
    place, scratch = tmp_path / "place", tmp_path / "scratch"
    place.mkdir()
    scratch.mkdir()
    job = ExportJob(
        adapter=save_lora(tmp_path),
        base_model=str(save_base(tmp_path)),
        form="gguf",
        dtype=dtype,
        converter=find_converter(converter),
        name="clerk",
    )
    return make(job, place, scratch, lambda line: None)


@pytest.mark.parametrize(("dtype", "file", "close"), [("float32", "clerk-f32", 1e-4), ("float16", "clerk-f16", 0.05)])
def test_t19_a_gguf_file_read_by_transformers_computes_what_the_adapter_does(tmp_path, dtype, file, close):
    made = exported(tmp_path, dtype)
    assert made.difference.largest < close
    assert sorted(path.name for path in (tmp_path / "place").iterdir()) == ["chat_template.jinja", f"{file}.gguf"]
    assert not any((tmp_path / "scratch").iterdir())


def test_the_file_holds_the_chat_template_of_training(tmp_path):
    trained_with = save_lora(tmp_path) / "chat_template.jinja"
    trained_with.write_text(f"{CHATML}{{# as trained #}}")
    exported(tmp_path)
    field = GGUFReader(tmp_path / "place" / "clerk-f32.gguf").get_field("tokenizer.chat_template")
    assert field.contents() == f"{CHATML}{{# as trained #}}"


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('if "q_proj" in name or "k_proj" in name:', "if False:", "does not compute what the adapter does"),
        (".read_text())\n    for", ".read_text() + '!')\n    for", "does not hold the chat template"),
        ('GGUFWriter(target, "llama")', 'GGUFWriter(target, "nothing")', "cannot be loaded again by transformers"),
    ],
)
def test_t19_what_a_wrong_converter_writes_is_refused(tmp_path, old, new, told):
    text = STAND_IN.read_text()
    assert text.count(old) == 1
    wrong = tmp_path / "wrong.py"
    wrong.write_text(text.replace(old, new))
    with pytest.raises(ArtError, match=told):
        exported(tmp_path, converter=wrong)


def test_a_converter_that_fails_is_quoted(tmp_path):
    command = (sys.executable, "-c", "raise SystemExit('no such architecture')")
    with pytest.raises(ArtError, match=r"wrote no GGUF file \(exit code 1\); it said: no such architecture"):
        convert_to_gguf(command, tmp_path, tmp_path / "x.gguf", dtype="float16")


def test_a_converter_is_found_on_the_path(tmp_path, monkeypatch):
    script = tmp_path / "convert_hf_to_gguf.py"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_converter() == (sys.executable, str(script))


def test_a_missing_converter_is_named_with_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match=r"convert_hf_to_gguf\.py, which is not on the PATH; install llama\.cpp"):
        find_converter()


def test_a_given_converter_that_is_not_there_is_named(tmp_path):
    with pytest.raises(InputError, match=r"converter '.*/none\.py' is not a Python script or a program"):
        find_converter(tmp_path / "none.py")
