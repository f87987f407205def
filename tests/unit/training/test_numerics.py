"""Each check passes on what is right and fails on a defect; the bounds are those of the floor, under a ceiling in float32."""

from __future__ import annotations

import dataclasses
import json
import math

import numpy as np
import pytest

from art_core.training.noise import Floor, gap, noise_floor
from art_core.training.numerics import (
    Check,
    Figure,
    TemperatureDraws,
    check_adapter,
    check_sampler,
    check_sharing,
    check_temperature,
)
from art_core.training.trainer import GrpoTrainer

from .tiny import FAMILY_NAMES, lora, row, step_rows

FLOOR = Floor(precision="float32", mean=1e-6, largest=4e-6, gradient=1e-6, tokens=10)
ROUGH = Floor(precision="bfloat16", mean=0.03, largest=0.2, gradient=0.05, tokens=10)
ROWS = [row([5, 6, 7, 8], [2, 3])]


def at(*values):
    return [np.array([0.0, 0.0, *values], dtype=np.float32)]


def test_a_gap_is_measured_at_the_trained_tokens():
    found = gap([np.array([9.0, 9.0, -1.0, -2.0])], [np.array([0.0, 0.0, -1.5, -2.25])], ROWS)
    assert (found.tokens, found.mean, found.largest, found.scale) == (2, 0.375, 0.5, 2.25)
    assert found.kl == pytest.approx((math.exp(0.5) - 1.5 + math.exp(0.25) - 1.25) / 2)
    assert found.beyond(0.3) == 0.5


def test_the_floor_is_the_largest_of_what_equal_passes_differ_by():
    equal = [gap(at(-1.0, -2.0), at(-1.1, -2.0), ROWS), gap(at(-1.0, -2.0), at(-1.0, -2.4), ROWS)]
    floor = noise_floor(equal, [0.1, 0.3], precision="bfloat16")
    assert (floor.mean, floor.largest, floor.gradient) == pytest.approx((0.2, 0.4, 0.3), rel=1e-5)


def test_passes_that_happen_to_be_equal_leave_a_floor_of_one_unit():
    floor = noise_floor([gap(at(-1.0, -8.0), at(-1.0, -8.0), ROWS)], [0.0], precision="float32")
    assert (floor.mean, floor.largest, floor.gradient) == (2.0**-22, 2.0**-20, 2.0**-23)


def test_float32_has_a_ceiling_and_bfloat16_has_none():
    noisy = Floor(precision="float32", mean=1.0, largest=1.0, gradient=1.0, tokens=1)
    assert (*noisy.bounds, noisy.gradient_bound) == (1e-4, 1e-4, 1e-4)
    assert (*FLOOR.bounds, FLOOR.gradient_bound) == pytest.approx((1e-5, 8e-5, 1e-5))
    assert (*ROUGH.bounds, ROUGH.gradient_bound) == pytest.approx((0.09, 1.0, 0.2))


@pytest.mark.parametrize(
    ("figure", "within"),
    [
        (Figure(name="f", value=1.0, bound=1.0), True),
        (Figure(name="f", value=1.1, bound=1.0), False),
        (Figure(name="f", value=math.nan, bound=1.0), False),
        (Figure(name="f", value=math.inf), True),
        (Figure(name="f", value=0.5, bound=1.0, at_least=True), False),
    ],
)
def test_a_figure_keeps_its_bound_or_not(figure, within):
    assert figure.within is within


def test_a_check_is_json_whatever_was_measured():
    check = Check(name="c", question="?", figures=(Figure(name="f", value=math.nan, bound=math.inf),))
    (figure,) = json.loads(json.dumps(check.to_dict(), allow_nan=False))["figures"]
    assert (figure["value"], figure["bound"], figure["within"]) == (None, None, False)


def sampled(trainer, **options):
    samples, _ = step_rows(**options)
    return [
        dataclasses.replace(sample, logprobs=values)
        for sample, values in zip(samples, trainer.logprobs(samples), strict=True)
    ]


@pytest.mark.parametrize("family", FAMILY_NAMES)
def test_the_sampler_check_passes_on_the_trainers_own_and_fails_at_another_temperature(family):
    trainer = GrpoTrainer(lora(family))
    rows = sampled(trainer, temperature=0.7)
    assert check_sampler(trainer.logprobs(rows), rows, FLOOR).status == "pass"
    hotter = [dataclasses.replace(sample, temperature=1.0) for sample in rows]
    failed = check_sampler(trainer.logprobs(hotter), rows, FLOOR)
    assert failed.status == "fail"
    assert "do not train" in failed.note


def test_one_token_out_of_many_is_enough_to_fail():
    rows = [row(list(range(2, 202)), range(1, 200), logprob=-2.0)]
    good = rows[0].logprobs.copy()
    bad = good.copy()
    bad[100] -= 0.01
    assert check_sampler([good], rows, FLOOR).status == "pass"
    assert check_sampler([bad], rows, FLOOR).status == "fail"


def test_a_logprob_that_is_not_a_number_fails():
    rows = [dataclasses.replace(ROWS[0], logprobs=at(-1.0, -2.0)[0])]
    assert check_sampler(at(-1.0, math.nan), rows, ROUGH).status == "fail"


def test_a_precision_in_which_nothing_agrees_cannot_vouch():
    rows = [dataclasses.replace(ROWS[0], logprobs=at(-1.0, -2.0)[0])]
    assert check_sampler(at(-1.0, -2.0), rows, dataclasses.replace(ROUGH, mean=0.4)).status == "warn"


def test_an_adapter_folded_in_with_another_scale_fails():
    assert adapter_check((-1.000001, -2.000002), FLOOR) == "pass"
    assert adapter_check((-1.01, -2.0), FLOOR) == "fail"
    assert adapter_check((-1.05, -2.05), ROUGH) == "pass"  # lost in the noise
    assert adapter_check((-1.2, -2.1), ROUGH) == "fail"


def adapter_check(folded, floor, base=(-4.0, -4.0)):
    return check_adapter(at(-1.0, -2.0), at(*folded), at(*base), ROWS, floor).status


def test_an_adapter_that_changes_less_than_the_noise_cannot_be_told_from_none():
    assert adapter_check((-1.0, -2.0), ROUGH, base=(-1.05, -2.05)) == "warn"
    assert adapter_check((-1.0, -2.0), FLOOR, base=(-1.05, -2.05)) == "pass"


def sharing(distance=1e-6, logprobs=(-1.0, -2.0), floor=FLOOR, computed=0.5):
    return check_sharing(at(-1.0, -2.0), {"padded": (at(*logprobs), distance)}, ROWS, floor, computed=computed)


def test_sharing_must_change_neither_logprobs_nor_gradient():
    assert sharing().status == "pass"
    assert sharing(logprobs=(-1.0, -2.001)).status == "fail"
    assert sharing(distance=1e-3).status == "fail"
    assert sharing(distance=0.3, floor=ROUGH).status == "fail"
    assert sharing(distance=math.inf, floor=ROUGH).status == "fail"


def test_sharing_says_where_it_cannot_tell():
    assert sharing(floor=dataclasses.replace(ROUGH, gradient=0.3)).status == "warn"
    assert "does not share" in sharing(computed=1.0).note


def draws(count=600, *, drawn_at, trained_at=None, recorded_at=None):
    """Tokens of a fixed distribution over 50 ids, drawn at one temperature, recorded and trained as if at others."""
    rng = np.random.default_rng(0)
    logits = 2 * rng.normal(size=50)

    def logprobs(temperature):
        scaled = logits / temperature
        return scaled - np.log(np.exp(scaled).sum())

    ids = rng.choice(50, size=count, p=np.exp(logprobs(drawn_at)))
    return TemperatureDraws(
        sampler=logprobs(recorded_at or drawn_at)[ids],
        trainer=logprobs(trained_at or recorded_at or drawn_at)[ids],
        colder=logprobs(0.5)[ids],
        wrong=logprobs(2.0 - drawn_at)[ids],
        wrong_temperature=2.0 - drawn_at,
    )


def checked(**options):
    return check_temperature({t: draws(drawn_at=t, **options) for t in (0.7, 1.3)}, FLOOR)


def test_t6_draws_at_the_temperature_they_are_trained_at_pass_and_a_wrong_one_would_not():
    check = checked()
    assert check.status == "pass"
    powers = [figure for figure in check.figures if figure.at_least]
    assert [figure.name for figure in powers] == ["T 0.7 taken for 1.3", "T 1.3 taken for 0.7"]
    assert all(figure.value > figure.bound > 0 for figure in powers)


@pytest.mark.parametrize("recorded", [0.7, 1.0, 1.3])
def test_t6_draws_at_another_temperature_than_was_recorded_fail(recorded):
    others = [t for t in (0.7, 1.3) if t != recorded]
    check = check_temperature({t: draws(drawn_at=t, recorded_at=recorded) for t in others}, FLOOR)
    assert check.status == "fail"
    assert {figure.name[5:] for figure in check.figures if not figure.within} >= {": colder ratio off 1"}


def test_t6_a_trainer_at_another_temperature_fails():
    failed = checked(trained_at=1.0)
    assert failed.status == "fail"
    assert {f.name for f in failed.figures if not f.within} == {"T 0.7: mean gap", "T 1.3: mean gap"}


def test_t6_too_few_tokens_are_a_warning():
    assert checked(count=6).status == "warn"


def test_t6_a_model_that_is_sure_of_nearly_every_token_is_not_failed_for_what_it_never_drew():
    sure = np.full(288, math.log(0.9995))
    spread = np.linspace(0, 1e-9, 288)
    certain = TemperatureDraws(
        sampler=sure, trainer=sure, colder=np.full(288, -1e-6) + spread, wrong=sure - 0.02, wrong_temperature=1.3
    )
    assert check_temperature({0.7: certain}, FLOOR).status == "pass"
