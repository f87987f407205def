"""A LangGraph graph as an agent: nothing in it is changed, its model calls become turns of the rollout."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from langchain_core.runnables.config import merge_configs
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.errors import GraphRecursionError
from langgraph.pregel import Pregel
from langgraph.types import Command

from art_core.cli.references import load_reference
from art_core.errors import InputError, LimitReached, describe
from art_core.messages import ToolSpec
from art_core.rollout.selection import Select, SelectingAgent
from art_core.rollout.session import Session
from art_core.scenario import Scenario
from art_integrations import openai_sdk

from .captured import check_captured
from .fitting import check_context, check_input, missing_configurable
from .found import tools_in
from .graphs import check_factory, check_graph, input_for, isolated, made_by
from .hook import install
from .reruns import RunLog, final_ids, superseded_turns
from .substitutes import Stub
from .toolhook import install_tools
from .tooling import RolloutTools, Tooling

__all__ = ["LangGraphAgent"]


class LangGraphAgent(SelectingAgent):
    """See ``rollout.protocol.Agent``. Its output is the graph's final state.

    Args:
        graph: a compiled graph, ``"package.module:name"`` of one, or a function that makes one for every rollout (of nothing or of
            the config; it may be async).
        input: makes the graph's input from a scenario. Unless given, a text or a list of messages becomes ``{"messages": ...}``, or the
            one field that the graph takes, and an object is the input itself.
        train: which model calls are trained: the name of a model, node or agent, several of them, such names and the adapter of
            each, or a function of what ``caller.describe_caller`` tells; all unless given. The others run as in production.
        on_interrupt: answers interrupts: a function, sync or async, of the list of interrupts that returns what the graph is resumed
            with. Without it an interrupt ends the rollout with an error.
        config: the config of every run; ``configurable.thread_id`` is the rollout's own.
        context: the runtime context of every run, where the graph has a schema of one.
        steps: most steps of the graph (its ``recursion_limit``).
        share: give all rollouts the graph's own cache, store and checkpointer, instead of fresh ones.
        tools: tool → what answers in its place: a function of the tool's arguments, sync or async, the text of every answer, or
            ``Replay(FILE)``. All other tools really run.
        allow_destructive: let tools run whose name or MCP server says that they can do harm; or the names of those that may.

    Raises:
        InputError: no graph there, or an argument that cannot be used.
    """

    def __init__(
        self,
        graph: Pregel[Any, Any, Any, Any] | str | Callable[..., Any],
        *,
        input: Callable[[Scenario], Any] | None = None,
        train: Select | None = None,
        on_interrupt: Callable[[Sequence[Any]], Any] | None = None,
        config: Mapping[str, Any] | None = None,
        context: Any = None,
        steps: int = 100,
        share: bool = False,
        tools: Mapping[str, Stub] | None = None,
        allow_destructive: bool | Collection[str] = False,
    ) -> None:
        if not isinstance(steps, int) or steps < 1:
            raise InputError(f"steps must be a whole number of at least 1, got {steps!r}")
        found = load_reference(graph, what="graph") if isinstance(graph, str) else graph
        self._factory = found if callable(found) and not isinstance(found, Pregel) else None
        if self._factory is not None:
            check_factory(self._factory)
            self._graph = None
        else:
            self._graph = check_graph(found)
            check_context(self._graph, context)
        super().__init__(train)
        self._train = train
        self._input = input
        self._on_interrupt = on_interrupt
        self._config = dict(config or {})
        self._context = context
        self._steps = steps
        self._share = share
        self._tooling = Tooling(tools, allow_destructive)
        install()
        install_tools()
        openai_sdk.install()

    def check_scenario(self, scenario: Scenario) -> None:
        """See ``rollout.protocol.AgentWithCheck``. A graph that a factory makes and an ``input`` function are not tried.

        Raises:
            InputError: the scenario does not fit the graph's state.
        """
        if self._graph is not None and self._input is None:
            self._input_for(self._graph, scenario)

    async def tools_found(self) -> Mapping[str, str]:
        """See ``rollout.protocol.AgentWithRealTools``. A factory is called once for it.

        Raises:
            InputError: a tool that would really run can do harm and is not allowed to, or the factory failed.
        """
        found = await self._tools()
        for tool in found.values():
            self._tooling.check(tool)
        unseen = {name: "not found" for name in self._tooling.stubs if name not in found}
        return {name: self._tooling.answered_by(name) for name in found} | unseen

    async def tool_specs(self) -> tuple[ToolSpec, ...]:
        """The tools that can be found without running, as a model is told of them. A factory is called once for it.

        Raises:
            InputError: the factory failed.
        """
        return tuple(ToolSpec.from_wire(convert_to_openai_tool(tool)) for tool in (await self._tools()).values())

    async def _tools(self) -> dict[str, BaseTool]:
        graph = self._graph
        if self._factory is not None:
            graph = await self._made(self._config_for("tools-found"))
        assert graph is not None
        return tools_in(graph)

    async def __call__(self, scenario: Scenario, session: Session) -> Any:
        """Run the graph once.

        Raises:
            InputError: the scenario does not fit the graph, nobody answers its interrupts, or none of its model calls was one
                of the rollout.
            LimitReached: the graph took more than ``steps`` steps.
        """
        session.selection = self._selection
        log, tools = RunLog(), RolloutTools(self._tooling, session)
        config = self._config_for(session.rollout_id, log)
        graph = self._graph if self._factory is None else await self._made(config)
        assert graph is not None
        check_context(graph, self._context)
        given = self._input_for(graph, scenario)
        state: Any = None
        try:
            state = await self._run(graph if self._share else isolated(graph), given, config)
        except Exception as error:
            if tools.refused:
                raise tools.refused from None
            if isinstance(error, KeyError) and (told := missing_configurable(error)):
                raise told from error
            raise
        finally:
            turns = session.trajectory.graph
            session.trajectory.superseded |= superseded_turns(turns, log, final_ids(state))
        if tools.refused:
            raise tools.refused
        check_captured(session, self._train)
        return state

    async def _made(self, config: Any) -> Pregel[Any, Any, Any, Any]:
        """What the factory makes.

        Raises:
            InputError: no graph, or the factory failed.
        """
        assert self._factory is not None
        try:
            return check_graph(await made_by(self._factory, config))
        except InputError:
            raise
        except Exception as error:  # the user's factory may raise anything
            if isinstance(error, KeyError) and (told := missing_configurable(error)):
                raise told from error
            raise InputError(f"the factory of the graph failed: {describe(error)}") from error

    def _input_for(self, graph: Pregel[Any, Any, Any, Any], scenario: Scenario) -> Any:
        given = self._input(scenario) if self._input else input_for(graph, scenario.input, scenario.id)
        check_input(graph, given, scenario.id)
        return given

    async def _run(self, graph: Pregel[Any, Any, Any, Any], given: Any, config: Any) -> Any:
        """The final state; interrupts on the way are answered."""
        options: Any = {} if self._context is None else {"context": self._context}
        while True:
            try:
                state = await graph.ainvoke(given, config, **options)
            except GraphRecursionError as error:
                raise LimitReached("max_steps", f"the limit of {self._steps} steps of the graph is reached") from error
            interrupts = state.get("__interrupt__") if isinstance(state, Mapping) else None
            if not interrupts:
                return state
            given = Command(resume=await self._answer(interrupts))

    def _config_for(self, thread_id: str, *callbacks: RunLog) -> Any:
        configurable = {**self._config.get("configurable", {}), "thread_id": thread_id}
        own = {"recursion_limit": self._steps, **self._config, "configurable": configurable}
        return merge_configs(own, {"callbacks": list(callbacks)})  # type: ignore[arg-type]

    async def _answer(self, interrupts: Sequence[Any]) -> Any:
        if self._on_interrupt is None:
            raise InputError(
                f"the graph stopped to ask ({interrupts[0].value!r}) and nobody answers; give LangGraphAgent(on_interrupt=) a "
                "function of the interrupts that returns what to resume with"
            )
        answer = self._on_interrupt(list(interrupts))
        return await answer if inspect.isawaitable(answer) else answer
