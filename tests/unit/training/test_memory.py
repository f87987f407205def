import pytest
import torch

from art_core.errors import TrainerError
from art_core.training.checkpoint import load, save
from art_core.training.logprobs import SplitModel
from art_core.training.memory import Budget
from art_core.training.packing import build_tree
from art_core.training.trainer import GrpoTrainer, TrainingConfig

from .tiny import FAMILY_NAMES, lora, row, step_rows, weights

LONG = [row([k, *range(1, 200)], range(150, 200), rollout_id=str(k)) for k in range(2)]


def scarce(monkeypatch, tokens):
    """Memory for at most so many tokens a pass; returns the sizes that were tried."""
    real, tried = SplitModel.hidden, []

    def hidden(self, pack, cache):
        tried.append(len(pack.token_ids))
        if len(pack.token_ids) > tokens:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
        return real(self, pack, cache)

    monkeypatch.setattr(SplitModel, "hidden", hidden)
    return tried


def stepped(family="llama-untied", samples=None, advantages=(), **options):
    model = lora(family)
    report = GrpoTrainer(model, TrainingConfig(**options)).step(samples, advantages)
    return weights(model), report


@pytest.mark.parametrize("family", FAMILY_NAMES)
def test_a_step_that_ran_out_of_memory_is_done_again_in_halves_with_the_same_result(monkeypatch, family):
    rows, advantages = [*step_rows()[0], *LONG], [*step_rows()[1], 1.0, -1.0]
    expected, whole = stepped(family, rows, advantages)
    trainer = GrpoTrainer(model := lora(family))
    tried = scarce(monkeypatch, 100)
    report = trainer.step(rows, advantages)
    assert (whole.micro_batch_tokens, report.micro_batch_tokens) == (1024, 64)
    assert max(tried) > 100 >= tried[-1]
    assert (weights(model) - expected).abs().max() < 1e-5


def test_later_steps_begin_with_what_fitted(monkeypatch):
    trainer = GrpoTrainer(lora())
    tried = scarce(monkeypatch, 150)
    trainer.step(LONG, [1.0, -1.0])
    done = len(tried)
    trainer.step(LONG, [1.0, -1.0])
    assert max(tried[done:]) <= 128


def test_a_resumed_trainer_goes_on_with_passes_of_the_same_size_and_the_same_bits(monkeypatch, tmp_path):
    trainer = GrpoTrainer(model := lora())
    with monkeypatch.context() as patch:
        scarce(patch, 100)
        trainer.step(LONG, [1.0, -1.0])
    save(tmp_path / "c", trainer, chat_template="")
    resumed = GrpoTrainer(again := lora())
    load(tmp_path / "c", resumed)
    rows, advantages = [*step_rows()[0], *LONG], [*step_rows()[1], 1.0, -1.0]
    reports = [each.step(rows, advantages) for each in (trainer, resumed)]
    assert [report.micro_batch_tokens for report in reports] == [64, 64]
    assert torch.equal(weights(model), weights(again))


def test_the_passes_of_a_step_go_back_to_where_it_began(monkeypatch):
    rows, advantages = step_rows()
    expected, _ = stepped(samples=rows, advantages=advantages, passes=2)
    trainer = GrpoTrainer(model := lora(), TrainingConfig(passes=2))
    real, calls = SplitModel.hidden, []

    def hidden(self, pack, cache):
        calls.append(pack)
        if len(calls) == 2:  # the second pass of the first try
            raise RuntimeError(
                "[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes"
            )
        return real(self, pack, cache)

    monkeypatch.setattr(SplitModel, "hidden", hidden)
    trainer.step(rows, advantages)
    assert (trainer.updates, trainer.step_count) == (2, 1)
    assert (weights(model) - expected).abs().max() < 1e-5


def test_logprobs_alone_are_computed_in_halves_too(monkeypatch):
    trainer = GrpoTrainer(lora())
    expected = trainer.logprobs(LONG)
    scarce(monkeypatch, 100)
    assert trainer.logprobs(LONG)[0] == pytest.approx(expected[0], abs=1e-5)


def test_what_never_fits_is_told_and_changes_nothing(monkeypatch):
    trainer = GrpoTrainer(model := lora())
    before = weights(model)
    scarce(monkeypatch, 10)
    with pytest.raises(TrainerError, match="64 tokens does not fit into memory"):
        trainer.step(LONG, [1.0, -1.0])
    assert torch.equal(weights(model), before)


def test_other_errors_are_not_memory():
    def work():
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")

    budget = Budget(2048)
    with pytest.raises(RuntimeError, match="multiplied"):
        budget.call(work)
    assert budget.tokens == 2048


def test_a_long_run_is_cut_into_nodes():
    root = build_tree(LONG[:1], micro_batch_tokens=80, min_shared_tokens=1, cut=True)
    assert [(pack.start, len(pack.token_ids)) for pack in root.every_pack()] == [(0, 80), (80, 80), (160, 39)]
    assert sum(len(pack.ask_token) for pack in root.every_pack()) == 50
