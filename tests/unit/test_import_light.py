"""Importing the product, or asking the program for help, loads none of the heavy or optional packages."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = {"torch", "transformers", "peft", "mcp", "langgraph", "langchain_core", "openai", "safetensors", "gguf"}
PRINT = "; import sys; print('LOADED', *{name.partition('.')[0] for name in sys.modules})"

SNIPPETS = {
    "the package": "import art_core",
    "the integrations package": "import art_integrations",
    "configuration": "import art_core as art; art.TrainConfig",
    "scenarios, rewards, limits": "import art_core as art; art.Scenario, art.Reward, art.Limits, art.GroupReward",
    "plugins": "from art_core.plugins import integrations; integrations()",
    "the registry": "import art_core.models.registry",
    "help": "from art_core.cli.main import main; main(['--help'])",
    "help of models": "from art_core.cli.main import main; main(['models', 'get', '--help'])",
    "help of doctor": "from art_core.cli.main import main; main(['doctor', '--help'])",
    "help of export": "from art_core.cli.main import main; main(['export', '--help'])",
    "help of train": "from art_core.cli.main import main; main(['train', 'python', '--help'])",
    "help of sft": "from art_core.cli.main import main; main(['train', 'sft', '--help'])",
    "supervised fine-tuning": "import art_core as art; art.sft, art.SftConfig, art.SftResult",
}


@pytest.mark.parametrize("snippet", SNIPPETS.values(), ids=SNIPPETS)
def test_nothing_heavy_is_loaded_by(snippet: str) -> None:
    done = subprocess.run([sys.executable, "-c", snippet + PRINT], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    loaded = set(done.stdout.splitlines()[-1].split()[1:])
    assert loaded & HEAVY == set()


def test_the_help_of_training_on_a_server_loads_no_trainer() -> None:
    snippet = "from art_core.cli.main import main; main(['train', 'mcp', '--help'])"
    done = subprocess.run([sys.executable, "-c", snippet + PRINT], capture_output=True, text=True, timeout=60)
    assert "art train mcp" in done.stdout, done.stderr
    assert not {"torch", "transformers", "peft"} & set(done.stdout.splitlines()[-1].split())


def test_importing_the_package_takes_a_fraction_of_a_second() -> None:
    command = [sys.executable, "-X", "importtime", "-c", "import art_core"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    (line,) = [line for line in done.stderr.splitlines() if line.endswith("| art_core")]
    assert int(line.split("|")[1]) < 500_000  # microseconds; about 10,000 on an idle machine
