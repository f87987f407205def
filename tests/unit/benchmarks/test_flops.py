"""The arithmetic of a step, counted by hand."""

from benchmarks.flops import Forward, Shape, group
from tests.unit.training.tiny import lora

SHAPE = Shape(linear=100, adapter=10, head=50, attention=7)


def test_a_group_whose_prompt_is_shared_computes_it_once():
    # prompt of 3, replies of 2: the second token of a reply predicts nothing, the first stands at place 3
    assert group(3, 2, 4, shared=True) == Forward(tokens=3 + 4, predictions=1 + 4, pairs=(1 + 2 + 3) + 4 * 4)


def test_whole_rows_compute_the_prompt_for_every_reply():
    assert group(3, 2, 4, shared=False) == Forward(tokens=4 * 4, predictions=4 * 2, pairs=4 * (1 + 2 + 3 + 4))


def test_a_forward_pass_counts_two_a_multiplication_and_addition():
    assert SHAPE.sampling(Forward(tokens=3, predictions=2, pairs=6)) == 2 * 100 * 3 + 2 * 50 * 2 + 4 * 7 * 6


def test_training_counts_no_gradient_of_frozen_weights():
    work = Forward(tokens=3, predictions=2, pairs=6)
    assert SHAPE.training(work) == (4 * 100 + 6 * 10) * 3 + 4 * 50 * 2 + 12 * 7 * 6


def test_the_shape_of_a_model_with_a_lora():
    shape = Shape.of(
        lora(rank=4)
    )  # hidden 32, 4 heads and 2 key/value heads of 8, feed-forward 48, 2 layers, 300 words
    attention, feed_forward = 32 * 32 + 2 * 32 * 16 + 32 * 32, 3 * 32 * 48
    ranks = 4 * ((32 + 32) + 2 * (32 + 16) + (32 + 32) + 3 * (32 + 48))
    assert shape == Shape(linear=2 * (attention + feed_forward), adapter=2 * ranks, head=300 * 32, attention=2 * 4 * 8)
