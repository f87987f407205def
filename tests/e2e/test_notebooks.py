"""The notebooks run from top to bottom, with fewer minutes than they ask for."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
SHORT = {"MINUTES": 4, "COLLECTED": 24, "SEED": 0}


@pytest.fixture
def copy(tmp_path):
    """What a notebook reads, in a place of its own."""
    for name in ("notebooks", "examples"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("runs", "__pycache__"))
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_from_top_to_bottom(path, copy, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
    notebook = nbformat.read(path, as_version=4)
    [parameters] = [cell for cell in notebook.cells if "parameters" in cell.metadata.get("tags", ())]
    parameters.source = "\n".join(f"{name} = {value!r}" for name, value in SHORT.items())
    client = NotebookClient(notebook, timeout=900, resources={"metadata": {"path": str(copy / "notebooks")}})
    client.execute()
    nbformat.write(notebook, copy / "executed.ipynb")
    [metrics] = (copy / "examples" / path.stem / "runs").glob("*/metrics.jsonl")
    told = json.loads((metrics.parent / "summary.json").read_text())
    assert (told["before"]["n"], told["after"]["n"]) == (60, 60)
    assert told["warm_start"]["measured"]["n"] == 60


def test_notebooks_are_stored_without_what_they_showed():
    cells = [cell for path in NOTEBOOKS for cell in json.loads(path.read_text())["cells"]]
    assert cells
    assert [
        cell for cell in cells if cell["cell_type"] == "code" and (cell["outputs"] or cell["execution_count"])
    ] == []
