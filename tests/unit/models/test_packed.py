"""Packed weights compute what plain ones do, follow the adapter, and are given up where there are none."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from art_core.models.attention import SegmentPlan, SuffixWindow, forward_hidden, use_segment_attention
from art_core.models.fold import FoldedModel
from art_core.models.head import head_logits
from art_core.models.lora import AdapterWeights
from art_core.models.packed import PackedLinear, can_pack, pack, product
from art_core.models.prefix_cache import new_buffers
from tests.unit.training.tiny import FAMILY_NAMES, build

DTYPES = [
    pytest.param(dtype, marks=pytest.mark.skipif(not can_pack("cpu", dtype), reason="not on this processor"))
    for dtype in (torch.float32, torch.bfloat16)
]


@pytest.mark.parametrize("dtype", DTYPES)
@settings(max_examples=25, deadline=None)
@given(rows=st.integers(1, 80), outputs=st.integers(1, 70), inputs=st.integers(1, 70), seed=st.integers(0, 9))
def test_a_packed_product_is_the_plain_one(dtype, rows, outputs, inputs, seed):
    generator = torch.Generator().manual_seed(seed)
    weight, bias, x = (
        torch.randint(-3, 4, shape, generator=generator).to(dtype)
        for shape in ((outputs, inputs), (outputs,), (rows, inputs))
    )
    expected = (x.double() @ weight.double().T + bias.double()).to(dtype)  # sums of small integers: exact
    assert torch.equal(product(x, pack(weight), bias), expected)


def logits(model):
    """Of five tokens in two rows, the way the sampler asks for them."""
    use_segment_attention(model)
    with torch.inference_mode():
        window = SuffixWindow(new_buffers(model, 2, 8), torch.zeros(2, dtype=torch.long), 5)
        plan = SegmentPlan((), window, torch.zeros(2, dtype=torch.long))
        ids = torch.tensor([[1, 2, 3, 4, 5], [6, 5, 4, 3, 2]])
        return head_logits(model, forward_hidden(model, ids, plan)[:, -1])


@pytest.mark.parametrize("family", FAMILY_NAMES)
def test_a_packed_model_computes_what_a_folded_one_does_and_goes_back_to_the_base(family):
    base = build(family)
    name, linear = next((n, m) for n, m in base.named_modules() if isinstance(m, torch.nn.Linear) and "down" in n)
    outputs, inputs = linear.weight.shape
    adapter = AdapterWeights(scale=0.5, factors={name: (torch.ones(2, inputs), torch.ones(outputs, 2))})
    plain, packed = FoldedModel(base), FoldedModel(base, packed=True)
    assert isinstance(packed.model.get_submodule(name), PackedLinear)
    before = logits(packed.model)
    for each in (plain, packed):
        each.fold(adapter)
    assert torch.allclose(logits(packed.model), logits(plain.model), atol=1e-5)
    assert not torch.allclose(logits(packed.model), before, atol=1e-2)
    packed.fold(None)
    assert torch.equal(logits(packed.model), before)


def test_where_nothing_can_be_packed_the_plain_layers_stay(monkeypatch):
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    can_pack.cache_clear()
    try:
        model = FoldedModel(build(), packed=True).model
    finally:
        can_pack.cache_clear()
    assert not any(isinstance(module, PackedLinear) for module in model.modules())


def test_a_type_or_device_without_packed_products_is_told_apart():
    assert not can_pack("cpu", torch.float64)
    assert not can_pack("cuda", torch.float32)
