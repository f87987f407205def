import pytest
import torch

from art_core.models.head import check_head, head_logits
from tests.tiny import FAMILIES, tiny_model


@pytest.mark.parametrize("family", FAMILIES)
def test_the_head_agrees_with_the_models_own_forward(family):
    check_head(tiny_model(family))


def test_final_softcapping_is_applied():
    model = tiny_model("gemma3")
    model.config.final_logit_softcapping = 2.0
    logits = head_logits(model, torch.randn(3, 48) * 50)
    assert logits.abs().max() <= 2.0


def test_an_unknown_treatment_of_logits_is_refused():
    model = tiny_model()
    head = model.get_output_embeddings()
    original = model.forward

    def forward(**inputs):
        output = original(**inputs)
        output.logits = output.logits * 3 + 1
        return output

    model.forward = forward
    with pytest.raises(ValueError, match="'llama' changes its logits in a way that is not supported"):
        check_head(model)
    assert head is model.get_output_embeddings()
