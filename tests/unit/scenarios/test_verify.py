from collections.abc import Mapping
from typing import Any

from art_core.scenarios.generate import generate
from art_core.scenarios.verify import verify

from .time_tools import TIME_TOOLS


async def test_refused_scenarios_are_left_out_with_the_reason() -> None:
    async def call(name: str, arguments: Mapping[str, Any]) -> str | None:
        return "closed" if name == "convert_time" else None

    scenarios = generate(TIME_TOOLS, 4).scenarios
    checked = await verify(scenarios, call)
    assert checked.answered == (scenarios[0], scenarios[2])
    assert checked.refused == {scenarios[1].id: "closed", scenarios[3].id: "closed"}
