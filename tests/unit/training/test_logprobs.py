"""T2, T3, T4, T5, T10, T30: the tree's loss and gradients are those of plain forward passes, in every family."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
import torch

from art_core.training.config import TrainingConfig
from art_core.training.logprobs import SplitModel
from art_core.training.step import accumulate, plan, token_logprobs

from .reference import reference_logprobs, reference_loss
from .tiny import FAMILY_NAMES, VOCAB, build, gradient, lora, row, step_rows

NEVER = 10**9


def run(model, samples, advantages, *, precision="float32", **options):
    """Loss and gradient of one pass."""
    config = TrainingConfig(**{"min_shared_tokens": 1} | options)
    split = SplitModel(model, precision=precision)
    model.zero_grad()
    loss, _ = accumulate(plan(samples, advantages, model=split, config=config), split, config)
    return loss, gradient(model)


def apart(left, right):
    return float((left - right).norm() / right.norm())


@pytest.mark.parametrize("family", FAMILY_NAMES)
def test_t30_equals_plain_loops_in_float64(family):
    samples, advantages = step_rows(temperature=1.3)
    loss, grads = run(lora(family), samples, advantages)
    exact = lora(family).double()
    exact.set_attn_implementation("eager")  # torch's attention leaves out Gemma 2's soft cap
    expected = reference_loss(exact, samples, advantages)
    expected.backward()
    assert loss == pytest.approx(expected.item(), rel=1e-5)
    assert apart(grads.double(), gradient(exact)) < 1e-5


def near(sample, logprobs, gap=0.1):
    """The sample as drawn by a sampler that finds every token a little less likely than the trainer."""
    values = sample.logprobs.copy()
    for position, value in logprobs.items():
        values[position] = value.item() - gap
    return replace(sample, logprobs=values)


LOSSES = ["grpo", "dr_grpo", "dapo", "gspo", "cispo", "reinforce"]


@pytest.mark.parametrize("split_rows", [False, True])
@pytest.mark.parametrize("loss", LOSSES)
def test_t30_every_loss_equals_plain_loops_also_after_the_weights_have_moved(loss, split_rows):
    samples, advantages = step_rows()
    if split_rows:  # every other rollout has become two rows
        samples = [replace(s, rollout_id=f"r{n // 2}" if n < 6 else s.rollout_id) for n, s in enumerate(samples)]
        advantages = [advantages[n // 2 * 2] if n < 6 else a for n, a in enumerate(advantages)]
    model, exact = lora(), lora().double()
    config = TrainingConfig(loss=loss, min_shared_tokens=1)
    split = SplitModel(model)
    old = reference_logprobs(exact, samples)
    samples = [
        near(
            sample,
            {place[1]: old[place] for place in old if place[0] == n},
            gap=1.0 if sample.rollout_id == samples[0].rollout_id else 0.1,
        )  # e > 2, the cap
        for n, sample in enumerate(samples)
    ]
    work = plan(samples, advantages, model=split, config=config)
    for moved in (False, True):
        if moved:
            for parameters in zip(model.parameters(), exact.parameters(), strict=True):
                for parameter in parameters if parameters[0].requires_grad else ():
                    parameter.data += 0.02 * torch.sin(torch.arange(parameter.numel())).view_as(parameter)
        model.zero_grad()
        exact.zero_grad()
        value, _ = accumulate(work, split, config)
        expected = reference_loss(exact, samples, advantages, rule=config.rule, old=old)
        expected.backward()
        assert value == pytest.approx(expected.item(), rel=1e-5, abs=1e-7)
        assert apart(gradient(model).double(), gradient(exact)) < 1e-5


@pytest.mark.parametrize("estimator", ["k1", "k2", "k3"])
def test_t30_the_divergence_from_a_reference_equals_plain_loops(estimator):
    samples, advantages = step_rows()
    model, exact = lora(), lora().double()
    config = TrainingConfig(loss="grpo", min_shared_tokens=1, kl_coefficient=0.2, kl_estimator=estimator)
    split = SplitModel(model)
    with exact.disable_adapter():
        base = {place: value.detach() for place, value in reference_logprobs(exact, samples).items()}
    work = plan(
        samples,
        advantages,
        model=split,
        config=config,
        reference=lambda rows: [
            np.array([base.get((n, p), 0.0) for p in range(len(row.token_ids))], dtype=np.float32)
            for n, row in enumerate(rows)
        ],
    )
    loss, _ = accumulate(work, split, config)
    expected = reference_loss(exact, samples, advantages, rule=config.rule, reference=base)
    expected.backward()
    assert loss == pytest.approx(expected.item(), rel=1e-5)
    assert apart(gradient(model).double(), gradient(exact)) < 1e-5


@pytest.mark.parametrize("loss", LOSSES)
def test_t10_a_merged_row_has_the_gradient_of_one_row_per_turn(loss):
    ids = [7, 8, 9, 1, 2, 3, 20, 21, 4, 5]
    model = lora()
    _, merged = run(model, [row(ids, [3, 4, 5, 8, 9])], [1.5], loss=loss)
    _, turns = run(model, [row(ids[:6], [3, 4, 5]), row(ids, [8, 9])], [1.5, 1.5], loss=loss)
    assert apart(turns, merged) < 1e-6


@pytest.mark.parametrize("family", FAMILY_NAMES)
def test_t2_shared_equals_whole_rows(family):
    samples, advantages = step_rows()
    model = lora(family)
    loss, grads = run(model, samples, advantages)
    padded_loss, padded = run(model, samples, advantages, min_shared_tokens=NEVER)
    assert loss == pytest.approx(padded_loss, rel=1e-5)
    assert apart(grads, padded) < 1e-5


@pytest.mark.parametrize("share", [1, 20, NEVER])
@pytest.mark.parametrize("budget", [1, 25, 60])
def test_t2_the_micro_batch_split_changes_nothing(budget, share):
    samples, advantages = step_rows()
    model = lora()
    _, whole = run(model, samples, advantages, micro_batch_tokens=10_000, min_shared_tokens=share)
    _, split = run(model, samples, advantages, micro_batch_tokens=budget, min_shared_tokens=share)
    assert apart(split, whole) < 1e-6


@pytest.mark.parametrize("loss", LOSSES)
def test_t2_the_micro_batch_split_changes_no_loss(loss):
    samples, advantages = step_rows()
    model = lora()
    _, whole = run(model, samples, advantages, micro_batch_tokens=10_000, loss=loss)
    _, split = run(model, samples, advantages, micro_batch_tokens=25, loss=loss)
    assert apart(split, whole) < 1e-6


def test_t2_no_order_of_the_rows_of_a_group_changes_anything():
    samples, advantages = (values[:4] for values in step_rows())
    split, config = SplitModel(model := lora()), TrainingConfig(min_shared_tokens=1)
    found = []
    for order in permutations(range(4)):
        model.zero_grad()
        rows, values = [samples[i] for i in order], [advantages[i] for i in order]
        accumulate(plan(rows, values, model=split, config=config), split, config)
        found.append(gradient(model))
    assert max(apart(other, found[0]) for other in found) < 2e-6


@pytest.mark.parametrize("seed", range(4))
def test_t2_the_order_of_rows_changes_nothing(seed):
    samples, advantages = step_rows()
    model = lora()
    order = torch.randperm(len(samples), generator=torch.Generator().manual_seed(seed)).tolist()
    _, straight = run(model, samples, advantages)
    _, shuffled = run(model, [samples[i] for i in order], [advantages[i] for i in order])
    assert apart(shuffled, straight) < 1e-6


def test_t2_a_chunked_head_changes_nothing(monkeypatch):
    samples, advantages = step_rows()
    model = lora()
    _, whole = run(model, samples, advantages)
    monkeypatch.setattr("art_core.training.logprobs._LOGIT_ELEMENTS", 16 * VOCAB)
    _, chunked = run(model, samples, advantages)
    assert apart(chunked, whole) < 1e-6


def test_t4_logits_exist_where_a_trained_token_is_predicted_and_only_a_chunk_at_once(monkeypatch):
    samples, advantages = step_rows()
    split, config = SplitModel(lora()), TrainingConfig(min_shared_tokens=1)
    work = plan(samples, advantages, model=split, config=config)
    seen, logits = [], SplitModel.logits
    monkeypatch.setattr(SplitModel, "logits", lambda self, states: seen.append(len(states)) or logits(self, states))
    monkeypatch.setattr("art_core.training.logprobs._LOGIT_ELEMENTS", 16 * VOCAB)
    accumulate(work, split, config)
    before = {tuple(s.token_ids[:p].tolist()) for s in samples for p in range(len(s.mask)) if s.mask[p]}
    assert max(seen) == 16
    assert sum(seen) == len(before)


@pytest.mark.parametrize("extra", [1, 16, 300])
def test_t3_other_rows_of_a_pack_change_nothing(extra):
    samples, advantages = step_rows()
    model = lora()
    _, grads = run(model, samples, advantages)
    other = row([5] * (40 + extra), [39 + extra])
    _, together = run(model, [other, *samples], [1e-12, *advantages])  # an advantage of almost nothing
    count = sum(sample.trained_tokens for sample in samples)
    assert apart(together * (count + 1) / count, grads) < 1e-5


def test_a_trained_head_gets_its_gradient():
    samples, advantages = step_rows()
    options = {"target_modules": ["q_proj", "lm_head"]}
    _, grads = run(lora(**options), samples, advantages)
    plain = lora(**options)
    reference_loss(plain, samples, advantages).backward()
    assert apart(grads, gradient(plain)) < 1e-5


def test_a_whole_model_can_be_trained():
    samples, advantages = step_rows()
    _, grads = run(build().float(), samples, advantages)
    plain = build()
    reference_loss(plain, samples, advantages).backward()
    assert apart(grads, gradient(plain)) < 1e-5


def test_shared_trained_tokens_get_the_sum_of_their_gradients():
    samples = [row([1, 2, 3, 4, 5, 6 + k], [2, 3, 4, 5], rollout_id=str(k)) for k in range(3)]
    advantages = [1.0, -0.5, 2.0]
    model = lora()
    _, grads = run(model, samples, advantages)
    _, apart_rows = run(model, samples, advantages, min_shared_tokens=NEVER)
    assert apart(grads, apart_rows) < 1e-5


def test_two_temperatures_in_one_step():
    samples, advantages = step_rows(temperature=0.7)
    hot, more = step_rows(temperature=1.4)
    samples, advantages = samples + hot, advantages + more
    _, grads = run(lora(), samples, advantages)
    plain = lora()
    reference_loss(plain, samples, advantages).backward()
    assert apart(grads, gradient(plain)) < 1e-5


def test_an_unknown_head_is_noticed(monkeypatch):
    assert SplitModel(build("gemma2"))._split_head
    monkeypatch.setattr(
        "art_core.training.logprobs.compact_logits", lambda m, h: m.get_output_embeddings()(h).float() * 1.1
    )
    assert not SplitModel(build("gemma2"))._split_head


def test_an_unknown_head_is_run_as_a_whole(monkeypatch):
    samples, advantages = step_rows()
    _, known = run(lora("gemma2"), samples, advantages)
    monkeypatch.setattr(SplitModel, "_head_agrees", lambda self: False)
    assert apart(run(lora("gemma2"), samples, advantages)[1], known) < 1e-6


@pytest.mark.parametrize("family", FAMILY_NAMES)
def test_every_supported_family_shares_prefixes(family, caplog):
    assert SplitModel(lora(family), precision="bfloat16").shares_prefixes
    assert caplog.text == ""


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_attention_that_does_not_work_over_a_tree_is_noticed_and_every_row_run_alone(monkeypatch, caplog, precision):
    samples, advantages = step_rows()
    _, shared = run(lora(), samples, advantages)
    monkeypatch.setattr("art_core.training.logprobs._append", lambda past, new: new)
    model = lora()
    split = SplitModel(model, precision=precision)
    assert not split.shares_prefixes
    assert model.config._attn_implementation == "sdpa"
    assert "prompts are not shared" in caplog.text
    assert apart(run(model, samples, advantages)[1], shared) < 1e-5


def test_bfloat16_is_near_and_its_gradients_stay_float32():
    samples, advantages = step_rows()
    model = lora()
    loss, grads = run(model, samples, advantages)
    rough_loss, rough = run(model, samples, advantages, precision="bfloat16")
    assert rough.dtype == torch.float32
    assert loss == pytest.approx(rough_loss, abs=0.05)
    assert 0 < apart(rough, grads) < 0.1


def test_t5_logprobs_are_log_softmax_at_the_temperature():
    sample = row([3, 1, 4, 1, 5], [2, 4], temperature=0.7)
    model = lora()
    split, config = SplitModel(model), TrainingConfig()
    (values,) = token_logprobs([sample], model=split, config=config)
    logits = model(input_ids=torch.tensor([[3, 1, 4, 1, 5]])).logits[0] / 0.7
    expected = torch.log_softmax(logits, -1)
    assert values == pytest.approx([0, 0, expected[1, 4].item(), 0, expected[3, 5].item()], abs=1e-5)
