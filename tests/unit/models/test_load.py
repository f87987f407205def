import pytest
import torch

from art_core.models.load import load_model
from tests.tiny import save_tiny, tiny_model


def test_a_directory_is_loaded_in_float32_with_its_tokenizer(tmp_path):
    loaded = load_model(str(save_tiny(tmp_path)))
    assert {p.dtype for p in loaded.model.parameters()} == {torch.float32}
    assert torch.equal(loaded.model(torch.tensor([[1, 2]])).logits, tiny_model()(torch.tensor([[1, 2]])).logits)
    assert loaded.tokenizer.decode(loaded.tokenizer.encode("hé")) == "hé"
    assert loaded.context == 512


def test_files_that_are_no_model_are_named(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ValueError, match="cannot be loaded"):
        load_model(str(tmp_path))


def test_an_unknown_name_says_what_is_known():
    with pytest.raises(ValueError, match="smollm2-135m"):
        load_model("no-such-model")
