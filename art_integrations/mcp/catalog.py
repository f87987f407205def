"""Which tools there are and which of them a model may use.

A tool that says it is destructive (``destructiveHint`` without ``readOnlyHint``) or reaches the open world
(``openWorldHint``) is withheld unless allowed: a model that is being trained calls tools thousands of times, on purpose
or not. A hint that is not given counts as no.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from art_core.errors import InputError
from art_core.messages import ToolSpec
from art_core.rollout.hazards import hinted_hazard

from .names import public_names
from .schemas import tool_parameters

__all__ = ["Catalog", "Discovered", "ListedTool", "build_catalog"]

READ_RESOURCE = "read_resource"


@dataclass(frozen=True, slots=True, kw_only=True)
class Discovered:
    """What one server offers, in wire form."""

    server: str
    tools: Sequence[Mapping[str, Any]]
    resources: Sequence[Mapping[str, Any]] = ()
    templates: Sequence[Mapping[str, Any]] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedTool:
    """One tool: what the model sees, what the server calls it, and whether it is offered."""

    spec: ToolSpec
    server: str
    original: str
    annotations: Mapping[str, Any] = field(default_factory=dict)
    reads_resources: bool = False
    """It is our own tool that reads the server's resources."""
    withheld: str | None = None
    """Why the model is not offered it; None if it is."""

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def read_only(self) -> bool:
        return self.reads_resources or self.annotations.get("readOnlyHint") is True

    @property
    def repeatable(self) -> bool:
        """Whether calling it twice is the same as calling it once."""
        return self.read_only or self.annotations.get("idempotentHint") is True


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalog:
    """The frozen list of tools of a run."""

    tools: tuple[ListedTool, ...]

    @property
    def offered(self) -> tuple[ListedTool, ...]:
        return tuple(tool for tool in self.tools if tool.withheld is None)

    @property
    def withheld(self) -> tuple[ListedTool, ...]:
        return tuple(tool for tool in self.tools if tool.withheld is not None)

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """What the model is offered."""
        return tuple(tool.spec for tool in self.offered)

    @property
    def read_only(self) -> bool:
        """Whether the servers declare every offered tool read-only."""
        return all(tool.read_only for tool in self.offered)

    def find(self, name: str) -> ListedTool | None:
        """An offered tool by the name the model uses."""
        return next((tool for tool in self.offered if tool.name == name), None)

    def find_any(self, name: str) -> ListedTool | None:
        """A tool, withheld ones too, by the model's or the server's name (for rewards)."""
        named = [tool for tool in self.tools if tool.name == name]
        return next(iter(named or [tool for tool in self.tools if tool.original == name]), None)

    def __str__(self) -> str:
        count = len(self.offered)
        lines = [f"{count} {'tool' if count == 1 else 'tools'} will really be called by the model, many times:"]
        lines += [f"  {tool.name}{_origin(tool)}" for tool in self.offered]
        if self.withheld:
            lines.append(f"{len(self.withheld)} withheld:")
            lines += [f"  {tool.name}{_origin(tool)}: {tool.withheld}" for tool in self.withheld]
        return "\n".join(lines)


def build_catalog(
    discovered: Sequence[Discovered],
    *,
    tools: Collection[str] | None = None,
    exclude_tools: Collection[str] = (),
    allow_destructive: bool = False,
    prefix: bool = False,
) -> Catalog:
    """Name, convert and filter what the servers offer.

    ``tools`` and ``exclude_tools`` take the model's or the server's names.

    Raises:
        InputError: a filter names no tool, or nothing is left to offer.
    """
    plain = [tool for found in discovered for tool in _tools(found)]
    names = public_names(((tool.server, tool.original) for tool in plain), prefix=prefix)
    public = {key: name for name, key in names.items()}
    listed = [replace(tool, spec=replace(tool.spec, name=public[tool.server, tool.original])) for tool in plain]
    valid = sorted({tool.name for tool in listed})
    for name in (*(tools or ()), *exclude_tools):
        if not any(name in (tool.name, tool.original) for tool in listed):
            raise InputError(f"tool {name!r} is not offered by any server; valid names: {', '.join(valid) or 'none'}")
    catalog = Catalog(
        tools=tuple(replace(tool, withheld=_withheld(tool, tools, exclude_tools, allow_destructive)) for tool in listed)
    )
    if not catalog.offered:
        raise InputError(f"no tool is left to offer to the model. {catalog}")
    return catalog


def _tools(found: Discovered) -> list[ListedTool]:
    """The server's tools under its own names, each once, and our reader of its resources."""
    tools: dict[str, ListedTool] = {}
    for wire in found.tools:
        spec = ToolSpec(
            name=wire["name"] or "tool",
            description=wire.get("description") or "",
            parameters=tool_parameters(wire.get("inputSchema")),
        )
        tool = ListedTool(
            spec=spec, server=found.server, original=wire["name"], annotations=wire.get("annotations") or {}
        )
        tools.setdefault(tool.original, tool)
    if found.resources or found.templates:
        name = READ_RESOURCE
        while name in tools:
            name += "_"
        spec = _resource_reader(name, found)
        tools[name] = ListedTool(spec=spec, server=found.server, original=name, reads_resources=True)
    return list(tools.values())


def _withheld(
    tool: ListedTool, tools: Collection[str] | None, exclude_tools: Collection[str], allow_destructive: bool
) -> str | None:
    own_names = (tool.name, tool.original)
    if tools is not None and not any(name in tools for name in own_names):
        return "not among the chosen tools"
    if any(name in exclude_tools for name in own_names):
        return "excluded"
    if allow_destructive:
        return None
    hazard = hinted_hazard(tool.annotations)
    return None if hazard is None else f"{hazard}; allow_destructive offers it"


def _resource_reader(name: str, found: Discovered) -> ToolSpec:
    """Our own tool that reads the server's resources: a list of URIs, or any that fits a template."""
    lines = [f"- {item['uri']}{_about(item)}" for item in found.resources]
    lines += [f"- {item['uriTemplate']}{_about(item)} (fill in the braces)" for item in found.templates]
    uri: dict[str, Any] = {"type": "string", "description": "URI of the resource"}
    if not found.templates:
        uri["enum"] = [str(item["uri"]) for item in found.resources]
    return ToolSpec(
        name=name,
        description="Read one of these resources:\n" + "\n".join(lines),
        parameters={"type": "object", "properties": {"uri": uri}, "required": ["uri"]},
    )


def _about(item: Mapping[str, Any]) -> str:
    text = item.get("description") or item.get("title") or item.get("name") or ""
    return f": {text}" if text else ""


def _origin(tool: ListedTool) -> str:
    original = "" if tool.original == tool.name else f" (there {json.dumps(tool.original, ensure_ascii=False)})"
    return f" of {tool.server}{original}"
