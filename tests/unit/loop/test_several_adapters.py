"""One run that trains several adapters from the same rollouts."""

import json

import pytest
import torch

import art_core as art
from art_core.errors import InputError
from art_core.loop.export_source import find_source
from art_core.loop.start import find_start
from art_core.messages import Message
from art_core.training.manifest import is_whole
from art_core.trajectory import store
from tests.tiny import save_tiny
from tests.unit.loop.fake import quiet

QUESTIONS = [art.Scenario(f"s{number}", f"go {number}") for number in range(6)]


class Team:
    """A planner whose plan the writer gets to see."""

    adapters = ("plans", "texts")

    async def __call__(self, scenario, session):
        asked = [Message(role="user", content=scenario.input)]
        plan = await session.turn(asked, about={"node": "planner", "adapter": "plans"})
        asked += [plan.reply, Message(role="user", content="now write")]
        return (await session.turn(asked, about={"node": "writer", "adapter": "texts"})).reply.text


class Planner(Team):
    """Only the planner's calls: the other adapter gets nothing to learn from."""

    async def __call__(self, scenario, session):
        asked = [Message(role="user", content=scenario.input)]
        return (await session.turn(asked, about={"adapter": "plans"})).reply.text


def early_bytes(trajectory, scenario):
    """Pays for ids of the first half of the vocabulary."""
    ids = [token for turn in trajectory.turns for token in turn.completion_ids]
    return sum(token < 128 for token in ids) / len(ids)


def settings(tmp_path, **more):
    values = {
        "name": "run",
        "out": str(tmp_path),
        "precision": "float32",
        "steps": 2,
        "rollout": {"max_tokens": 5, "group_size": 4, "scenarios_per_step": 2, "temperature": 3.0},
        "evaluation": {"validation": 1, "test": 1},
        "lora": {"rank": 4},
        "training": {"learning_rate": 0.01},
    }
    return art.TrainConfig.build({**values, **more})


async def train(agent, tmp_path, **more):
    resume = more.pop("resume", None)
    return await art.atrain(
        agent,
        None if resume else QUESTIONS,
        early_bytes,
        base_model=None if resume else str(save_tiny(tmp_path / "model")),
        config=settings(tmp_path, **more),
        resume=resume,
        progress=quiet(),
    )


def weights(directory):
    from safetensors.torch import load_file

    return load_file(directory / "adapter_model.safetensors")


def changed(directory):
    return any(bool(tensor.abs().sum() > 0) for name, tensor in weights(directory).items() if "lora_B" in name)


async def test_every_adapter_has_a_checkpoint_that_peft_loads_a_ledger_and_updates(tmp_path):
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    result = await train(Team(), tmp_path)
    checkpoint = tmp_path / "run" / "checkpoints" / "step-000002"
    assert is_whole(checkpoint)
    for name in ("plans", "texts"):
        assert is_whole(checkpoint / name)
        assert changed(checkpoint / name)
        base = AutoModelForCausalLM.from_pretrained(tmp_path / "model")
        assert PeftModel.from_pretrained(base, checkpoint / name).active_adapter == "default"
        account = result.summary["adapters"][name]
        assert (account["version"], account["updates"]) == (f"{name}@2", 2)
        assert account["ledger"]["rollouts"]["sampled"] == 16
    tokens = [result.summary["adapters"][name]["ledger"]["tokens"]["sampled"] for name in ("plans", "texts")]
    assert sum(tokens) == result.summary["ledger"]["tokens"]["sampled"]


async def test_the_two_learn_different_things_from_the_same_rollouts(tmp_path):
    await train(Team(), tmp_path, steps=1)
    checkpoint = tmp_path / "run" / "checkpoints" / "step-000001"
    plans, texts = weights(checkpoint / "plans"), weights(checkpoint / "texts")
    assert plans.keys() == texts.keys()
    assert not any(torch.equal(plans[name], texts[name]) for name in plans if "lora_B" in name)


async def test_gradients_of_an_adapters_calls_are_only_its_own(tmp_path):
    result = await train(Planner(), tmp_path, steps=1)
    checkpoint = tmp_path / "run" / "checkpoints" / "step-000001"
    assert changed(checkpoint / "plans")
    assert not changed(checkpoint / "texts")
    assert result.summary["adapters"]["texts"]["version"] == "texts@0"


async def test_every_turn_names_the_weights_that_answered(tmp_path):
    await train(Team(), tmp_path)
    told = [
        [str(turn.versions[0].version) for turn in trajectory.turns]
        for trajectory in store.read(tmp_path / "run" / "trajectories" / "step-000002.jsonl")
    ]
    assert told == [["plans@1", "texts@1"]] * 8


async def test_a_row_and_the_report_tell_of_each(tmp_path):
    await train(Team(), tmp_path)
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    row = [row for row in map(json.loads, lines) if row["kind"] == "train"][-1]
    assert row["version"] == "plans@2, texts@2"
    both = [row["adapters"][name] for name in ("plans", "texts")]
    assert row["forward_tokens"] == sum(one["forward_tokens"] for one in both)
    assert min(one["loss"] for one in both) <= row["loss"] <= max(one["loss"] for one in both)
    page = (tmp_path / "run" / "report.html").read_text()
    assert "What each adapter learnt from" in page
    assert "<td>texts@2</td>" in page


async def test_a_resumed_run_goes_on_with_all_adapters(tmp_path):
    await train(Team(), tmp_path, steps=1)
    resumed = await train(Team(), tmp_path, steps=2, resume=tmp_path / "run")
    assert resumed.summary["adapters"]["texts"]["version"] == "texts@2"
    once = tmp_path / "once"
    once.mkdir()
    await train(Team(), once, steps=2)
    for name in ("plans", "texts"):
        ours, theirs = (weights(path / "run/checkpoints/step-000002" / name) for path in (tmp_path, once))
        assert all(torch.equal(ours[key], theirs[key]) for key in theirs)


async def test_a_run_is_not_resumed_with_an_agent_of_other_adapters(tmp_path):
    await train(Team(), tmp_path, steps=1)
    other = Team()
    other.adapters = ("plans", "songs")
    with pytest.raises(InputError, match="holds the adapters plans, texts, and the agent trains plans, songs"):
        await train(other, tmp_path, steps=2, resume=tmp_path / "run")


async def test_what_takes_one_adapter_asks_which(tmp_path):
    await train(Team(), tmp_path, steps=1)
    for find in (find_start, find_source):
        with pytest.raises(InputError, match=r"holds several adapters \(plans, texts\); give the directory of one"):
            find(tmp_path / "run")
    one = tmp_path / "run" / "checkpoints" / "step-000001" / "texts"
    assert find_start(one).path == one
    assert find_source(one).step == 1


async def test_several_adapters_cannot_begin_from_one(tmp_path):
    await train(Team(), tmp_path, steps=1)
    one = tmp_path / "run" / "checkpoints" / "step-000001" / "texts"
    with pytest.raises(InputError, match=r"is one adapter, and the run trains plans, texts; leave lora\.start out"):
        await train(Team(), tmp_path, name="next", lora={"start": str(one)})


async def test_a_call_without_an_adapter_is_told_which_there_are(tmp_path):
    class Careless(Team):
        async def __call__(self, scenario, session):
            await session.turn([Message(role="user", content="go")])

    with pytest.raises(art.ArtError, match="the adapter 'default', and there are plans, texts"):
        await train(Careless(), tmp_path)
