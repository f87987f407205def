"""``art doctor`` as a program: its words, its JSON and its exit codes."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from art_core.cli.main import main
from art_core.loop.machine import Finding
from art_core.loop.numerics import Drift, NumericsReport
from art_core.training.noise import Floor
from art_core.training.numerics import Check, Figure
from tests.tiny import save_tiny


@pytest.fixture
def machine(monkeypatch):
    def of(*findings):
        monkeypatch.setattr("art_core.cli.doctor.examine", lambda runs: list(findings))

    return of


FINE = Finding(name="python", found="3.11")
LOW = Finding(name="disk", state="warning", found="1 GiB", cure="Make room.")
BAD = Finding(name="probe", state="problem", found="no torch", cure="Install it.")


@pytest.mark.parametrize(("findings", "code"), [((FINE, LOW), 0), ((FINE, BAD), 1)])
def test_the_exit_code_is_one_where_there_is_a_problem(machine, findings, code):
    machine(*findings)
    assert main(["doctor"]) == code


def test_a_row_shows_its_verdict_and_its_cure(machine, capsys):
    machine(FINE, LOW)
    main(["doctor"])
    out = capsys.readouterr().out
    assert [line.split() for line in out.splitlines() if "disk" in line] == [["disk", "warning", "1", "GiB"]]
    assert "→ Make room." in out


def test_the_machine_as_json(machine, capsys):
    machine(FINE, BAD)
    assert main(["doctor", "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["ok"] is False
    assert told["findings"][1] == {"name": "probe", "state": "problem", "found": "no torch", "cure": "Install it."}


def test_without_torch_the_program_says_so_and_ends_with_one(tmp_path):
    snippet = "import sys; sys.modules['torch'] = None; from art_core.cli.main import main; sys.exit(main(['doctor', '--json']))"
    done = subprocess.run([sys.executable, "-c", snippet], capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    rows = {row["name"]: row for row in json.loads(done.stdout)["findings"]}
    assert rows["probe"]["state"] == "problem"


def test_numerics_without_torch_names_the_extra(tmp_path):
    model = save_tiny(tmp_path / "model")
    snippet = f"import sys; sys.modules['torch'] = None; from art_core.cli.main import main; sys.exit(main(['doctor', '--numerics', {str(model)!r}]))"
    done = subprocess.run([sys.executable, "-c", snippet], capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert done.returncode == 2
    assert "torch is not installed; install it with: pip install 'art-integrations[train]'" in done.stderr


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--precision", "float32"], "error: --precision float32 has no effect without --numerics RUN or --numerics MODEL"),
        (["--numerics", "m", "--out", "x"], "error: --out x has no effect with --numerics, which writes nothing"),
        (["--numerics", "smollm"], "error: 'smollm' is neither a run directory (it has no run.toml) nor a model"),
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_one_sentence(words, sentence, capsys):
    assert main(["doctor", *words]) == 2
    assert capsys.readouterr().err.startswith(sentence)


def test_a_model_is_measured_and_shown(tmp_path, capsys):
    model = save_tiny(tmp_path / "model")
    assert main(["doctor", "--numerics", str(model), "--precision", "float32"]) == 0
    captured = capsys.readouterr()
    lines = [line.split() for line in captured.out.splitlines()]
    assert ["sampler-vs-trainer", "pass", "mean", "gap"] in [line[:4] for line in lines]
    assert "no check failed" in captured.out
    assert "measuring the noise floor ..." in captured.err


def report(status, value, **more):
    floor = Floor(precision="float32", mean=1e-6, largest=1e-6, gradient=1e-6, tokens=9)
    figure = Figure(name="mean gap", value=value, bound=1e-5, floor=1e-6)
    check = Check(name="adapter-vs-merged", question="?", figures=(figure,), status=status, note="measured on 9 tokens")
    return NumericsReport(
        subject="model m",
        base_model="m",
        device="cpu",
        **{"precision": "float32"} | more,
        temperature=1.0,
        floor=floor,
        checks=(check,),
        seconds=1.0,
    )


@pytest.fixture
def shown(monkeypatch, tmp_path, capsys):
    """The lines that a report is shown as, each as its words."""

    def of(report):
        monkeypatch.setattr("art_core.loop.numerics.measure_numerics", lambda *_, **__: report)
        main(["doctor", "--numerics", str(save_tiny(tmp_path / "model"))])
        return [line.split() for line in capsys.readouterr().out.splitlines()]

    return of


def test_a_figure_stands_beside_its_bound_and_its_noise_floor(shown):
    lines = shown(report("pass", 2e-6))
    assert ["check", "figure", "measured", "bound", "noise", "floor"] in lines
    assert ["adapter-vs-merged", "pass", "mean", "gap", "2.00e-06", "≤", "1.00e-05", "1.00e-06"] in lines


def test_t20_the_gap_of_bfloat16_to_float32_is_shown_without_a_bound(shown):
    gap = Drift(mean=0.03, largest=0.25, gradient=0.05)
    lines = shown(report("pass", 2e-6, precision="bfloat16", gap_to_float32=gap))
    assert ["gap", "to", "float32", "mean", "gap", "0.03"] in lines
    assert ["largest", "gap", "0.25"] in lines
    assert ["gradient", "5", "%"] in lines


def test_t20_in_float32_no_gap_to_float32_is_shown(shown):
    assert not [line for line in shown(report("pass", 2e-6)) if line[:3] == ["gap", "to", "float32"]]


@pytest.mark.parametrize(("status", "value", "code"), [("pass", 1e-6, 0), ("warn", 1e-6, 0), ("fail", 0.5, 1)])
def test_a_failed_check_is_exit_code_one(monkeypatch, tmp_path, capsys, status, value, code):
    model = save_tiny(tmp_path / "model")
    monkeypatch.setattr("art_core.loop.numerics.measure_numerics", lambda *_, **__: report(status, value))
    assert main(["doctor", "--numerics", str(model)]) == code
    out = capsys.readouterr().out
    assert ("✗" in out, "failed: adapter-vs-merged; see docs/numerics.md" in out) == (code == 1, code == 1)
