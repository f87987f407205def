"""The tools of a time server, as it lists them."""

from __future__ import annotations

from art_core.messages import ToolSpec

_ZONE = {"type": "string", "description": "IANA timezone name (e.g., 'America/New_York', 'Europe/London')."}

NOW = ToolSpec(
    name="get_current_time",
    description="Get current time in a specific timezone",
    parameters={"type": "object", "properties": {"timezone": _ZONE}, "required": ["timezone"]},
)
CONVERT = ToolSpec(
    name="convert_time",
    description="Convert time between timezones",
    parameters={
        "type": "object",
        "properties": {
            "source_timezone": _ZONE,
            "time": {"type": "string", "description": "Time to convert in 24-hour format (HH:MM)"},
            "target_timezone": _ZONE,
        },
        "required": ["source_timezone", "time", "target_timezone"],
    },
)
TIME_TOOLS = [NOW, CONVERT]
