from __future__ import annotations

import json
import sys

import pytest

from art_core.cli import eval as eval_verb
from art_core.cli import train as train_verb
from art_core.cli.options import TrainOptions
from art_core.cli.references import load_reference, make_agent, make_reward
from art_core.errors import InputError
from art_core.loop import run as loop_run
from art_core.loop.config import TrainConfig
from art_core.loop.run import atrain
from art_core.loop.rundir import RunDir
from art_core.training.manifest import write_directory
from tests.unit.loop.fake import SCENARIOS, FakeBackend, agent, config, quiet, reward

FAKE = "tests.unit.loop.fake"
BARE = f'scenarios = "scenarios.jsonl"\nagent.function = "{FAKE}:agent"\nreward.function = "{FAKE}:reward"\n'
SMALL = ["--steps", "2", "--group-size", "4", "--scenarios-per-step", "3", "--validation", "6", "--test", "8"]


@pytest.fixture(autouse=True)
def coin(monkeypatch):
    monkeypatch.setattr(loop_run, "open_backend", lambda model, config, adapters: FakeBackend())
    monkeypatch.setattr(eval_verb, "open_backend", lambda model, config, adapters: FakeBackend())


@pytest.fixture
def scenarios(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(".")
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "scenarios.jsonl"
    path.write_text("".join(json.dumps(scenario.to_record()) + "\n" for scenario in SCENARIOS))
    return path


def art(app, *words):
    return app([str(word) for word in words], exit_on_error=False, result_action="return_value")


def python(scenarios, *words):
    return art(
        train_verb.app,
        *("python", f"{FAKE}:agent", "--scenarios", scenarios, "--reward", f"{FAKE}:reward", "--name", "r", *SMALL),
        *words,
    )


def test_options_change_what_they_name_and_nothing_else():
    base = TrainConfig(steps=7)
    changed = TrainOptions(group_size=4, eval_every=2, max_time="10m").config(base)
    assert (changed.steps, changed.rollout.group_size, changed.evaluation.every) == (7, 4, 2)
    assert changed.max_time == 600
    assert TrainOptions().config(base) == base


def test_a_bad_option_is_one_sentence():
    with pytest.raises(InputError, match=r"^rollout.group_size = 1: Input should be greater than or equal to 2$"):
        TrainOptions(group_size=1).config()


def test_python_functions_are_trained(scenarios, capsys):
    assert python(scenarios, "--json") == 0
    summary = json.loads(capsys.readouterr().out)
    assert (summary["steps"], summary["base_model"]) == (2, "smollm2-135m")


def test_a_run_goes_on_by_its_directory_alone(scenarios, tmp_path):
    python(scenarios, "--quiet")
    assert art(train_verb.app, "--resume", "runs/r", "--steps", "4", "--quiet") == 0
    assert json.loads((tmp_path / "runs/r/summary.json").read_text())["steps"] == 4


def test_a_resumed_run_refuses_other_settings(scenarios):
    python(scenarios, "--quiet")
    with pytest.raises(InputError, match=r"lora.rank is 16 in the run and 8 now"):
        art(train_verb.app, "--resume", "runs/r", "--rank", "8", "--quiet")


def test_a_resumed_run_takes_no_file(scenarios, tmp_path):
    python(scenarios, "--quiet")
    (tmp_path / "t.toml").write_text(BARE)
    with pytest.raises(InputError, match=r"--resume runs/r goes on with what its run.toml says; leave out t.toml"):
        art(train_verb.app, "t.toml", "--resume", "runs/r")


def test_a_toml_file_is_trained(scenarios, tmp_path, capsys):
    (tmp_path / "t.toml").write_text(f'model = "coin"\n{BARE}[train]\nsteps = 9\nname = "t"\n')
    assert art(train_verb.app, "t.toml", *SMALL, "--json") == 0
    assert json.loads(capsys.readouterr().out)["steps"] == 2


def test_an_unknown_key_in_the_file_is_named(scenarios, tmp_path):
    (tmp_path / "t.toml").write_text(f"{BARE}[train]\nstep = 3\n")
    with pytest.raises(InputError, match=r"t\.toml: unknown option 'train.step'"):
        art(train_verb.app, "t.toml")


def test_nothing_to_train_says_what_can_be_said():
    with pytest.raises(InputError, match="say what to train"):
        art(train_verb.app)


@pytest.mark.parametrize("checkpoint", ["best", "last", "2", "base"])
def test_a_checkpoint_is_measured(scenarios, capsys, checkpoint):
    python(scenarios, "--quiet")
    capsys.readouterr()
    art(eval_verb.app, "runs/r", "--checkpoint", checkpoint, "--json")
    told = json.loads(capsys.readouterr().out)
    assert told["n"] == 8
    assert told["checkpoint"] == ("base" if checkpoint == "base" else "step-000002")


def test_other_scenarios_can_be_measured(scenarios, capsys):
    python(scenarios, "--quiet")
    capsys.readouterr()
    art(eval_verb.app, "runs/r", "--split", scenarios, "--json")
    assert json.loads(capsys.readouterr().out)["n"] == 40


def test_a_missing_checkpoint_names_those_there_are(scenarios):
    python(scenarios, "--quiet")
    with pytest.raises(InputError, match=r"no checkpoint '7'; those of these steps are kept: 1, 2"):
        eval_verb.find_checkpoint(RunDir.open(scenarios.parent / "runs/r"), "7", TrainConfig())


async def test_a_run_from_python_says_that_it_cannot_be_made_again(tmp_path):
    await atrain(agent, SCENARIOS, reward, backend=FakeBackend(), config=config(tmp_path, steps=1), progress=quiet())
    with pytest.raises(InputError, match="does not say how to make its agent again"):
        train_verb.remake(RunDir.open(tmp_path / "run").read_record(), "run")


@pytest.mark.parametrize(
    ("reference", "problem"),
    [
        ("noname", "is not of the form module:name"),
        ("a b:c", "is not of the form module:name"),
        ("no_such_module:run", "there is no module 'no_such_module'"),
        ("json:nothing", "module 'json' has no 'nothing'"),
        ("broken:run", "importing 'broken' failed: ZeroDivisionError"),
    ],
)
def test_a_bad_reference_is_one_sentence(tmp_path, monkeypatch, reference, problem):
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "broken.py").write_text("1 / 0\n")
    with pytest.raises(InputError, match=f"agent {reference!r}.*{problem}"):
        load_reference(reference, what="agent")


def test_modules_in_the_current_directory_can_be_imported(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path])
    (tmp_path / "local_bot.py").write_text("class Bot:\n    def run(self): ...\n")
    assert load_reference("local_bot:Bot.run", what="agent").__name__ == "run"


def test_what_cannot_be_called_is_refused():
    with pytest.raises(InputError, match="agent 'json:decoder' is a module, which cannot be called"):
        make_agent({"function": "json:decoder"})


def test_a_reward_with_options_is_made_with_them():
    assert make_reward({"function": "functools:cmp_to_key", "options": {"mycmp": len}})
    with pytest.raises(InputError, match="does not take these options"):
        make_reward({"function": f"{FAKE}:agent", "options": {"wrong": 1}})


def test_an_option_says_what_to_start_from_and_leaves_the_rest_to_the_adapter():
    config = TrainOptions(start_from="runs/a").config(TrainConfig(steps=7))
    assert (config.lora.start, config.steps) == ("runs/a", 7)
    assert config.lora.model_fields_set == {"start"}


def test_the_start_of_a_run_can_be_measured_only_where_there_is_one(scenarios):
    python(scenarios, "--quiet")
    with pytest.raises(InputError, match="began from the base model, so it has no checkpoint 'start'"):
        art(eval_verb.app, "runs/r", "--checkpoint", "start")


def test_what_is_measured_begins_from_the_runs_own_copy_or_from_the_base(tmp_path):
    directory = RunDir(tmp_path)
    write_directory(directory.start, lambda place: (place / "adapter_config.json").write_text("{}"))
    config = TrainConfig.build({"lora": {"start": "gone", "rank": 4}})
    opened = {name: eval_verb._opened(config, directory, name).lora for name in ("start", "base", "best")}
    assert opened["start"].start == str(directory.start)
    assert (opened["base"].start, opened["best"].start, opened["best"].rank) == (None, None, 4)
