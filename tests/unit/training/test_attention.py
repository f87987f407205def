"""Grouped attention is ordinary attention, and only replaces torch's."""

from __future__ import annotations

import pytest
import torch

from art_core.training.attention import NAME, grouped_attention, use_grouped_attention

from .tiny import build

CAUSAL = torch.ones(5, 7, dtype=torch.bool).tril(2)[None, None]


@pytest.mark.parametrize("kv_heads", [1, 2, 6])
@pytest.mark.parametrize(("mask", "slots"), [(CAUSAL, 7), (None, 5)], ids=["after a prefix", "from the start"])
def test_equals_attention_with_repeated_heads(kv_heads, mask, slots):
    torch.manual_seed(0)
    query = torch.randn(3, 6, 5, 8)
    key, value = torch.randn(2, 3, kv_heads, slots, 8)
    wide_key, wide_value = (tensor.repeat_interleave(6 // kv_heads, dim=1) for tensor in (key, value))
    scores = query @ wide_key.transpose(2, 3) * 0.5
    allowed = torch.ones(5, 5, dtype=torch.bool).tril() if mask is None else mask
    expected = scores.masked_fill(~allowed, -torch.inf).softmax(-1) @ wide_value
    mixed, _ = grouped_attention(torch.nn.Identity(), query, key, value, mask, scaling=0.5)
    assert torch.allclose(mixed, expected.transpose(1, 2), atol=1e-6)


def test_a_model_computes_the_same_with_it():
    ids = torch.tensor([[1, 2, 3, 4], [5, 6, 7, 8]])
    model = build("qwen3")
    before = model(ids).logits
    use_grouped_attention(model)
    assert model.config._attn_implementation == NAME
    assert torch.allclose(model(ids).logits, before, atol=1e-5)


def test_another_kind_of_attention_is_kept():
    model = build()
    model.set_attn_implementation("eager")
    use_grouped_attention(model)
    assert model.config._attn_implementation == "eager"
