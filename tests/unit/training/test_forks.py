"""T11: a shared prefix is computed and trained once, and what a rollout weighs does not depend on how often it forked."""

from __future__ import annotations

import pytest
import torch

from art_core.messages import Message
from art_core.training.config import TrainingConfig
from art_core.training.logprobs import SplitModel
from art_core.training.step import accumulate, plan
from art_core.training.trainer import GrpoTrainer
from art_core.trajectory.graph import TokenGraph, Turn
from art_core.trajectory.samples import samples_of

from .tiny import gradient, lora, row

PROMPT = tuple(range(40, 60))


def turn(name, context, completion, parent=None, keep=0):
    logprobs = (-4.0,) * len(completion)
    return Turn(
        id=name,
        context_ids=context,
        completion_ids=completion,
        logprobs=logprobs,
        parent=parent,
        parent_len=keep,
        reply=Message(role="assistant"),
    )


def rows(*turns, rollout_id="forked"):
    return samples_of(TokenGraph(turns), rollout_id=rollout_id)


def gradient_of(samples, advantages, loss):
    model, config = lora(), TrainingConfig(loss=loss, min_shared_tokens=1)
    split = SplitModel(model)
    accumulate(plan(samples, advantages, model=split, config=config), split, config)
    return gradient(model)


FIRST = turn("a", PROMPT, (1, 2, 3))
CHAIN = rows(FIRST, turn("b", (9,), (4, 5), "a", 23), turn("c", (9,), (6, 7), "b", 26))
FORKS = rows(FIRST, turn("b", (9,), (4, 5), "a", 23), turn("c", (9,), (6, 7), "a", 23))
OTHERS = [row([*PROMPT, 11, 12], [20, 21], rollout_id="other")]


def test_the_prefix_of_forks_is_computed_and_trained_once():
    report = GrpoTrainer(lora(), TrainingConfig(min_shared_tokens=1)).step(FORKS, [1.0, 1.0])
    assert [sample.trained_tokens for sample in FORKS] == [5, 2]
    assert report.tokens == 7
    # prompt, first turn, the id 9 that both forks go on with, and of each the first of its two; a last one predicts nothing
    assert (report.forward_tokens, report.row_tokens) == (20 + 3 + 1 + 1 + 1, 2 * 25)


@pytest.mark.parametrize("loss", ["grpo", "dr_grpo", "dapo", "gspo", "cispo", "reinforce"])
def test_what_the_others_learn_does_not_depend_on_the_forks_of_one(loss):
    assert (len(CHAIN), len(FORKS)) == (1, 2)
    one, two = (gradient_of([*given, *OTHERS], [0.0] * len(given) + [1.0], loss=loss) for given in (CHAIN, FORKS))
    assert torch.allclose(one, two, atol=1e-7)
    assert one.norm() > 0


def test_more_forks_of_as_many_tokens_weigh_as_much():
    """Three forks that repeat the same ids and sample two tokens each, against one row that samples six."""
    same = [turn(name, (9,), (4, 5), "a", 23) for name in "bcd"]
    split = rows(FIRST, *same)
    assert [sample.trained_tokens for sample in split] == [5, 2, 2]
    single = rows(FIRST, same[0])
    # the mean over a rollout's tokens: 3 of the first turn and 2 of each fork, the forks' being the same
    first = gradient_of(rows(FIRST), [1.0], loss="grpo")
    whole = gradient_of(single, [1.0], loss="grpo")
    last = (5 * whole - 3 * first) / 2
    forked = gradient_of(split, [1.0] * 3, loss="grpo")
    assert torch.allclose(forked, (3 * first + 6 * last) / 9, atol=1e-5)
