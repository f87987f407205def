"""T19: what is exported computes, loaded again, what the adapter computes; an adapter that does not fit is refused."""

from __future__ import annotations

import dataclasses
import json
import math
import types

import pytest
import torch
from peft import AutoPeftModelForCausalLM, PeftModel
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

from art_core.errors import ArtError, InputError
from art_core.models.export import ExportJob, make
from art_core.models.load import load_model
from art_core.models.lora import load_peft, read_adapter
from art_core.models.reload import Reference, difference, logprobs_of
from art_core.models.save import write_merged
from tests.tiny import CHATML, FAMILIES, tiny_model

from .adapters import IDS, exported, save_base, save_lora

O_PROJ = "model.layers.0.self_attn.o_proj"


def logits(model):
    with torch.inference_mode():
        return model.eval()(IDS).logits


def adapted(tmp_path, family="llama"):
    return logits(PeftModel.from_pretrained(tiny_model(family), tmp_path / f"{family}-lora"))


@pytest.mark.parametrize("family", FAMILIES)
def test_t19_a_merged_export_loaded_by_transformers_has_the_logits_of_the_adapter(tmp_path, family):
    place, made = exported(tmp_path, "merged", "float32", family=family)
    model = AutoModelForCausalLM.from_pretrained(place)
    assert torch.allclose(logits(model), adapted(tmp_path, family), atol=1e-4)
    assert made.difference.largest < 1e-3


def test_t19_an_exported_adapter_loaded_by_peft_has_the_same_logits_to_the_bit(tmp_path):
    place, made = exported(tmp_path, "adapter", None)
    assert torch.equal(logits(PeftModel.from_pretrained(tiny_model(), place)), adapted(tmp_path))
    assert (place / "adapter_model.safetensors").read_bytes() == (
        tmp_path / "llama-lora" / "adapter_model.safetensors"
    ).read_bytes()
    assert (made.dtype, made.rank, made.difference.largest) == ("float32", 4, 0.0)


def test_t19_an_exported_adapter_finds_its_base_by_itself(tmp_path):
    place, _ = exported(tmp_path, "adapter", None)
    assert torch.equal(logits(AutoPeftModelForCausalLM.from_pretrained(place)), adapted(tmp_path))


def test_an_adapter_in_another_precision_is_rounded(tmp_path):
    place, made = exported(tmp_path, "adapter", "bfloat16")
    before = load_file(tmp_path / "llama-lora" / "adapter_model.safetensors")
    after = load_file(place / "adapter_model.safetensors")
    assert all(torch.equal(after[name], before[name].to(torch.bfloat16)) for name in before)
    assert made.dtype == "bfloat16"


def test_a_merged_weight_is_w_plus_s_b_a_rounded_once(tmp_path):
    place, _ = exported(tmp_path, "merged", "bfloat16")
    adapter, base = read_adapter(tmp_path / "llama-lora"), tiny_model()
    down, up = adapter.factors[O_PROJ]
    exact = base.get_submodule(O_PROJ).weight.detach() + 8.0 * (up @ down)  # alpha 32 / rank 4
    stored = load_file(place / "model.safetensors")
    assert torch.equal(stored[f"{O_PROJ}.weight"], exact.to(torch.bfloat16))
    assert torch.equal(stored["model.embed_tokens.weight"], base.get_input_embeddings().weight.to(torch.bfloat16))
    assert json.loads((place / "config.json").read_text())["dtype"] == "bfloat16"


def test_t19_an_adapted_head_is_untied_from_the_embedding(tmp_path):
    place, _ = exported(tmp_path, "merged", "float32", targets=("lm_head", "q_proj"))
    model = AutoModelForCausalLM.from_pretrained(place)
    assert torch.allclose(logits(model), adapted(tmp_path), atol=1e-4)
    assert torch.equal(model.get_input_embeddings().weight, tiny_model().get_input_embeddings().weight)


def test_a_merged_model_also_stops_where_replies_ended_in_training(tmp_path):
    base = load_model(str(save_base(tmp_path)))
    (base.path / "generation_config.json").write_text('{"eos_token_id": [7], "temperature": 0.6, "do_sample": false}')
    place = tmp_path / "place"
    place.mkdir()
    write_merged(place, base, read_adapter(save_lora(tmp_path)), dtype="float32", stop_ids=frozenset({9}))
    written = json.loads((place / "generation_config.json").read_text())
    assert written == {"eos_token_id": [7, 9], "temperature": 0.6, "do_sample": False}


def test_t19_an_adapter_whose_names_the_base_has_not_is_refused(tmp_path):
    rename(save_lora(tmp_path), "self_attn", "attention")
    with pytest.raises(InputError, match=r"'model\.layers\.0\.attention\.\w+' .* the model has no such linear module"):
        exported_as_it_is(tmp_path)


def test_t19_an_adapter_of_another_size_is_refused(tmp_path):
    save_lora(tmp_path)
    file = tmp_path / "llama-lora" / "adapter_model.safetensors"
    save_file({name: tensor[:, :40].clone() for name, tensor in load_file(file).items()}, file)
    with pytest.raises(InputError, match=r"\(48 x 40\) does not fit: the model has shape \(48, 64\)"):
        exported_as_it_is(tmp_path)


def test_t19_weights_that_the_configuration_does_not_ask_for_are_refused(tmp_path):
    """The stock loader leaves them out without a word, and the adapter does half of what it learnt."""
    directory = save_lora(tmp_path)
    config = json.loads((directory / "adapter_config.json").read_text())
    (directory / "adapter_config.json").write_text(json.dumps(config | {"target_modules": ["q_proj", "v_proj"]}))
    with pytest.raises(
        InputError, match=r"asks for 0 tensors that its weights lack .* and for none of 20 that they hold"
    ):
        load_peft(tiny_model(), directory)


def test_t19_weights_that_are_missing_are_refused(tmp_path):
    directory = save_lora(tmp_path)
    file = directory / "adapter_model.safetensors"
    save_file({name: tensor for name, tensor in load_file(file).items() if "q_proj" not in name}, file)
    with pytest.raises(InputError, match=r"asks for 4 tensors that its weights lack"):
        load_peft(tiny_model(), directory)


def test_a_damaged_weights_file_is_bad_input(tmp_path):
    directory = save_lora(tmp_path)
    (directory / "adapter_model.safetensors").write_bytes(b"not tensors")
    with pytest.raises(InputError, match="cannot be read"):
        read_adapter(directory)


def test_an_adapter_that_changes_nothing_is_exported_and_told(tmp_path):
    place, made = exported(tmp_path, "merged", "float32", b_std=0.0)
    assert made.faint == "this adapter changes nothing: one of its two factors is zero in every module"
    assert torch.equal(logits(AutoModelForCausalLM.from_pretrained(place)), logits(tiny_model()))


def test_an_adapter_that_changes_next_to_nothing_is_told(tmp_path):
    _, made = exported(tmp_path, "merged", "float32", b_std=1e-7)
    assert made.faint is not None
    assert made.faint.startswith("this adapter changes next to nothing: logprobs by ")


def reference(tmp_path):
    model, sequences = tiny_model(), IDS.tolist()
    base = logprobs_of(model, sequences)
    return Reference(
        sequences=sequences, base=base, adapted=logprobs_of(load_peft(model, save_lora(tmp_path)), sequences)
    )


def test_t19_a_model_that_lost_its_adapter_is_found_out(tmp_path):
    with pytest.raises(ArtError, match=r"does not compute what the adapter does: its logprobs differ .* by up to"):
        reference(tmp_path).check(tiny_model(), dtype="float32")


def test_t19_a_faint_adapter_that_was_lost_is_found_out_within_the_limit(tmp_path):
    model, sequences = tiny_model(), IDS.tolist()
    base = logprobs_of(model, sequences)
    faint = [row + 0.01 * torch.sin(torch.arange(row.numel())).view_as(row) for row in base]
    with pytest.raises(ArtError, match="as far from the adapter as from the base"):
        Reference(sequences=sequences, base=base, adapted=faint).check(model, dtype="bfloat16")


@pytest.mark.parametrize(("share", "told"), [(2.0, r"holds (1\.9|2\.\d)\d? times"), (0.6, r"holds 0\.[56]\d times")])
def test_t19_a_model_that_holds_its_adapter_at_another_scale_is_found_out_within_the_limit(tmp_path, share, told):
    found = reference(tmp_path)
    changes = [0.1 * (own - base) for base, own in zip(found.base, found.adapted, strict=True)]
    small, wrong = (
        [(base + size * change).log_softmax(-1) for base, change in zip(found.base, changes, strict=True)]
        for size in (1.0, share)
    )
    found = dataclasses.replace(found, adapted=small)
    with pytest.raises(ArtError, match=told):
        found.check(Says(found.sequences, wrong), dtype="q8_0")


class Says:
    """Stands in for a model: gives these logprobs."""

    device = "cpu"

    def __init__(self, sequences, rows):
        self.rows = {tuple(ids): row for ids, row in zip(sequences, rows, strict=True)}

    def __call__(self, input_ids, **_):
        return types.SimpleNamespace(logits=self.rows[tuple(input_ids[0].tolist())][None])


def test_a_model_that_computes_nan_is_found_out(tmp_path):
    broken = tiny_model()
    with torch.no_grad():
        broken.get_submodule(O_PROJ).weight[0, 0] = math.nan
    with pytest.raises(ArtError, match="by up to inf nats"):
        reference(tmp_path).check(broken, dtype="q8_0")


def test_the_difference_of_two_rows():
    one, other = [torch.tensor([[-1.0, -2.0]])], [torch.tensor([[-1.5, -2.0]])]
    found = difference(one, other)
    assert (found.largest, found.mean) == (0.5, 0.25)


def rename(directory, old, new):
    file = directory / "adapter_model.safetensors"
    save_file({name.replace(old, new): tensor for name, tensor in load_file(file).items()}, file)


def exported_as_it_is(tmp_path):
    """Export the adapter that lies there, without saving it anew."""
    job = ExportJob(adapter=tmp_path / "llama-lora", base_model=str(save_base(tmp_path)), form="adapter", dtype=None)
    return make(job, tmp_path / "place", tmp_path / "scratch", lambda line: None)


def test_an_adapter_brings_the_chat_template_that_its_base_lacks(tmp_path):
    adapter, base = save_lora(tmp_path), save_base(tmp_path)
    (base / "chat_template.jinja").unlink()
    (adapter / "chat_template.jinja").write_text(CHATML)
    place, scratch = tmp_path / "place", tmp_path / "scratch"
    place.mkdir()
    scratch.mkdir()
    job = ExportJob(adapter=adapter, base_model=str(base), form="adapter", dtype=None)
    make(job, place, scratch, lambda line: None)
    assert (place / "chat_template.jinja").read_text() == CHATML
