"""How servers are given on the command line, and what every verb about servers begins with: finding their tools and showing them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Group, Parameter

from art_core.authoring.brief import Brief
from art_core.errors import InputError
from art_core.observe.progress import Progress

from .agent import McpAgent
from .catalog import Catalog
from .commands import Server, parse_servers

__all__ = ["Found", "ServerOptions", "find"]

_SERVER = Group("The server", sort_key=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """How the servers are run and which of their tools are offered."""

    isolation: Annotated[Literal["rollout", "shared", "pool"] | None, Parameter(group=_SERVER)] = None
    """A session per rollout, one for all, or a pool of reused ones. Default: rollout, or shared where the server
    declares every offered tool read-only."""
    fixture: Annotated[Path | None, Parameter(group=_SERVER)] = None
    """A directory to copy for every rollout; its place is written {workdir} in the command."""
    tools: Annotated[tuple[str, ...], Parameter(group=_SERVER, consume_multiple=True)] = ()
    """Offer only these tools."""
    exclude_tools: Annotated[tuple[str, ...], Parameter(group=_SERVER, consume_multiple=True)] = ()
    """Offer all tools but these."""
    allow_destructive: Annotated[bool, Parameter(group=_SERVER, negative="")] = False
    """Also offer tools that the server marks as destructive or as reaching the open world."""
    resources: Annotated[bool, Parameter(group=_SERVER, negative="")] = False
    """Offer the server's resources through a tool that reads them."""
    env: Annotated[tuple[str, ...], Parameter(group=_SERVER)] = ()
    """NAME=VALUE for the server's environment; ${OTHER} in the value is looked up here."""
    header: Annotated[tuple[str, ...], Parameter(group=_SERVER)] = ()
    """NAME=VALUE, an HTTP header; write secrets as ${VARIABLE}."""
    bearer: Annotated[str | None, Parameter(group=_SERVER)] = None
    """Name of the environment variable that holds a bearer token."""
    concurrency_per_server: Annotated[int | None, Parameter(group=_SERVER)] = None
    """Calls in flight at once per server."""
    calls_per_second: Annotated[float | None, Parameter(group=_SERVER)] = None
    """Calls started per second per server."""
    call_timeout: Annotated[float, Parameter(group=_SERVER)] = 30.0
    """Seconds for one call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What the servers offer."""

    settings: dict[str, Any]
    """The arguments of ``McpAgent`` as plain values, so that run.toml can hold them."""
    servers: Sequence[Server]
    catalog: Catalog
    surroundings: tuple[str, ...] = ()
    """See ``McpAgent.surroundings``; empty unless they were asked for."""

    def brief(self, about: str | None) -> Brief:
        """What scenarios are written from; ``about`` is what the user says of the job."""
        names = " and ".join(server.name for server in self.servers)
        job = about or f"It does what can be done with these tools of {names}, for anybody who asks."
        return Brief(about=job, tools=self.catalog.specs, facts=self.surroundings)

    @property
    def file(self) -> Path:
        """Where scenarios are kept unless the user says where."""
        return Path(f"scenarios-{'-'.join(server.name for server in self.servers)}.jsonl")


def find(
    servers: Sequence[str],
    options: ServerOptions,
    shown: Progress,
    *,
    look: bool,
    **more: Any,
) -> Found:
    """Ask the servers for their tools, and show them.

    Args:
        servers: as the user wrote them.
        look: look at what there is to ask about too.
        more: further arguments of ``McpAgent``; what is None was not given.

    Raises:
        InputError: a server cannot be started, or an option cannot be used.
    """
    settings = _settings(servers, options, more)
    agent = McpAgent(**settings)

    async def discover() -> tuple[Catalog, tuple[str, ...]]:
        try:
            return await agent.listing(), await agent.surroundings() if look else ()
        finally:
            await agent.close()

    catalog, surroundings = asyncio.run(discover())
    if options.isolation is None and catalog.read_only and not agent.uses_workdir:
        settings["isolation"] = "shared"
    _show(shown, agent.servers, catalog, settings["isolation"])
    return Found(settings=settings, servers=agent.servers, catalog=catalog, surroundings=surroundings)


def _settings(servers: Sequence[str], server: ServerOptions, more: dict[str, Any]) -> dict[str, Any]:
    optional = {
        "fixture": str(server.fixture) if server.fixture else None,
        "tools": list(server.tools) or None,
        "exclude_tools": list(server.exclude_tools) or None,
        "allow_destructive": server.allow_destructive or None,
        "resources": server.resources or None,
        **more,
    }
    return {
        "servers": [_with_options(item, server).to_entry() for item in parse_servers(list(servers))],
        "isolation": server.isolation or "rollout",
        "call_timeout": server.call_timeout,
        **{name: value for name, value in optional.items() if value is not None},
    }


def _show(shown: Progress, servers: Sequence[Server], catalog: Catalog, isolation: str) -> None:
    for server in servers:
        shown.note(f"server {server.name}: {server.shown}")
    if isolation == "shared" and catalog.read_only:
        shown.note(
            "every offered tool is declared read-only: one session serves all rollouts (--isolation rollout: one each)"
        )
    shown.tools(catalog.specs, source=" and ".join(server.name for server in servers))
    for tool in catalog.withheld:
        shown.note(f"withheld: {tool.name}: {tool.withheld}")


def _with_options(item: Server, options: ServerOptions) -> Server:
    """A server with what the command line adds to it."""
    more: dict[str, Any] = {
        "env": {**item.env, **_pairs(options.env, "--env")},
        "headers": {**item.headers, **_pairs(options.header, "--header")},
        "bearer": options.bearer or item.bearer,
        "concurrency": options.concurrency_per_server or item.concurrency,
        "calls_per_second": options.calls_per_second or item.calls_per_second,
    }
    return replace(item, **more)


def _pairs(given: Sequence[str], option: str) -> dict[str, str]:
    pairs = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise InputError(f"{option} {text!r} is not of the form NAME=VALUE")
        pairs[name] = value
    return pairs
