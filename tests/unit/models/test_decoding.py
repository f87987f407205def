"""A row draws from its own distribution, whoever shares its place; what rows have in common is computed once."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from art_core.inference.protocol import SamplingParams
from art_core.models.attention import use_segment_attention
from art_core.models.decoding import DecodeBatch, Row
from tests.unit.training.tiny import FAMILY_NAMES, build

SYSTEM = tuple((7 * i) % 290 for i in range(40))
LONG = tuple((11 * i + 3) % 290 for i in range(100))
PROMPTS = [(*SYSTEM, 5), (*SYSTEM, 6, 7, 8), (*SYSTEM, *LONG), (9,), (1, *LONG), (2, *LONG, 3)]


def row(prompt, key, **params):
    return Row(prompt, SamplingParams(**{"max_tokens": 6, "temperature": 0.3} | params), key)


def batch(model, **options):
    use_segment_attention(model)
    return DecodeBatch(model, **options)


def finish(decoding):
    done = decoding.retire()
    while decoding.rows:
        decoding.step()
        done += decoding.retire()
    return done


def plain_logprobs(model, row):
    """Of the drawn tokens, by the model itself over the whole sequence."""
    model.set_attn_implementation("eager")
    with torch.inference_mode():
        logits = model(torch.tensor([[*row.prompt, *row.ids]]), use_cache=False).logits[0, len(row.prompt) - 1 : -1]
    logprobs = torch.log_softmax(logits.float() / (row.params.temperature or 1.0), -1)
    return logprobs[torch.arange(len(row.ids)), torch.tensor(row.ids)].tolist()


def test_siblings_are_one_row_until_they_draw_different_tokens():
    decoding = batch(build())
    decoding.admit([row((5, 6, 7), key, temperature=0.0) for key in range(8)])
    finish(decoding)
    assert decoding.computed_tokens == 3 + 5  # the prompt and all drawn tokens but the last, once for all eight


def test_siblings_that_part_are_computed_by_themselves_from_there():
    decoding = batch(build())
    rows = [row((5, 6, 7), key, max_tokens=3) for key in range(8)]
    decoding.admit(rows)
    finish(decoding)
    assert len({tuple(r.ids) for r in rows}) > 1
    computed = {(5, 6, 7), *(tuple(r.ids[:1]) for r in rows), *(tuple(r.ids[:2]) for r in rows)}
    assert decoding.computed_tokens == 3 + len(computed) - 1


def test_greedy_and_drawing_siblings_share_a_place_and_draw_their_own():
    decoding = batch(build())
    greedy, drawn = row((5, 6, 7), 0, temperature=0.0, max_tokens=1), row((5, 6, 7), 1, temperature=3.0, max_tokens=1)
    alone = row((5, 6, 7), 1, temperature=3.0, max_tokens=1)
    for rows in ([greedy, drawn], [alone]):
        decoding.admit(rows)
        finish(decoding)
    assert (drawn.ids, drawn.logprobs) == (alone.ids, pytest.approx(alone.logprobs, abs=1e-5))
    assert greedy.ids != drawn.ids


def test_finished_siblings_leave_and_the_others_go_on():
    decoding = batch(build())
    short, long = (row((5, 6, 7), 0, temperature=0.0, max_tokens=count) for count in (2, 4))
    decoding.admit([short, long])
    decoding.step()
    assert (decoding.retire(), decoding.rows) == ([short], [long])
    assert finish(decoding) == [long]
    assert long.ids[:2] == short.ids


def test_a_removed_row_leaves_its_siblings_where_they_are():
    decoding = batch(build())
    one, other, stranger = row((5, 6), 0, temperature=0.0), row((5, 6), 1, temperature=0.0), row((8, 9), 2)
    decoding.admit([one, other, stranger])
    decoding.step()
    decoding.remove([one])
    finish(decoding)
    assert [len(r.ids) for r in (one, other, stranger)] == [2, 6, 6]
    assert other.logprobs == pytest.approx(plain_logprobs(build(), other), abs=1e-4)


@pytest.mark.parametrize("extra", [(0, 9, 80), (0, 12)], ids=["lengths that differ", "similar lengths"])
@pytest.mark.parametrize("family", FAMILY_NAMES)
def test_groups_with_prompts_of_their_own_are_decoded_side_by_side(family, extra):
    model = build(family)
    rows = [row((n, *SYSTEM, *LONG, *range(n)), 10 * n + key) for n in extra for key in range(3)]
    decoding = batch(model)
    decoding.admit(rows)
    assert sorted({r.prefix_length for r in rows}) == [140 + n for n in extra]
    for r in finish(decoding):
        assert r.logprobs == pytest.approx(plain_logprobs(model, r), abs=1e-5)


@pytest.mark.parametrize("family", FAMILY_NAMES)
@settings(max_examples=12, deadline=None, derandomize=True)
@given(
    admissions=st.lists(
        st.lists(st.tuples(st.sampled_from(PROMPTS), st.integers(1, 7)), min_size=1, max_size=6), min_size=1, max_size=3
    ),
    removed=st.integers(0, 20),
)
def test_t27_every_drawn_token_has_the_logprob_the_whole_sequence_gives_it(family, admissions, removed):
    model = build(family)
    decoding = batch(model)
    rows, done = [], []
    for admitted in admissions:
        new = [row(prompt, len(rows) + key, max_tokens=count) for key, (prompt, count) in enumerate(admitted)]
        decoding.admit(new)
        rows += new
        done += decoding.retire()
        if decoding.rows:
            decoding.step()
            done += decoding.retire()
    gone = decoding.remove(decoding.rows[removed : removed + 1])
    done += finish(decoding)
    assert {id(r) for r in done} | {id(r) for r in gone} == {id(r) for r in rows}
    for each in rows:
        assert each.logprobs == pytest.approx(plain_logprobs(model, each), abs=2e-4)


@pytest.mark.parametrize("family", FAMILY_NAMES)
def test_the_next_turn_of_a_conversation_computes_only_what_is_new(family):
    model = build(family)
    decoding = batch(model)
    first = row((*SYSTEM, 5), 0)
    decoding.admit([first])
    finish(decoding)
    before = decoding.computed_tokens
    second = row((*first.prompt, *first.ids, 8, 9), 1)
    decoding.admit([second])
    assert (
        decoding.computed_tokens - before == 3
    )  # the last drawn token, which nothing came after, and the two new ones
    finish(decoding)
    assert second.logprobs == pytest.approx(plain_logprobs(model, second), abs=1e-4)


def test_a_request_that_is_made_again_is_computed_as_the_first_time():
    decoding = batch(build())
    first = row((*SYSTEM, 5), 0)
    decoding.admit([first])
    finish(decoding)
    turns = [row((*first.prompt, *first.ids, 8, 9), 1) for _ in range(2)]
    for turn in turns:
        decoding.admit([turn])
        finish(decoding)
    assert (turns[0].ids, turns[0].logprobs) == (turns[1].ids, turns[1].logprobs)


def test_what_finished_rows_computed_is_forgotten_with_the_weights():
    decoding = batch(build())
    first = row((*SYSTEM, 5), 0)
    decoding.admit([first])
    finish(decoding)
    decoding.weights_changed()
    before = decoding.computed_tokens
    decoding.admit([row((*first.prompt, *first.ids, 8, 9), 1)])
    assert decoding.computed_tokens - before == len(first.prompt) + len(first.ids) + 2


@pytest.mark.parametrize("family", FAMILY_NAMES)
@settings(max_examples=12, deadline=None, derandomize=True)
@given(
    rounds=st.lists(
        st.lists(
            st.tuples(
                st.integers(0, 30), st.integers(0, 25), st.lists(st.integers(0, 250), max_size=40), st.integers(1, 2)
            ),
            min_size=1,
            max_size=4,
        ),
        min_size=2,
        max_size=4,
    )
)
def test_every_turn_has_the_logprobs_the_whole_conversation_gives_it(family, rounds):
    """Conversations go on from any earlier one, whole or cut anywhere, alone or with siblings, beside others that are still being decoded."""
    model = build(family)
    decoding = batch(model)
    rows, done = [row(prompt, key) for key, prompt in enumerate(PROMPTS)], []
    decoding.admit(rows)
    for asked in rounds:
        done += decoding.retire()
        new = []
        for number, cut, more, siblings in asked:
            known = (done or rows)[number % len(done or rows)]
            whole = (*known.prompt, *known.ids)
            prompt = (*whole[: max(1, len(whole) - cut)], *more)
            new += [row(prompt, len(rows) + len(new) + n) for n in range(siblings)]
        decoding.admit(new)
        rows += new
        done += decoding.retire()
        for _ in range(3):
            if decoding.rows:
                decoding.step()
    finish(decoding)
    for each in rows:
        assert each.logprobs == pytest.approx(plain_logprobs(model, each), abs=2e-4)
