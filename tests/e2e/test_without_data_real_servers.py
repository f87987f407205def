"""Scenarios for real servers: written, tried with the server itself, and every one of them answerable."""

from __future__ import annotations

import json

import pytest

from art_core.cli.main import main
from art_core.scenario import load_scenarios
from benchmarks.worlds import WORLDS
from tests.servers.install import ROOT
from tests.servers.roles import roles_server

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not ROOT.is_dir(), reason="real servers are not installed: python -m tests.servers.install"),
]


@pytest.mark.parametrize(("name", "calls"), [("memory", {1, 2, 3}), ("files", {1, 2})])
def test_a_reference_answers_what_was_written_for_a_real_server(name, calls, tmp_path, monkeypatch, capsys):
    world = WORLDS[name]
    for path, text in world.files.items():
        place = tmp_path / "fixture" / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    with roles_server(world.roles()) as server:
        words = [*world.verb(ROOT)[1:], *world.options[2:], "--fixture", str(tmp_path / "fixture")]
        code = main(["scenarios", "mcp", *words, "--author", f"m@{server.url}", "--generate", "20", "--json"])
    told = json.loads(capsys.readouterr().out)
    assert (code, told["scenarios"], told["refused"], told["untried"]) == (0, 20, 0, 0)
    made = load_scenarios(tmp_path / told["file"])
    assert {len(one.metadata["dry_run"]["calls"]) for one in made} == calls
    assert {one.metadata["dry_run"]["score"] for one in made} == {1.0}
