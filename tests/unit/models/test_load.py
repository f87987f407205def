import pytest
import torch
from transformers import LlamaConfig

from art_core.models.load import context_of, load_model
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


@pytest.mark.parametrize(
    ("rope", "context"),
    [
        (
            {
                "rope_type": "longrope",
                "original_max_position_embeddings": 64,
                "short_factor": [1.0] * 4,
                "long_factor": [2.0] * 4,
            },
            64,
        ),
        ({"rope_type": "linear", "factor": 4.0}, 512),
    ],
    ids=["longrope", "linear"],
)
def test_a_model_whose_rotary_embedding_depends_on_the_longest_row_is_used_up_to_where_it_does_not(rope, context):
    config = LlamaConfig(max_position_embeddings=512, rope_parameters=rope | {"rope_theta": 1e4})
    assert context_of(config) == context
