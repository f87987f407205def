"""Attention over a pack is ordinary attention over each row, forwards and backwards."""

from __future__ import annotations

import pytest
import torch

from art_core.training import tree_attention as module
from art_core.training.packing import build_tree
from art_core.training.tree_attention import NAME, TreePlan, tree_attention, use_tree_attention

from .tiny import build, row, step_rows

CPU = torch.device("cpu")


def nested():
    """The packs of a step with a cached prefix: those below the first node."""
    samples, _ = step_rows()
    (node,) = build_tree(samples, micro_batch_tokens=120, min_shared_tokens=1).children
    return [*node.packs, *(pack for child in node.children for pack in child.every_pack())][0]


def whole():
    (pack,) = build_tree(step_rows()[0], micro_batch_tokens=10_000, min_shared_tokens=1).every_pack()
    return pack


def visible(pack, window):
    """(S, P + S) which keys a token sees, one by one."""
    allowed = torch.zeros(len(pack.token_ids), pack.start + len(pack.token_ids), dtype=torch.bool)
    positions = [*range(pack.start), *pack.positions.tolist()]
    for number, segment in enumerate(pack.segments):
        path, above = [number], segment.parent
        while above is not None:
            path.append(above)
            above = pack.segments[above].parent
        for column in range(segment.begin, segment.end):
            keys = [*range(pack.start)]
            for n in path:
                keys += range(pack.start + pack.segments[n].begin, pack.start + min(column + 1, pack.segments[n].end))
            for key in keys:
                allowed[column, key] = window is None or int(pack.positions[column]) - positions[key] < window
    return allowed


def tensors(pack, kv_heads, dtype=torch.float64):
    torch.manual_seed(0)
    size = len(pack.token_ids)
    query = torch.randn(1, 6, size, 8, dtype=dtype, requires_grad=True)
    key, value = (torch.randn(1, kv_heads, pack.start + size, 8, dtype=dtype, requires_grad=True) for _ in range(2))
    return query, key, value


def plain(query, key, value, allowed, softcap):
    wide_key, wide_value = (t.repeat_interleave(6 // key.shape[1], dim=1) for t in (key, value))
    scores = query @ wide_key.transpose(2, 3) * 0.5
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    return (scores.masked_fill(~allowed, -torch.inf).softmax(-1) @ wide_value).transpose(1, 2)


@pytest.mark.parametrize("block", [4, 30, 256])
@pytest.mark.parametrize("pack", [whole(), nested()], ids=["from the start", "after a cache"])
@pytest.mark.parametrize(
    ("kv_heads", "window", "softcap"), [(1, None, None), (2, 7, None), (6, None, 2.0), (3, 5, 1.0)]
)
def test_equals_attention_under_a_mask_and_so_do_its_gradients(monkeypatch, block, pack, kv_heads, window, softcap):
    monkeypatch.setattr(module, "_BLOCK", block)
    inputs = tensors(pack, kv_heads)
    expected = plain(*inputs, visible(pack, window), softcap)
    weights = torch.randn_like(expected)
    wanted = torch.autograd.grad((expected * weights).sum(), inputs)
    mixed, _ = tree_attention(
        torch.nn.Identity(),
        *inputs,
        None,
        tree_plan=TreePlan(pack, CPU),
        scaling=0.5,
        sliding_window=window,
        softcap=softcap,
    )
    assert torch.allclose(mixed, expected, atol=1e-10)
    for got, exact in zip(torch.autograd.grad((mixed * weights).sum(), inputs), wanted, strict=True):
        assert torch.allclose(got, exact, atol=1e-10)


def test_scores_of_half_precision_inputs_are_float32():
    pack = whole()
    inputs = tensors(pack, 2, torch.bfloat16)
    with torch.autocast("cpu", torch.bfloat16):
        mixed, _ = tree_attention(torch.nn.Identity(), *inputs, None, tree_plan=TreePlan(pack, CPU), scaling=0.5)
    exact = plain(*(tensor.float() for tensor in inputs), visible(pack, None), None)
    assert mixed.dtype == torch.bfloat16
    assert (mixed.float() - exact).abs().max() < 2**-7 * exact.abs().max()  # rounded twice: as weights and as result


def test_the_gradient_is_computed_in_float32_under_autocast_too():
    """As it is for a model whose adapter cannot be folded."""
    pack, gradients = whole(), []
    for enabled in (False, True):
        inputs = [tensor.requires_grad_() for tensor in tensors(pack, 2, torch.float32)]
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            mixed, _ = tree_attention(torch.nn.Identity(), *inputs, None, tree_plan=TreePlan(pack, CPU), scaling=0.5)
            gradients.append(torch.autograd.grad(mixed.square().sum(), inputs))
    assert all(torch.equal(one, other) for one, other in zip(*gradients, strict=True))


def test_small_neighbours_share_a_block_and_long_runs_are_cut(monkeypatch):
    monkeypatch.setattr(module, "_BLOCK", 4)
    samples = [row([*range(6), 10 + k, 20 + k], [6, 7]) for k in range(3)]
    (pack,) = build_tree(samples, micro_batch_tokens=100, min_shared_tokens=1).every_pack()
    blocks = [(block.queries, block.keys) for block in TreePlan(pack, CPU).blocks]
    assert blocks == [((0, 4), ((0, 4),)), ((4, 6), ((0, 6),)), ((6, 9), ((0, 9),))]


def test_without_a_plan_a_model_computes_as_before():
    ids = torch.tensor([[1, 2, 3, 4], [5, 6, 7, 8]])
    mask = torch.tensor([[0, 1, 1, 1], [1, 1, 1, 1]])
    model = build("qwen3")
    before = model(ids, attention_mask=mask).logits
    use_tree_attention(model)
    assert model.config._attn_implementation == NAME
    assert torch.allclose(model(ids, attention_mask=mask).logits, before, atol=1e-5)
