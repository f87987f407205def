"""The time server, asked by the requests that are made from its schemas; the judge reads a call as a careful person would."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from .world import RULER, World, since_the_request

__all__ = ["grade_times", "times"]


def times() -> World:
    """No questions of its own."""
    return World(
        verb=lambda home: ["mcp", "python -m mcp_server_time"],
        grades=grade_times,
        options=(*RULER, "--author", "schema"),
    )


def grade_times(context: str, attempt: str) -> float:
    """What a careful reader sees in a question about times: the call, whether it was answered, and whether its values are those asked for."""
    request, done = since_the_request(context, attempt)
    made = re.search(r"→ (\w+)\((\{.*?\})\)", done)
    if made is None:
        return 0.0
    asked = re.search(r"\b\d{1,2}:\d{2}\b", request)
    right_tool = made[1] == ("convert_time" if asked else "get_current_time")
    values: Mapping[str, Any] = json.loads(made[2])
    places = [_place(str(values.get(name)), request) for name in ("timezone", "source_timezone", "target_timezone")]
    fitting = sum(place >= 0 for place in places) + (str(values.get("time")) in request)
    if -1 < places[2] < places[1]:  # people name the place first that the time is of
        fitting -= 2
    share = fitting / max(len(values), 3 if asked else 1)
    answered = share == 1 and "rror" not in done.partition(made[0])[2]
    return round(0.1 + right_tool * (0.1 + 0.6 * share + 0.2 * answered), 3)


def _place(zone: str, request: str) -> int:
    """Where the request names a zone, by its name or its city; -1 if it does not."""
    city = zone.rpartition("/")[2].replace("_", " ")
    return max(request.find(zone), request.find(city)) if city else -1
