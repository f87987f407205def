"""What can be told to be wrong between a graph and what it is given, without running it."""

from __future__ import annotations

import dataclasses
import linecache
import traceback
from collections.abc import Mapping
from types import TracebackType
from typing import Any, get_type_hints, is_typeddict

from langchain_core.messages import convert_to_messages
from langgraph.graph.message import add_messages
from langgraph.pregel import Pregel
from pydantic import BaseModel, ValidationError

from art_core.errors import InputError, describe

__all__ = ["check_context", "check_input", "missing_configurable"]


def check_context(graph: Pregel[Any, Any, Any, Any], context: Any) -> None:
    """
    Raises:
        InputError: the graph's schema of contexts has a field that must be given, and ``context`` does not give it.
    """
    schema = getattr(graph, "context_schema", None)
    if not isinstance(schema, type) or isinstance(context, schema if not is_typeddict(schema) else ()):
        return
    given = set(context) if isinstance(context, Mapping) else set()
    missing = [name for name in _required(schema) if name not in given]
    if missing:
        raise InputError(
            f"the graph's context {schema.__name__} needs {', '.join(missing)}, which nobody gives; give LangGraphAgent(context=) "
            f"an object with {', '.join(_required(schema))}, or --context {missing[0]}=VALUE"
        )


def missing_configurable(error: KeyError) -> InputError | None:
    """What to raise if ``error`` is that of code which looked for a key in ``configurable`` of the config it was given; else None."""
    if not error.args or error.__traceback__ is None:
        return None
    [*_, (frame, _)] = traceback.walk_tb(error.__traceback__)
    failed, key = _failed_expression(error.__traceback__), error.args[0]
    name = failed.partition("[")[0].strip()
    configs = [value for value in frame.f_locals.values() if isinstance(value, Mapping) and "configurable" in value]
    if "configurable" not in failed and all(frame.f_locals.get(name) is not one["configurable"] for one in configs):
        return None
    return InputError(
        f"the graph needs {key!r} in configurable of its config, which nobody gives; give "
        f"LangGraphAgent(config={{'configurable': {{{key!r}: ...}}}}) or --configurable {key}=VALUE"
    )


def _failed_expression(trace: TracebackType) -> str:
    """The part of the line that an exception comes from, as far as the source can be read."""
    last = traceback.extract_tb(trace)[-1]
    return linecache.getline(last.filename, last.lineno or 0)[last.colno : last.end_colno]


def check_input(graph: Pregel[Any, Any, Any, Any], given: Any, scenario_id: str) -> None:
    """
    Args:
        given: the graph's input, as ``graphs.input_for`` makes it.

    Raises:
        InputError: the graph's state cannot be made of it, or its messages are none.
    """
    schema = getattr(getattr(graph, "builder", None), "input_schema", None)
    if not isinstance(schema, type) or not isinstance(given, Mapping):
        return
    cure = "write the scenario's input as the graph needs it, or give LangGraphAgent(input=) a function that makes it"
    if problem := _problem(schema, given):
        raise InputError(
            f"scenario {scenario_id!r} does not fit the graph's input {schema.__name__}: {problem}; {cure}"
        )
    for name, value in given.items():
        if getattr(graph.channels.get(name), "operator", None) is add_messages:
            try:
                convert_to_messages(value if isinstance(value, list) else [value])
            except Exception as error:  # whatever LangChain says of something that is no message
                raise InputError(
                    f"scenario {scenario_id!r}: {name} holds no messages: {describe(error)}; {cure}"
                ) from error


def _problem(schema: type, given: Mapping[str, Any]) -> str | None:
    """Why an object of ``schema`` cannot be made; a TypedDict can always be, with fields left out."""
    if issubclass(schema, BaseModel):
        try:
            schema.model_validate(dict(given))
        except ValidationError as error:
            first = error.errors()[0]
            return f"{'.'.join(map(str, first['loc'])) or 'it'}: {first['msg']}"
    elif dataclasses.is_dataclass(schema):
        missing = [name for name in _required(schema) if name not in given]
        return f"{missing[0]} is missing" if missing else None
    return None


def _required(schema: type) -> list[str]:
    """The fields that an object of a pydantic model, dataclass or TypedDict cannot be without."""
    if issubclass(schema, BaseModel):
        return [name for name, field in schema.model_fields.items() if field.is_required()]
    if dataclasses.is_dataclass(schema):
        nothing = dataclasses.MISSING
        return [
            f.name
            for f in dataclasses.fields(schema)
            if f.init and f.default is nothing and f.default_factory is nothing
        ]
    if is_typeddict(schema):
        typed: Any = schema
        return [name for name in get_type_hints(schema) if name in typed.__required_keys__]
    return []
