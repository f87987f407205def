"""The schema-driven generator on real servers it has no knowledge of: valid, unique, answerable calls."""

from __future__ import annotations

from pathlib import Path

import pytest
from jsonschema.validators import Draft202012Validator

from art_core.scenarios.generate import generate
from art_core.scenarios.verify import verify
from tests.servers.environments import call_error, connect, list_tools, prepare
from tests.servers.install import ROOT

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not ROOT.is_dir(), reason="real servers are not installed: python -m tests.servers.install"),
]

FAIR_SHARE = {
    "time": 1.0,
    "git": 0.6,
    "sqlite": 0.6,
    "calculator": 1.0,
    "everything": 0.8,
    "filesystem": 0.6,
    "memory": 0.8,
    "sequential-thinking": 1.0,
}
"""Server -> the share of expected calls it has to answer without an error, well below what was measured."""


@pytest.mark.parametrize("name", FAIR_SHARE)
async def test_scenarios_of_a_real_server(name: str, tmp_path: Path) -> None:
    setup = prepare(name, tmp_path)
    async with connect(setup) as session:
        tools = await list_tools(session)
        made = generate(tools, 24, seed=1, hints=setup.hints)
        checked = await verify(made.scenarios, lambda tool, arguments: call_error(session, tool, arguments))
    schemas = {tool.name: Draft202012Validator(dict(tool.parameters)) for tool in tools}
    assert len(made.scenarios) == len({s.input for s in made.scenarios}) == 24
    for scenario in made.scenarios:
        call = scenario.expected["calls"][0]
        assert schemas[call["name"]].is_valid(call["arguments"])
    asked = {scenario.metadata["tool"] for scenario in made.scenarios}
    assert asked | set(made.skipped) == set(schemas)
    share = len(checked.answered) / 24
    print(f"{name}: {len(schemas)} tools, skipped {made.skipped}, answered {share:.0%}, refused {checked.refused}")
    assert share >= FAIR_SHARE[name]
