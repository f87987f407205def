"""T25: a step under deterministic algorithms runs with every loss, and gives the same bits twice."""

import pytest
import torch

from art_core.models.deterministic import deterministic_algorithms
from art_core.training.config import RULES
from art_core.training.trainer import GrpoTrainer, TrainingConfig

from .tiny import lora, step_rows, weights


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("loss", RULES)
def test_t25_a_step_twice_gives_the_same_bits(loss, precision):
    config = TrainingConfig(
        loss=loss, passes=1 if loss == "reinforce" else 2, kl_coefficient=0.1, rollout_ratio=(1e-9, 1e9)
    )
    found = []
    for _ in range(2):
        trainer = GrpoTrainer(lora(), config, precision=precision)
        with deterministic_algorithms():
            report = trainer.step(*step_rows())
        assert report.updated
        found.append(weights(trainer.model))
    assert torch.equal(*found)
