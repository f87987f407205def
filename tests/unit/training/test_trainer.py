"""T5, T7, T8, T9, T10, T23, T25, T26 and T29: what a step changes, and what it must not."""

from __future__ import annotations

import dataclasses
import math
import threading

import numpy as np
import pytest
import torch

from art_core.errors import InputError, NonFiniteError
from art_core.models.compute import COMPUTE
from art_core.training.advantages import group_advantages
from art_core.training.trainer import GrpoTrainer, TrainingConfig

from .tiny import VOCAB, build, lora, row, step_rows, weights


def with_logprobs(samples, values):
    return [dataclasses.replace(sample, logprobs=value) for sample, value in zip(samples, values, strict=True)]


def on_policy(trainer, **options):
    samples, advantages = step_rows(**options)
    return with_logprobs(samples, trainer.logprobs(samples)), advantages


def trained(samples, advantages, **config):
    """The weights after one step of a fresh model."""
    model = lora()
    GrpoTrainer(model, TrainingConfig(**config)).step(samples, advantages)
    return weights(model)


@pytest.mark.parametrize("temperature", [0.7, 1.0, 1.3])
def test_t5_first_step_on_policy_has_ratio_one(temperature):
    trainer = GrpoTrainer(lora(), TrainingConfig(min_shared_tokens=1))
    report = trainer.step(*on_policy(trainer, temperature=temperature))
    assert (report.ratio_mean, report.kl_behaviour, report.clip_fraction) == (1.0, 0.0, 0.0)


def test_a_wrong_temperature_shows_in_the_ratio():
    trainer = GrpoTrainer(lora())
    samples, advantages = on_policy(trainer, temperature=0.7)
    hotter = [dataclasses.replace(sample, temperature=1.3) for sample in samples]
    assert trainer.step(hotter, advantages).kl_behaviour > 0.05


def test_report_counts():
    samples, advantages = step_rows()
    report = GrpoTrainer(lora(), TrainingConfig(min_shared_tokens=1)).step(samples, advantages)
    assert (report.updated, report.rows, report.rows_skipped) == (True, 12, 0)
    assert report.tokens == sum(sample.trained_tokens for sample in samples)
    assert report.row_tokens == sum(len(sample.token_ids) - 1 for sample in samples)
    assert report.forward_tokens < report.row_tokens - 11 * 14
    assert report.to_dict()["entropy"] == report.entropy > 0


def test_t7_rows_without_advantage_are_not_computed_but_counted():
    samples, advantages = step_rows()
    advantages[4:8] = [0.0] * 4
    report = GrpoTrainer(lora()).step(samples, advantages)
    assert report.rows_skipped == 4
    assert report.tokens == sum(sample.trained_tokens for sample in samples)
    assert report.row_tokens == sum(len(s.token_ids) - 1 for s in [*samples[:4], *samples[8:]])


@pytest.mark.parametrize("given", [([], []), (step_rows()[0], [0.0] * 12)])
def test_t23_nothing_to_learn_is_a_told_no_op(given):
    model = lora()
    before = weights(model)
    trainer = GrpoTrainer(model)
    report = trainer.step(*given)
    assert (report.updated, report.loss, report.grad_norm, trainer.step_count, trainer.updates) == (False, 0, 0, 0, 0)
    assert torch.equal(weights(model), before)


def test_t23_a_single_row_trains():
    report = GrpoTrainer(lora()).step([row([1, 2, 3], [2])], [1.0])
    assert report.updated
    assert math.isfinite(report.loss)


def test_t8_a_shift_of_rewards_changes_nothing():
    samples, _ = step_rows()
    rewards = [0.0, 1.0, 0.5, 0.25] * 3
    plain, moved = (
        [a for g in range(3) for a in group_advantages([r + shift for r in rewards[4 * g : 4 * g + 4]])]
        for shift in (0.0, 8.0)
    )
    assert torch.equal(trained(samples, plain), trained(samples, moved))


def test_t9_what_is_not_trained_has_no_influence_as_a_label():
    # the last context token before a trained one is input; the label of a context position is never looked at
    sample = row([1, 2, 3, 4, 5, 6], [3, 5], logprob=-2.0)
    noisy = dataclasses.replace(sample, logprobs=np.where(sample.mask, -2.0, 77.0).astype(np.float32))
    assert torch.equal(trained([sample], [1.0]), trained([noisy], [1.0]))


def test_t9_tokens_after_the_last_trained_one_have_no_influence():
    head = [1, 2, 3, 4]
    assert torch.equal(
        trained([row([*head, 5, 6], [3])], [1.0]),
        trained([row([*head, 9, 8, 7], [3])], [1.0]),
    )


def test_t10_a_merged_row_equals_one_row_per_turn():
    ids = [7, 8, 9, 1, 2, 3, 20, 21, 4, 5]
    merged = trained([row(ids, [3, 4, 5, 8, 9])], [1.5], learning_rate=1e-3)
    turns = trained([row(ids[:6], [3, 4, 5]), row(ids, [8, 9])], [1.5, 1.5], learning_rate=1e-3)
    assert torch.allclose(merged, turns, atol=1e-6)


@pytest.mark.parametrize("budget", [1, 10_000])
def test_t24_gradients_are_clipped_once_after_all_packs(budget):
    trainer = GrpoTrainer(lora(), TrainingConfig(max_grad_norm=1e-3, micro_batch_tokens=budget))
    report = trainer.step(*step_rows())
    moments = torch.cat([value.flatten() for name, value in trainer.state()[0].items() if name.endswith(":exp_avg")])
    assert moments.norm().item() == pytest.approx((1 - 0.9) * 1e-3, rel=1e-4)
    assert report.grad_norm == pytest.approx(GrpoTrainer(lora()).step(*step_rows()).grad_norm, rel=1e-4)
    assert report.grad_norm > 1e-3


def test_base_weights_are_bit_identical_after_a_step():
    model = lora()
    frozen = {name: p.detach().clone() for name, p in model.named_parameters() if not p.requires_grad}
    before = weights(model)
    GrpoTrainer(model).step(*step_rows())
    assert all(torch.equal(p, frozen[name]) for name, p in model.named_parameters() if name in frozen)
    assert not torch.equal(weights(model), before)


def test_t25_the_same_step_twice_is_bit_equal():
    assert torch.equal(trained(*step_rows()), trained(*step_rows()))


CHANGES = [
    ({}, {"learning_rate": 1e-3}),
    ({}, {"warmup_updates": 5}),
    ({}, {"schedule": "linear", "total_updates": 3}),
    ({"schedule": "linear", "total_updates": 9}, {"total_updates": 3}),
    ({}, {"betas": (0.5, 0.999)}),
    ({}, {"betas": (0.9, 0.9)}),
    ({}, {"weight_decay": 0.1}),
    ({}, {"max_grad_norm": 0.01}),
    *(({"loss": "dapo", "passes": 1}, {"loss": name}) for name in ("grpo", "dr_grpo", "gspo", "reinforce")),
    ({}, {"loss": "cispo"}),
    ({}, {"clip_low": 0.01}),
    ({}, {"clip_high": 0.01}),
    ({"loss": "dr_grpo"}, {"constant_length": 9}),
    ({}, {"importance_cap": 1.0}),
    ({}, {"rollout_ratio": (0.999, 1.001)}),
    ({}, {"kl_coefficient": 0.1}),
    ({"kl_coefficient": 0.1}, {"kl_reference": "start"}),
    ({"kl_coefficient": 0.1}, {"kl_estimator": "k1"}),
    ({"kl_coefficient": 0.1}, {"kl_estimator": "k3"}),
    ({}, {"passes": 3}),
]
ONLY_THE_WORK = {"micro_batch_tokens", "min_shared_tokens"}


@pytest.mark.parametrize(("given", "changed"), CHANGES, ids=str)
def test_t26_every_option_does_something(given, changed):
    def two_steps(**config):
        model = lora()
        trainer = GrpoTrainer(model, TrainingConfig(**{"passes": 2, "max_grad_norm": 1e3} | given | config))
        samples, advantages = on_policy(trainer)  # the second step is off policy
        losses = [trainer.step(samples, advantages).loss for _ in range(2)]
        return [*losses, *weights(model).tolist()]

    assert two_steps() != two_steps(**changed)


def test_with_one_pass_the_ratio_losses_train_as_reinforce_does():
    samples, advantages = step_rows()
    by_loss = {}
    for loss in ("dapo", "cispo", "reinforce"):
        model = lora()
        GrpoTrainer(model, TrainingConfig(loss=loss)).step(samples, advantages)
        by_loss[loss] = weights(model)
    assert torch.allclose(by_loss["dapo"], by_loss["reinforce"], atol=1e-6)
    assert torch.allclose(by_loss["cispo"], by_loss["reinforce"], atol=1e-6)


def test_precision_does_something():
    samples, advantages = step_rows()
    rough = GrpoTrainer(lora(), precision="bfloat16").step(samples, advantages)
    fine = GrpoTrainer(lora()).step(samples, advantages)
    assert 0 < abs(rough.entropy - fine.entropy) < 0.1


def test_t26_no_option_is_left_out():
    assert {name for _, changed in CHANGES for name in changed} | ONLY_THE_WORK == set(TrainingConfig.model_fields)


@pytest.mark.parametrize("option", sorted(ONLY_THE_WORK))
def test_t26_what_must_not_change_the_result_changes_the_work(option):
    samples, advantages = step_rows()
    few, many = (
        GrpoTrainer(lora(), TrainingConfig(**{"min_shared_tokens": 1} | {option: value})) for value in (1, 10_000)
    )
    work = []
    for trainer in (few, many):
        seen: list[float] = []
        report = trainer.step(samples, advantages, on_progress=seen.append)
        work.append((len(seen), report.forward_tokens))
    assert work[0] != work[1]


def test_passes_make_one_update_each():
    trainer = GrpoTrainer(lora(), TrainingConfig(passes=3))
    samples, advantages = on_policy(trainer)
    report = trainer.step(samples, advantages)
    assert (trainer.step_count, trainer.updates) == (1, 3)
    assert report.kl_behaviour > 0  # the later passes are off policy
    assert report.row_tokens == 3 * sum(len(sample.token_ids) - 1 for sample in samples)


def test_a_rollout_that_sampler_and_trainer_see_too_differently_is_left_out_and_counted():
    model = lora()
    trainer = GrpoTrainer(model, TrainingConfig(rollout_ratio=(0.9, 1.1)))
    samples, advantages = on_policy(trainer)
    drifted = [dataclasses.replace(samples[0], logprobs=samples[0].logprobs - 0.2 * samples[0].mask), *samples[1:]]
    report = trainer.step(drifted, advantages)
    assert (report.masked_rollouts, report.masked_tokens) == (1, samples[0].trained_tokens)
    assert report.rows_skipped == 1
    plain = lora()
    GrpoTrainer(plain).step(samples, [0.0, *advantages[1:]])
    assert torch.allclose(weights(model), weights(plain), atol=1e-6)


def test_a_rollout_far_beyond_any_exponential_is_left_out_and_a_broken_model_still_told():
    trainer = GrpoTrainer(model := lora(), TrainingConfig(rollout_ratio=(0.0, 1.1)))
    samples, advantages = on_policy(trainer)
    far = dataclasses.replace(samples[0], logprobs=samples[0].logprobs - 5000.0 * samples[0].mask)
    assert trainer.step([far, *samples[1:]], advantages).masked_rollouts == 1
    next(p for p in model.parameters() if p.requires_grad).data.fill_(math.nan)
    with pytest.raises(NonFiniteError):
        trainer.step(samples, advantages)


def test_the_ratio_of_a_rollout_is_that_of_all_its_rows():
    trainer = GrpoTrainer(lora(), TrainingConfig(rollout_ratio=(0.9, 1.1)))
    samples, advantages = on_policy(trainer)
    first, second = samples[:2]
    even = 0.3 * first.trained_tokens / second.trained_tokens  # the gaps of the two rows add up to nothing
    first = dataclasses.replace(first, logprobs=first.logprobs - 0.3 * first.mask, rollout_id="both")
    second = dataclasses.replace(second, logprobs=second.logprobs + even * second.mask, rollout_id="both")
    assert trainer.step([first, second, *samples[2:]], advantages).masked_rollouts == 0


def test_progress_ends_at_one():
    seen: list[float] = []
    GrpoTrainer(lora(), TrainingConfig(passes=2, micro_batch_tokens=20)).step(*step_rows(), on_progress=seen.append)
    assert seen == sorted(seen)
    assert seen[-1] == 1.0


@pytest.mark.parametrize("passes", [1, 2])
def test_a_broken_model_is_reported_and_nothing_is_updated(passes):
    model = lora()
    trainer = GrpoTrainer(model, TrainingConfig(passes=passes))
    samples, advantages = step_rows()
    trainer.step(samples, advantages)
    before, moments = weights(model), trainer.state()[0]
    with torch.no_grad():
        model.get_base_model().lm_head.weight[0, 0] = math.nan
    with pytest.raises(NonFiniteError, match=r"its rows: '\d-\d' \(\d+ tokens, \d+ trained, advantage"):
        trainer.step(samples, advantages)
    assert torch.equal(weights(model), before)
    assert all(torch.equal(value, moments[name]) for name, value in trainer.state()[0].items())
    assert all(p.grad is None for p in model.parameters())
    assert trainer.step_count == 1


def test_a_failure_in_a_later_pass_takes_back_the_earlier_ones():
    model = lora()
    trainer = GrpoTrainer(model, TrainingConfig(passes=2))
    before = weights(model)

    def break_it(fraction):
        if fraction == 0.5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        trainer.step(*step_rows(), on_progress=break_it)
    assert torch.equal(weights(model), before)
    assert (trainer.updates, trainer.step_count) == (0, 0)
    assert trainer.state()[0] == {}


@pytest.mark.parametrize(
    ("sample", "advantage", "message"),
    [
        (row([1, 2, 3], [2]), math.nan, "advantage nan; it must be a finite number"),
        (row([1, VOCAB, 3], [2]), 1.0, f"holds token id {VOCAB}; the model's ids run from 0 to {VOCAB - 1}"),
        (row([1, -1, 3], [2]), 1.0, "holds token id -1"),
        (row([1, 2, 3], [2], logprob=math.nan), 1.0, "behaviour logprob nan"),
        (row([1, 2, 3], [2], logprob=-math.inf), 1.0, "behaviour logprob -inf"),
        (row([1, 2, 3], [2], logprob=0.5), 1.0, "behaviour logprob 0.5; it must be finite and at most 0"),
        (row([1, 2, 3], [2], temperature=0.0), 1.0, "temperature 0.0; only positive ones are trainable"),
    ],
)
def test_rows_that_cannot_be_trained_are_refused(sample, advantage, message):
    with pytest.raises(InputError, match=message):
        GrpoTrainer(lora()).step([sample], [advantage])


def test_one_advantage_per_row():
    with pytest.raises(InputError, match="12 samples but 1 advantages"):
        GrpoTrainer(lora()).step(step_rows()[0], [1.0])


def test_two_adapters_in_one_step_are_refused():
    with pytest.raises(InputError, match=r"several adapters, \['a', 'b'\]"):
        GrpoTrainer(lora()).step([row([1, 2], [1], adapter=name) for name in "ab"], [1.0, -1.0])


def test_dropout_is_refused():
    with pytest.raises(InputError, match=r"lora_dropout = 0.1"):
        GrpoTrainer(lora(lora_dropout=0.1))


def test_a_frozen_model_is_refused():
    with pytest.raises(InputError, match="attach a LoRA adapter first"):
        GrpoTrainer(build().requires_grad_(False))


def test_others_compute_between_the_micro_batches_of_a_step():
    trainer, done = GrpoTrainer(lora(), TrainingConfig(micro_batch_tokens=1)), []
    step = threading.Thread(target=lambda: done.append(trainer.step(*step_rows()).updated))
    step.start()
    seen = [COMPUTE.run(lambda: list(done)) for _ in range(3)]
    step.join(20)
    assert seen[0] == []
    assert done == [True]


@pytest.mark.parametrize("seed", [0, 1, 2, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (3, 4))])
def test_t29_a_bandit_learns_within_thirty_steps(seed):
    """Three prompts; each is rewarded for a fifth of the ids, another one; the frozen head limits what can be reached."""
    model = lora(seed=seed)
    trainer = GrpoTrainer(model, TrainingConfig(learning_rate=3e-2))
    prompts = {5: 0, 6: 1, 7: 2}
    generator = torch.Generator().manual_seed(seed)
    for _ in range(30):
        samples, advantages = [], []
        for prompt, remainder in prompts.items():
            logprobs = bandit(model, prompt)
            tokens = torch.multinomial(logprobs.exp(), 16, True, generator=generator).tolist()
            advantages += group_advantages([float(token % 5 == remainder) for token in tokens])
            samples += [row([1, prompt, token], [2], logprob=min(0.0, float(logprobs[token]))) for token in tokens]
        trainer.step(samples, advantages)
    chances = [bandit(model, prompt).exp()[remainder::5].sum().item() for prompt, remainder in prompts.items()]
    assert min(chances) > 0.5


@torch.no_grad()
def bandit(model, prompt):
    return model(torch.tensor([[1, prompt]])).logits[0, -1].log_softmax(-1)


def test_the_divergence_is_zero_at_the_base_and_measured_from_it():
    """T18: the reference is the model with its adapter off."""
    trainer = GrpoTrainer(lora(), TrainingConfig(kl_coefficient=0.1))
    samples, advantages = on_policy(trainer)
    with trainer.model.disable_adapter():
        base = trainer.logprobs(samples)
    report = trainer.step(samples, advantages)
    away = [ours - theirs for ours, theirs in zip([s.logprobs for s in samples], base, strict=True)]
    expected = sum(float((np.exp(-a) - 1 + a)[s.mask].sum()) for a, s in zip(away, samples, strict=True))
    assert report.kl_base == pytest.approx(expected / report.tokens, rel=1e-4)
    assert report.kl_base > 0
    assert GrpoTrainer(lora()).step(samples, advantages).kl_base is None


def test_a_heavy_divergence_brings_the_policy_back_to_the_base():
    trainer = GrpoTrainer(lora(), TrainingConfig(kl_coefficient=100.0, learning_rate=1e-3))
    samples, advantages = on_policy(trainer)
    first = trainer.step(samples, advantages).kl_base
    for _ in range(15):
        last = trainer.step(with_logprobs(samples, trainer.logprobs(samples)), advantages).kl_base
    assert last < first / 2


def test_t7_with_a_divergence_a_row_without_advantage_is_computed_and_held():
    samples, advantages = step_rows()
    advantages[4:8] = [0.0] * 4
    config = TrainingConfig(kl_coefficient=0.1)
    given = GrpoTrainer(lora(), config).step(samples, advantages)
    without = GrpoTrainer(lora(), config).step(samples[:4] + samples[8:], advantages[:4] + advantages[8:])
    assert given.rows_skipped == 0
    assert given.grad_norm != pytest.approx(without.grad_norm * without.tokens / given.tokens, rel=1e-3)


def test_a_divergence_needs_an_adapter_to_take_off():
    with pytest.raises(InputError, match="without its adapter"):
        GrpoTrainer(build(), TrainingConfig(kl_coefficient=0.1))


def test_what_the_sampler_computed_differently_is_weighted_and_never_clipped():
    def step(distance, cap=2.0):
        trainer = GrpoTrainer(lora(), TrainingConfig(importance_cap=cap))
        samples, advantages = on_policy(trainer)
        moved = with_logprobs(samples, [(s.logprobs - distance) * s.mask for s in samples])
        report = trainer.step(moved, advantages)
        return report.grad_norm, report.clip_fraction

    plain, clipped = step(0.0)
    assert clipped == 0.0
    assert step(math.log(1.5)) == (pytest.approx(1.5 * plain, rel=1e-4), 0.0)
    assert step(math.log(5.0)) == (pytest.approx(2.0 * plain, rel=1e-4), 0.0)
    assert step(math.log(5.0), cap=1.0) == (pytest.approx(plain, rel=1e-4), 0.0)
