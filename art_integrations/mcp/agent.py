"""McpAgent: a model, the tools of MCP servers, and the loop between them. Never touches token ids.

Whatever goes wrong with a call becomes a message the model can react to and a ``ToolEvent`` that names the kind of
failure. The list of tools is asked for once and stays the same for all rollouts.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from art_core.errors import InputError
from art_core.messages import Message, ToolSpec
from art_core.scenario import Scenario

from .calls import answer, together
from .catalog import Catalog, Discovered, build_catalog
from .commands import Server, ServerLike, parse_servers
from .environment import McpEnvironment
from .examples import Example, example_messages, parse_examples
from .hooks import Hook, Hooks
from .pool import Isolation, Lease, PoolOptions, Runtime
from .replay import Caller, CallLog, Keeping, Recording, Replaying
from .workdir import check_fixture, fresh_workdir

if TYPE_CHECKING:
    from art_core.rollout.session import Session

__all__ = ["McpAgent"]


class McpAgent:
    """An agent whose tools are those of MCP servers.

    >>> agent = McpAgent("python -m mcp_server_time", max_turns=4)

    Args:
        servers: A command line, a URL, a path to ``mcp.json``, a ``Server``, or a list of these.
        isolation: ``rollout``: every rollout has sessions of its own; ``shared``: all use the same; ``pool``: a rollout
            borrows sessions that earlier ones may have used.
        tools: Offer only these. exclude_tools: Offer all but these. By the model's or the server's names.
        allow_destructive: Also offer tools that say they are destructive or reach the open world.
        resources: Offer the servers' resources through a tool that reads them.
        fixture: A directory whose copy is the rollout's ``{workdir}``.
        max_turns: Model calls per rollout. The calls of the last one are still made.
        examples: Worked examples shown before the request (``Example`` or mappings). system: System text.
        call_timeout: Seconds for one call; progress reports extend it.
        start_timeout: Seconds for a server to start. max_starts: How many start at once.
        pool_size: Sessions per server with ``isolation="pool"``.
        result_limit: Characters of a result that the model is shown.
        prefix_names: Prefix every tool with its server's name, not only where names clash.
        elicit, sample: What answers the servers' own requests; declined without.
        record: A file that all calls and results are appended to. replay: A file recorded so, from which all calls are
            answered; no server is started, and a call that is not in it fails the rollout.

    Raises:
        InputError: an argument cannot be used.
    """

    def __init__(
        self,
        servers: ServerLike | Sequence[ServerLike],
        *,
        isolation: Isolation = "rollout",
        tools: Collection[str] | None = None,
        exclude_tools: Collection[str] = (),
        allow_destructive: bool = False,
        resources: bool = False,
        fixture: str | Path | None = None,
        max_turns: int = 8,
        examples: Sequence[Example | Mapping[str, Any]] = (),
        system: str = "",
        call_timeout: float = 30.0,
        start_timeout: float = 30.0,
        max_starts: int = 8,
        pool_size: int = 8,
        result_limit: int = 8_000,
        prefix_names: bool = False,
        elicit: Hook | None = None,
        sample: Hook | None = None,
        record: str | Path | None = None,
        replay: str | Path | None = None,
    ) -> None:
        self.servers: list[Server] = parse_servers(servers)
        self.examples = parse_examples(examples)
        self.max_turns = max_turns
        self._fixture = Path(fixture) if fixture is not None else None
        self._filters: dict[str, Any] = {
            "tools": tools,
            "exclude_tools": exclude_tools,
            "allow_destructive": allow_destructive,
            "prefix": prefix_names,
        }
        self._resources = resources
        self._system = system
        self._options = PoolOptions(
            isolation=isolation,
            pool_size=pool_size,
            max_starts=max_starts,
            start_seconds=start_timeout,
            call_seconds=call_timeout,
            result_characters=result_limit,
            hooks=Hooks(elicit=elicit, sample=sample),
        )
        if record is not None and replay is not None:
            raise InputError("record and replay are both given; a run either records calls or replays them")
        self._record = CallLog(Path(record), reading=False) if record is not None else None
        self._replay = CallLog(Path(replay), reading=True) if replay is not None else None
        self._kept: CallLog | None = None
        self._catalog: Catalog | None = None
        self._runtime: Runtime | None = None
        self._environments: dict[int, McpEnvironment] = {}
        self._check()

    async def discover(self) -> tuple[ToolSpec, ...]:
        """The tools the model is offered; the servers are asked the first time only.

        Raises:
            InputError: a server cannot be started (names command, exit code and last stderr lines), a filter names no
                tool, or no tool is left.
        """
        return (await self._discovered()).specs

    async def listing(self) -> Catalog:
        """What will really be called by the model, and what is withheld and why; ``str()`` of it is for people."""
        return await self._discovered()

    async def surroundings(self) -> tuple[str, ...]:
        """What there is to ask about, for whoever writes scenarios: the servers' resources and prompts, and what reading tools answer that
        need no argument; paths in ``{workdir}`` are told relative to it. Nothing where calls are replayed.

        Raises:
            InputError: see ``discover``.
        """
        catalog = await self._discovered()
        if self._replay is not None:
            return ()
        runtime = self._current()
        found = await together([self._look_around(runtime, server, catalog) for server in self.servers])
        return tuple(fact for facts in found for fact in facts)

    @asynccontextmanager
    async def open(self, scenario: Scenario, session: Session) -> AsyncIterator[McpEnvironment]:
        """A rollout's environment: its directory at once, its server sessions from the first call on."""
        catalog = await self._discovered()
        async with AsyncExitStack() as stack:
            workdir = None
            if self.uses_workdir:
                workdir = await stack.enter_async_context(fresh_workdir(self._fixture))
            caller = self._caller(workdir, session)
            stack.push_async_callback(caller.release)
            environment = McpEnvironment(catalog, caller, workdir=workdir, call_seconds=self._options.call_seconds)
            self._environments[id(session)] = environment
            stack.callback(self._environments.pop, id(session), None)
            yield environment

    async def __call__(self, scenario: Scenario, session: Session) -> str:
        """Run one rollout; returns the text of the last reply."""
        environment = self._environments.get(id(session))
        if environment is not None:
            return await self._loop(scenario, session, environment)
        async with self.open(scenario, session) as environment:
            return await self._loop(scenario, session, environment)

    def keep_answers(self, path: Path) -> None:
        """Keep the servers' tools and every answer in ``path``; a rollout of an id that is in it is answered from it.

        Answers that are replayed need no keeping.

        Raises:
            InputError: the file cannot be read.
        """
        if self._replay is None:
            self._kept, self._catalog = CallLog(path, reading=False), None

    async def close(self) -> None:
        """End the sessions that outlive a rollout (``shared`` and ``pool``)."""
        runtime, self._runtime = self._runtime, None
        if runtime is not None and runtime.loop is asyncio.get_running_loop():
            await runtime.close()

    def messages(self, scenario: Scenario) -> list[Message]:
        """What a rollout begins with: the system text, the worked examples, the scenario's input.

        Raises:
            InputError: the input is neither text nor a list of messages.
        """
        given = scenario.input
        if isinstance(given, str):
            given = [{"role": "user", "content": given}]
        if not isinstance(given, Sequence) or not given:
            raise InputError(f"scenario {scenario.id!r}: input must be text or a list of messages, got {given!r}")
        messages = [item if isinstance(item, Message) else Message.from_wire(item) for item in given]
        parts = [self._system]
        if messages[0].role == "system":
            parts.append(messages.pop(0).text)
        system = "\n\n".join(part for part in parts if part)
        opening = [Message(role="system", content=system)] if system else []
        return [*opening, *example_messages(self.examples), *messages]

    async def _loop(self, scenario: Scenario, session: Session, environment: McpEnvironment) -> str:
        messages = self.messages(scenario)
        for _ in range(self.max_turns):
            turn = await session.turn(messages, environment.tools)
            reply = turn.reply
            messages.append(reply)
            messages += await answer(turn, session, environment)
            if messages[-1] is reply:
                break
        return reply.text

    async def _discovered(self) -> Catalog:
        if self._catalog is not None:
            return self._catalog
        runtime = self._current()
        async with runtime.discovering:
            if self._catalog is None:
                found = await together([self._discover(runtime, server) for server in self.servers])
                self._catalog = build_catalog(found, **self._filters)
                self._check_examples(self._catalog)
        return self._catalog

    async def _discover(self, runtime: Runtime, server: Server) -> Discovered:
        if self._replay is not None:
            return self._replay.offer(server.name)
        found = None if self._kept is None else self._kept.discovered.get(server.name)
        if found is None:
            async with self._workdir_of(server) as workdir:
                found = await runtime.discover(server, workdir, resources=self._resources)
        for log in (self._record, self._kept):
            if log is not None:
                log.add_discovered(found)
        return found

    async def _look_around(self, runtime: Runtime, server: Server, catalog: Catalog) -> list[str]:
        tools = [tool for tool in catalog.offered if tool.server == server.name]
        async with self._workdir_of(server) as workdir:
            facts = await runtime.look_around(server, workdir, tools)
        if workdir is None:
            return facts
        return [fact.replace(f"{workdir}{os.sep}", "").replace(str(workdir), ".") for fact in facts]

    @asynccontextmanager
    async def _workdir_of(self, server: Server) -> AsyncIterator[Path | None]:
        """A directory for one visit, where the server uses one."""
        async with AsyncExitStack() as stack:
            yield await stack.enter_async_context(fresh_workdir(self._fixture)) if server.uses_workdir else None

    def _caller(self, workdir: Path | None, session: Session) -> Caller:
        stateful = self._options.isolation == "rollout"
        if self._replay is not None:
            return Replaying(self._replay, stateful=stateful)
        caller: Caller = Lease(self._current(), workdir)
        if self._kept is not None:
            caller = Keeping(caller, self._kept, rollout=session.rollout_id, stateful=stateful)
        return caller if self._record is None else Recording(caller, self._record, stateful=stateful)

    def _current(self) -> Runtime:
        """The sessions of the running event loop; those of an earlier loop ended with it."""
        loop = asyncio.get_running_loop()
        if self._runtime is None or self._runtime.loop is not loop:
            self._runtime = Runtime(self.servers, self._options)
        return self._runtime

    @property
    def uses_workdir(self) -> bool:
        """Whether a server's command or environment mentions ``{workdir}``."""
        return any(server.uses_workdir for server in self.servers)

    def _check(self) -> None:
        options = self._options
        if options.isolation not in ("rollout", "shared", "pool"):
            raise InputError(f"isolation must be 'rollout', 'shared' or 'pool', got {options.isolation!r}")
        for name, value in (
            ("max_turns", self.max_turns),
            ("pool_size", options.pool_size),
            ("max_starts", options.max_starts),
            ("result_limit", options.result_characters),
        ):
            if value < 1:
                raise InputError(f"{name} must be at least 1, got {value!r}")
        if options.call_seconds <= 0 or options.start_seconds <= 0:
            raise InputError("call_timeout and start_timeout must be above 0 seconds")
        check_fixture(self._fixture)
        if self.uses_workdir and options.isolation != "rollout":
            name = next(server.name for server in self.servers if server.uses_workdir)
            raise InputError(
                f"MCP server {name!r} uses {{workdir}}, which needs isolation='rollout', not {options.isolation!r}"
            )
        if self._fixture is not None and not self.uses_workdir:
            raise InputError(
                f"fixture {str(self._fixture)!r} is given but no server's command or env mentions {{workdir}}"
            )

    def _check_examples(self, catalog: Catalog) -> None:
        for example in self.examples:
            if catalog.find(example.tool) is None:
                names = ", ".join(spec.name for spec in catalog.specs)
                raise InputError(f"an example calls {example.tool!r}, which is not offered; the tools are: {names}")
