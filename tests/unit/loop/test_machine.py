"""What ``art doctor`` finds on machines that lack something."""

from __future__ import annotations

import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from art_core.loop.machine import examine, extras
from art_core.models import registry
from art_core.plugins import Integrations

REQUIREMENTS = [
    "numpy>=2",
    'no-such-package-q7x>=1; extra == "train"',
    'rich>=1; extra == "mcp"',
    'rich<2; extra == "serve"',
    'no-such-package-q7x; extra == "langfuse"',
    'art-integrations[mcp,langfuse]; extra == "demo"',
]


def of(name):
    (row,) = extras(REQUIREMENTS, [name])
    return row


def test_an_extra_whose_packages_are_there_is_complete():
    assert (of("mcp").state, of("mcp").found) == ("ok", f"complete: rich {version('rich')}")


def test_without_what_training_needs_there_is_a_problem_with_a_cure():
    row = of("train")
    assert (row.state, row.found) == ("problem", "missing: no-such-package-q7x")
    assert row.cure == "To train here: pip install 'art-integrations[train]'"


def test_an_extra_that_was_never_wanted_is_no_problem():
    assert of("langfuse").state == "ok"
    assert of("langfuse").found.startswith("not installed (no-such-package-q7x missing)")


def test_a_version_that_does_not_fit_is_a_warning():
    row = of("serve")
    assert (row.state, row.found) == ("warning", f"rich {version('rich')} is not <2")


def test_an_extra_made_of_others_is_taken_apart():
    assert "no-such-package-q7x missing" in of("demo").found


def test_the_tools_of_developers_are_left_out():
    assert extras(['rich; extra == "dev"'], ["dev"]) == []


def found(runs):
    return {row.name: row for row in examine(runs)}


def test_a_whole_machine_has_a_row_for_everything(tmp_path):
    rows = found(tmp_path / "runs")
    expected = {"python", "art-integrations", "extra [train]", "processor", "memory", "GPU", "probe", "disk"}
    assert expected <= rows.keys()
    assert "GFLOPS in float32" in rows["probe"].found
    assert all(bool(row.cure) == (row.state != "ok") for row in rows.values())
    assert not (tmp_path / "runs").exists()


def test_without_torch_the_probe_is_a_problem_and_the_rest_is_told(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "art_core.models.probe", None)
    rows = found(tmp_path)
    assert rows["probe"].state == "problem"
    assert "GPU" not in rows
    assert rows["disk"].state != "problem"


def test_a_model_that_was_not_fetched_names_the_command(monkeypatch, tmp_path):
    monkeypatch.setenv("ART_CACHE", str(tmp_path))
    (known,) = registry.known_models()
    row = found(tmp_path)[f"model {known.name}"]
    assert (row.state, row.cure) == ("warning", f"To use it: art models get {known.name}")


def test_runs_under_a_file_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    row = found(tmp_path / "file" / "runs")["disk"]
    assert (row.state, row.cure) == ("problem", "Choose a directory you may write to, with --out.")


@pytest.mark.parametrize(("free", "state"), [(0.1, "problem"), (1.0, "warning"), (50.0, "ok")])
def test_little_disk_is_a_warning_and_none_a_problem(monkeypatch, tmp_path, free, state):
    usage = type("Usage", (), {"free": free * (1 << 30)})
    monkeypatch.setattr("art_core.loop.machine.shutil.disk_usage", lambda place: usage)
    assert found(tmp_path)["disk"].state == state


def test_an_integration_that_broke_is_a_warning(monkeypatch, tmp_path):
    broken = Integrations([])
    broken.failures["weather"] = ZeroDivisionError("by zero")
    monkeypatch.setattr("art_core.loop.machine.integrations", lambda: broken)
    row = found(Path(tmp_path))["integration weather"]
    assert (row.state, row.found) == ("warning", "not loaded: ZeroDivisionError: by zero")


def test_a_gpu_that_is_seen_and_cannot_compute_is_a_problem_and_the_rest_is_told(monkeypatch, tmp_path):
    def broken():
        raise RuntimeError("CUDA error: no kernel image is available for execution on the device")

    monkeypatch.setattr("art_core.models.probe.probe", broken)
    rows = found(tmp_path)
    assert rows["probe"].state == "problem"
    assert "no kernel image" in rows["probe"].found
    assert rows["disk"].state == "ok"


def test_files_kept_in_memory_are_free_memory_of_a_container(monkeypatch, tmp_path):
    gib = 1 << 30
    for name, text in {
        "memory.max": str(8 * gib),
        "memory.current": str(7 * gib),
        "memory.stat": f"anon {gib}\ninactive_file {6 * gib}\n",
    }.items():
        (tmp_path / name).write_text(text)
    monkeypatch.setattr("art_core.loop.machine._CGROUP", tmp_path)
    assert found(tmp_path)["memory"].found == "8.0 GiB, 7.0 GiB of it free"
