"""Exports of runs: which adapter is taken, what is refused before any work, and that a directory appears whole or not."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from peft import PeftModel
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer

import art_core as art
from art_core.errors import ArtError, InputError
from art_core.loop import export as export_module
from art_core.loop.export import export
from art_core.loop.export_source import find_source
from art_core.loop.rundir import RunDir
from art_core.models import export as models_export
from art_core.models.config import LoraConfig
from art_core.models.load import load_tokenizer
from art_core.models.lora import attach
from art_core.models.sizes import stored_dtype, weight_count
from art_core.rendering.renderer import Renderer
from art_core.training import checkpoint
from art_core.training.manifest import verify
from art_core.training.trainer import GrpoTrainer
from tests.tiny import save_tiny, tiny_model

SUMMARY = {
    "base_model": "b",
    "best_step": 2,
    "checkpoint": "checkpoints/step-000002",
    "before": {"success": 0.25, "reward": 0.5, "n": 8},
    "after": {"success": 0.75, "reward": None, "n": 8},
    "gain": {"measure": "success", "difference": 0.5, "ci95": [0.1, 0.8], "n": 8},
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A base and a run on it with checkpoints of steps 1 to 3, ended with step 2 as its best."""
    place = tmp_path_factory.mktemp("made")
    base = save_tiny(place / "base")
    run = RunDir.create(place / "clerk", {"base_model": str(base)}, lambda run: None)
    template = Renderer(load_tokenizer(str(base))).chat_template
    for step in (1, 2, 3):
        model = attach(tiny_model(), LoraConfig(rank=2))
        torch.manual_seed(step)
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                torch.nn.init.normal_(parameter, std=0.1)
        extra = {"base_model": str(base), "step": step}
        checkpoint.save(run.checkpoint(step), GrpoTrainer(model), chat_template=template, extra=extra)
    run.write_summary(SUMMARY)
    return place


@pytest.fixture
def run(made, tmp_path):
    """A copy of the run that a test may change."""
    return RunDir(Path(shutil.copytree(made / "clerk", tmp_path / "clerk")))


def weights(directory):
    return load_file(directory / "adapter_model.safetensors")


def same(one, other):
    return all(torch.equal(tensor, weights(other)[name]) for name, tensor in weights(one).items())


def left(directory):
    return sorted(path.name for path in directory.iterdir())


def test_the_adapter_that_the_summary_chose_is_taken(run, tmp_path):
    result = export(run.path, tmp_path / "out")
    assert (result.form, result.step, result.dtype, result.warnings) == ("adapter", 2, "float32", ())
    assert same(tmp_path / "out", run.checkpoint(2))


def test_another_step_is_taken_where_it_is_named(run, tmp_path):
    export(run.path, tmp_path / "out", step=3)
    assert same(tmp_path / "out", run.checkpoint(3))
    card = (tmp_path / "out" / "README.md").read_text()
    assert "The run measured step 2 and not this one, so there are no figures of it." in card


def test_without_a_summary_the_newest_whole_one_is_taken(run, tmp_path):
    (run.path / "summary.json").unlink()
    (run.checkpoint(3) / "adapter_model.safetensors").write_bytes(b"cut")
    result = export(run.path, tmp_path / "out")
    assert result.step == 2
    assert result.warnings[0].startswith("checkpoint step-000003 is left out: adapter_model.safetensors has 3 bytes")


def test_a_checkpoint_knows_the_run_it_lies_in(run):
    found = find_source(run.checkpoint(2))
    assert (found.run, found.step, found.measured) == ("clerk", 2, True)
    assert find_source(run.checkpoint(1)).measured is False


def test_a_checkpoint_that_was_moved_out_of_its_run(run, made, tmp_path):
    shutil.copytree(run.checkpoint(1), tmp_path / "moved")
    found = find_source(tmp_path / "moved")
    assert (found.run, found.step, found.base_model) == (None, 1, str(made / "base"))


def test_any_peft_adapter_on_the_base_that_is_named(made, tmp_path):
    attach(tiny_model(), LoraConfig(rank=2)).save_pretrained(tmp_path / "lora")
    with pytest.raises(InputError, match="does not name its base model; name it with --model"):
        export(tmp_path / "lora", tmp_path / "out")
    result = export(tmp_path / "lora", tmp_path / "out", model=str(made / "base"))
    assert result.warnings == ("this adapter changes nothing: one of its two factors is zero in every module",)
    assert "**Note:** this adapter changes nothing" in (tmp_path / "out" / "README.md").read_text()


def test_a_base_that_has_moved_can_be_named_and_is_told(run, made, tmp_path):
    shutil.copytree(made / "base", tmp_path / "elsewhere")
    result = export(run.path, tmp_path / "out", model=str(tmp_path / "elsewhere"))
    assert result.base_model == str(tmp_path / "elsewhere")
    assert result.warnings[0].startswith(f"the adapter was trained on {str(made / 'base')!r}")


def test_t19_both_forms_of_a_run_are_what_was_trained(run, tmp_path):
    art.export(run.path, tmp_path / "adapter")
    result = art.export(run.path, tmp_path / "merged", form="merged")
    ids = torch.tensor([[4, 8, 15, 16, 23, 42]])
    with torch.inference_mode():
        trained = PeftModel.from_pretrained(tiny_model(), run.checkpoint(2)).eval()(ids).logits
        adapter = PeftModel.from_pretrained(tiny_model(), tmp_path / "adapter").eval()(ids).logits
        merged = AutoModelForCausalLM.from_pretrained(tmp_path / "merged")(ids).logits
    assert torch.equal(adapter, trained)
    assert torch.allclose(merged, trained, atol=1e-4)
    assert result.difference < result.limit == 1e-3


@pytest.mark.parametrize("form", ["adapter", "merged"])
def test_t19_the_chat_template_of_training_is_in_effect(run, made, tmp_path, form):
    export(run.path, tmp_path / "out", form=form)
    tool = art.ToolSpec(name="f", description="F.", parameters={"type": "object", "properties": {}})
    renderer = Renderer(load_tokenizer(str(made / "base")))
    shown = AutoTokenizer.from_pretrained(tmp_path / "out").apply_chat_template(
        [{"role": "user", "content": "u"}], tools=[tool.to_wire()], add_generation_prompt=True
    )
    assert list(shown["input_ids"]) == renderer.prompt([art.Message(role="user", content="u")], [tool])


def test_what_is_written(run, tmp_path):
    result = export(run.path, tmp_path / "out", form="merged", dtype="bfloat16")
    assert left(tmp_path / "out") == [
        "README.md",
        "chat_template.jinja",
        "config.json",
        "generation_config.json",
        "manifest.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
    ]
    verify(tmp_path / "out")
    assert left(tmp_path) == ["clerk", "out"]
    assert result.size == sum(path.stat().st_size for path in (tmp_path / "out").iterdir())
    assert len({path.stat().st_mode for path in (tmp_path / "out").iterdir()}) == 1


def test_the_card_has_the_figures_of_the_run_and_how_to_serve(run, tmp_path):
    export(run.path, tmp_path / "out")
    card = (tmp_path / "out" / "README.md").read_text()
    assert "trained with art-integrations: step 2 of run `clerk`." in card
    assert "| success | 0.250 | 0.750 |\n| reward | 0.500 | none |\n| scenarios | 8 | 8 |" in card
    assert "Gain in success: +0.500 (95 % interval +0.100 to +0.800), paired, n=8." in card
    assert "--enable-lora --max-lora-rank 8 --lora-modules out=DIR --chat-template DIR/chat_template.jinja" in card
    assert "--tool-call-parser hermes" in card


def test_the_card_of_supervised_fine_tuning_has_the_losses(run, tmp_path):
    losses = {"before": {"loss": 2.5, "n": 7, "tokens": 90}, "after": {"loss": 1.25, "n": 7, "tokens": 90}}
    run.write_summary(SUMMARY | {"kind": "sft", "gain": None} | losses)
    export(run.path, tmp_path / "out")
    card = (tmp_path / "out" / "README.md").read_text()
    assert "| on held-out rows | before | after |\n|---|---|---|\n| loss, nats a token | 2.500 | 1.250 |" in card
    assert "| rows | 7 | 7 |" in card


def test_what_print_shows(run, tmp_path):
    result = export(run.path, tmp_path / "out")
    first, second = str(result).splitlines()
    assert first.startswith(f"adapter of step 2 in {tmp_path / 'out'} (float32, 0.0 MB, base ")
    assert second == "loaded again, its logprobs are within 0 nats of the adapter's (limit 0.001)"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"form": "onnx"}, "form 'onnx' is not valid; valid ones: adapter, merged, gguf"),
        ({"dtype": "int4"}, "dtype 'int4' is not valid; valid ones: float32, bfloat16, float16, q8_0"),
        ({"form": "merged", "dtype": "q8_0"}, "dtype 'q8_0' is of GGUF files only"),
        ({"converter": "c.py"}, "a converter is used for form 'gguf' only, not for 'adapter'"),
        ({"form": "gguf", "converter": "c.py"}, "converter 'c.py' is not a Python script or a program"),
        ({"step": 7}, "has no checkpoint step-000007; those of these steps are there: 1, 2, 3"),
        ({"model": "smollm9"}, "unknown model 'smollm9'"),
    ],
)
def test_bad_options_are_refused_before_a_model_is_loaded(run, tmp_path, monkeypatch, options, sentence):
    monkeypatch.setattr(models_export, "load_model", None)
    with pytest.raises(InputError) as raised:
        export(run.path, tmp_path / "out", **options)
    assert sentence in str(raised.value)
    assert left(tmp_path) == ["clerk"]


def test_a_step_needs_a_run(run, tmp_path):
    with pytest.raises(InputError, match="step 2 can only be chosen from a run"):
        export(run.checkpoint(1), tmp_path / "out", step=2)


@pytest.mark.parametrize(("name", "why"), [("nowhere", "does not exist"), ("empty", "has neither run.toml nor")])
def test_what_is_no_source_is_named(tmp_path, name, why):
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=f"is not a run, a checkpoint or a PEFT adapter: it {why}"):
        export(tmp_path / name, tmp_path / "out")


def test_a_run_without_a_checkpoint_is_named(run, tmp_path):
    (run.path / "summary.json").unlink()
    shutil.rmtree(run.checkpoints)
    run.checkpoints.mkdir()
    with pytest.raises(InputError, match="has no whole checkpoint; those of these steps are there: none"):
        export(run.path, tmp_path / "out")


def test_a_damaged_checkpoint_is_refused(run, tmp_path):
    (run.checkpoint(2) / "chat_template.jinja").write_text("something else")
    with pytest.raises(InputError, match=r"is not a whole checkpoint: chat_template\.jinja has"):
        export(run.path, tmp_path / "out")


def test_a_target_that_holds_something_is_left_alone(run, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").write_text("x")
    with pytest.raises(InputError, match="is not empty; export to a new directory"):
        export(run.path, tmp_path / "out")
    assert left(tmp_path / "out") == ["mine"]


def test_an_empty_target_is_filled_and_a_file_is_refused(run, tmp_path):
    (tmp_path / "out").mkdir()
    export(run.path, tmp_path / "out")
    assert "adapter_config.json" in left(tmp_path / "out")
    with pytest.raises(InputError, match="is a file; export to a new directory"):
        export(run.path, tmp_path / "out" / "README.md")


def test_a_mount_point_is_refused_before_any_work(run, tmp_path, monkeypatch):
    monkeypatch.setattr(Path, "is_mount", lambda path: path.name == "out")
    with pytest.raises(InputError, match="is a mount point; export to a new directory in it"):
        export(run.path, tmp_path / "out")


def test_too_little_room_is_found_before_any_work(run, tmp_path, monkeypatch):
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(export_module.shutil, "disk_usage", lambda place: usage._replace(free=1_000_000))
    with pytest.raises(InputError, match=r"the export needs 0\.03 GB on the disk of '.*', and 0\.00 GB are free"):
        export(run.path, tmp_path / "out", form="merged")
    assert left(tmp_path) == ["clerk"]


def test_t19_a_mismatch_leaves_nothing_behind(run, tmp_path, monkeypatch):
    def loses_the_adapter(place, base, adapter, **options):
        base.model.save_pretrained(place)

    monkeypatch.setattr(models_export, "write_merged", loses_the_adapter)
    with pytest.raises(ArtError, match=r"does not compute what the adapter does: .* by up to \d"):
        export(run.path, tmp_path / "above" / "out", form="merged")
    assert left(tmp_path) == ["clerk"]


def test_an_interrupt_leaves_nothing_behind(run, tmp_path, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(models_export, "write_tokenizer", interrupted)
    with pytest.raises(KeyboardInterrupt):
        export(run.path, tmp_path / "out", form="merged")
    assert left(tmp_path) == ["clerk"]


def test_a_target_that_appears_in_the_meantime_is_left_alone(run, tmp_path):
    def somebody(line):
        (tmp_path / "out").mkdir(exist_ok=True)
        (tmp_path / "out" / "theirs").write_text("x")

    with pytest.raises(InputError, match="was made by somebody else in the meantime"):
        export(run.path, tmp_path / "out", say=somebody)
    assert left(tmp_path / "out") == ["theirs"]
    assert left(tmp_path) == ["clerk", "out"]


def test_replies_that_ended_otherwise_than_the_base_says_are_told(run, made, tmp_path):
    base = Path(shutil.copytree(made / "base", tmp_path / "base"))
    tokenizer = json.loads((base / "tokenizer_config.json").read_text())
    (base / "tokenizer_config.json").write_text(json.dumps(tokenizer | {"eos_token": "<|im_start|>"}))
    result = export(run.path, tmp_path / "out", model=str(base))
    assert "replies ended with '<|im_end|>' in training" in result.warnings[-1]


def test_the_size_and_precision_of_stored_weights(made):
    assert weight_count(made / "base") == sum(p.numel() for p in tiny_model().parameters())
    assert stored_dtype(made / "base") == "float32"


@pytest.mark.parametrize(
    ("config", "dtype"),
    [
        ({"torch_dtype": "bfloat16"}, "bfloat16"),
        ({"text_config": {"dtype": "float16"}}, "float16"),
        ({"dtype": "float8_e4m3fn"}, "float32"),
        ({}, "float32"),
    ],
)
def test_the_precision_a_config_names(tmp_path, config, dtype):
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert stored_dtype(tmp_path) == dtype
