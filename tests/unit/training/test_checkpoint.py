"""T19 and T21: a checkpoint continues bit-exactly, loads into peft as it is, and is refused when it does not fit."""

from __future__ import annotations

import json

import pytest
import torch
from peft import PeftModel

from art_core.errors import InputError
from art_core.training.checkpoint import load, load_adapter, save, save_adapter
from art_core.training.manifest import latest
from art_core.training.trainer import GrpoTrainer, TrainingConfig

from .tiny import build, lora, step_rows, weights

CONFIG = TrainingConfig(passes=2, warmup_updates=5, weight_decay=0.01)


def steps(trainer, numbers):
    return [trainer.step(*step_rows(number)).loss for number in numbers]


def test_t21_resumed_equals_uninterrupted_bit_for_bit(tmp_path):
    whole = GrpoTrainer(lora(), CONFIG)
    losses = steps(whole, range(4))
    first = GrpoTrainer(lora(), CONFIG)
    steps(first, range(2))
    save(tmp_path / "step-000002", first, chat_template="t", extra={"position": 8})
    second = GrpoTrainer(lora(), CONFIG)
    assert load(tmp_path / "step-000002", second) == {"position": 8}
    assert (second.step_count, second.updates) == (2, 4)
    assert steps(second, (2, 3)) == losses[2:]
    assert torch.equal(weights(second.model), weights(whole.model))


def test_t21_restored_weights_survive_the_next_step(tmp_path):
    """An optimizer that kept copies of its own would overwrite the loaded adapter with the old one."""
    first = GrpoTrainer(lora(), TrainingConfig(learning_rate=1e-2))
    steps(first, range(3))
    save(tmp_path / "c", first, chat_template="")
    used = GrpoTrainer(lora(), TrainingConfig(learning_rate=1e-2))
    steps(used, [7])
    load(tmp_path / "c", used)
    assert torch.equal(weights(used.model), weights(first.model))
    steps(used, [3])
    steps(first, [3])
    assert torch.equal(weights(used.model), weights(first.model))


def test_a_checkpoint_before_the_first_step(tmp_path):
    save(tmp_path / "c", GrpoTrainer(lora()), chat_template="")
    fresh = GrpoTrainer(lora())
    steps(fresh, [0])
    load(tmp_path / "c", fresh)
    assert (fresh.step_count, fresh.state()[0]) == (0, {})
    assert torch.equal(weights(fresh.model), weights(lora()))


@pytest.mark.parametrize("family", ["llama", "llama-untied"])
@pytest.mark.parametrize("options", [{}, {"use_rslora": True}], ids=str)
def test_t19_peft_loads_it_with_the_same_logits(tmp_path, family, options):
    trainer = GrpoTrainer(lora(family, **options))
    steps(trainer, [0])
    save(tmp_path / "c", trainer, chat_template="{{ messages }}")
    loaded = PeftModel.from_pretrained(build(family), tmp_path / "c")
    ids = torch.tensor([[1, 2, 3, 4]])
    assert torch.equal(loaded(ids).logits, trainer.model(ids).logits)
    assert (tmp_path / "c" / "chat_template.jinja").read_text() == "{{ messages }}"


def test_files_are_the_documented_ones(tmp_path):
    trainer = GrpoTrainer(lora())
    steps(trainer, [0])
    save(tmp_path / "c", trainer, chat_template="t")
    assert sorted(path.name for path in (tmp_path / "c").iterdir()) == [
        "adapter_config.json",
        "adapter_model.safetensors",
        "chat_template.jinja",
        "manifest.json",
        "optimizer.safetensors",
        "trainer.json",
    ]
    assert json.loads((tmp_path / "c" / "trainer.json").read_text())["counters"] == {"step_count": 1, "updates": 1}


def test_adapter_alone(tmp_path):
    model = lora()
    save_adapter(tmp_path / "a", model, chat_template="t")
    other = lora(seed=3)
    load_adapter(tmp_path / "a", other)
    assert torch.equal(weights(other), weights(model))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target_modules": ["q_proj"]}, "tensors the model has not"),
        ({"rank": 8}, r"has shape \(\d+, \d+\), the model needs \(\d+, \d+\)"),
    ],
)
def test_t19_an_adapter_that_does_not_fit_is_refused_and_nothing_changes(tmp_path, options, message):
    first = GrpoTrainer(lora())
    steps(first, [0])
    save(tmp_path / "c", first, chat_template="")
    other = GrpoTrainer(lora(**options))
    before = weights(other.model)
    with pytest.raises(InputError, match=message):
        load(tmp_path / "c", other)
    assert torch.equal(weights(other.model), before)
    assert (other.step_count, other.state()[0]) == (0, {})


def test_a_damaged_checkpoint_is_refused(tmp_path):
    save(tmp_path / "c", GrpoTrainer(lora()), chat_template="")
    (tmp_path / "c" / "adapter_model.safetensors").write_bytes(b"short")
    with pytest.raises(InputError, match=r"not a whole checkpoint: adapter_model.safetensors has 5 bytes"):
        load(tmp_path / "c", GrpoTrainer(lora()))


def test_t21_killed_while_writing_leaves_the_previous_one(tmp_path, monkeypatch):
    trainer = GrpoTrainer(lora())
    save(tmp_path / "step-000001", trainer, chat_template="")

    def killed(*_args, **_options):
        raise KeyboardInterrupt

    for name in ("_write_adapter", "save_file"):
        with monkeypatch.context() as patch:
            patch.setattr(f"art_core.training.checkpoint.{name}", killed)
            with pytest.raises(KeyboardInterrupt):
                save(tmp_path / "step-000002", trainer, chat_template="")
        assert latest(tmp_path).step == 1
    save(tmp_path / "step-000002", trainer, chat_template="")
    assert latest(tmp_path).step == 2


def test_extra_must_be_json(tmp_path):
    with pytest.raises(InputError, match="cannot be saved in a checkpoint"):
        save(tmp_path / "c", GrpoTrainer(lora()), chat_template="", extra={"x": object()})
    assert list(tmp_path.iterdir()) == []


def test_a_plain_model_has_no_adapter_to_save(tmp_path):
    with pytest.raises(InputError, match="plain LlamaForCausalLM"):
        save(tmp_path / "c", GrpoTrainer(build()), chat_template="")
