"""Bits of a row, whatever is decoded beside it."""

import pytest
import torch

from art_core.inference.protocol import SamplingParams
from art_core.models import lanes
from art_core.models.decoding import Row
from art_core.models.lane_attention import use_lane_attention
from art_core.models.lanes import CHUNK, LaneBatch, Prompts, lanes_agree
from tests.tiny import FAMILIES, tiny_model


def row(key, *, prompt=(1, 2, 3), tokens=12):
    return Row(tuple(prompt), SamplingParams(max_tokens=tokens), key)


def finish(batch, waiting):
    """Decode rows in the order given, each admitted as soon as a lane is free."""
    waiting = list(waiting)
    while waiting or batch.rows:
        joining, waiting = waiting[: batch.free], waiting[batch.free :]
        batch.admit(joining)
        batch.retire()
        if batch.rows:
            batch.step()
            batch.retire()


def drawn(row):
    return row.ids, row.logprobs


def mixed_rows():
    long = [(7 * i) % 290 for i in range(150)]
    prompts = [(5,), (5,), long, [*long, 9], long[:CHUNK], long[: CHUNK + 1], (8, 9)]
    return [row(key, prompt=prompt, tokens=3 + 40 * (key % 3)) for key, prompt in enumerate(prompts)]


@pytest.mark.parametrize(
    ("family", "dtype"), [*((family, torch.float32) for family in FAMILIES), ("llama", torch.bfloat16)]
)
def test_a_row_has_the_same_bits_alone_and_in_any_company(family, dtype):
    model = tiny_model(family).to(dtype)
    alone = mixed_rows()
    for one in alone:
        finish(LaneBatch(model, lanes=4), [one])
    for order in (slice(None), slice(None, None, -1)):
        together = mixed_rows()
        finish(LaneBatch(model, lanes=4), together[order])
        assert list(map(drawn, together)) == list(map(drawn, alone))


def test_a_row_that_joins_late_changes_nobody():
    model = tiny_model()
    early, late, alone = row(1, tokens=30), row(2, prompt=range(1, 90), tokens=30), row(1, tokens=30)
    finish(LaneBatch(model, lanes=4), [alone])
    batch = LaneBatch(model, lanes=4)
    batch.admit([early])
    for _ in range(7):
        batch.step()
    finish(batch, [late])
    assert drawn(early) == drawn(alone)


def test_whole_chunks_of_a_prompt_are_computed_once():
    batch = LaneBatch(tiny_model(), lanes=4)
    prompt = [(3 * i) % 290 for i in range(CHUNK + 10)]
    finish(batch, [row(key, prompt=prompt, tokens=1) for key in range(3)])
    assert batch.computed_tokens == CHUNK + 10
    finish(batch, [row(9, prompt=[*prompt[:CHUNK], 4, 5], tokens=1)])
    assert batch.computed_tokens == CHUNK + 10 + 2


def test_dropping_kept_chunks_changes_nothing_but_time():
    model = tiny_model()
    use_lane_attention(model)
    prompts = Prompts(model, kept_tokens=CHUNK)
    first = tuple(range(1, 101))
    with torch.inference_mode():
        _, before = prompts.prefill(first)
        prompts.prefill(tuple(range(2, 102)))
        _, after = prompts.prefill(first)
    assert torch.equal(before, after)
    assert prompts.computed_tokens == 300


@pytest.mark.parametrize("count", lanes.LANES)
def test_lanes_agree_on_this_machine(count):
    model = tiny_model()
    use_lane_attention(model)
    assert lanes_agree(model, count)


def test_a_model_whose_lanes_differ_gets_one():
    model = tiny_model()

    def nudge(module, arguments, output):
        """As a product would that adds up its last row in another order."""
        return torch.cat([output[:-1], output[-1:] * (1 + 1e-6)]) if len(output) > 1 else output

    model.model.layers[0].mlp.down_proj.register_forward_hook(nudge)
    batch = LaneBatch(model)
    assert batch.lanes == 1
    rows = [row(1), row(2)]
    finish(batch, rows)
    assert [len(one.ids) for one in rows] == [12, 12]
