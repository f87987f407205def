"""Which servers: a ``Server`` per command or URL, read from text, an ``mcp.json`` file or Python values.

A ``${NAME}`` in headers and environment values stands for an environment variable and is looked up when a session
starts; the value is never kept, printed or part of a record.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from art_core.errors import InputError

__all__ = ["WORKDIR", "OAuth", "Server", "ServerLike", "expand", "parse_servers"]

WORKDIR = "{workdir}"
Transport = Literal["stdio", "http", "sse"]
_SECRET = re.compile(r"token|secret|passw|api[-_]?key|credential|authorization|cookie", re.IGNORECASE)
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_JSON_KEYS = {"command", "args", "env", "cwd", "url", "type", "transport", "headers"}
_OUR_KEYS = {"name", "bearer", "oauth", "concurrency", "calls_per_second"}
_JSON_KINDS: dict[str, Transport] = {
    "stdio": "stdio",
    "http": "http",
    "streamable-http": "http",
    "streamableHttp": "http",
    "streamable_http": "http",
    "sse": "sse",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuth:
    """OAuth client credentials, by the names of the environment variables that hold them."""

    client_id: str
    """Name of an environment variable."""
    client_secret: str
    """Name of an environment variable."""
    issuer: str
    """URL of the authorization server the credentials belong to; they are sent nowhere else."""
    scope: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """One MCP server: a command that speaks over stdio, or a URL.

    >>> Server(name="files", command=("mcp-server-filesystem", "{workdir}")).transport
    'stdio'
    """

    name: str
    command: tuple[str, ...] = ()
    """Program and arguments; ``{workdir}`` in them is the rollout's own directory."""
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Added to the few variables a server inherits (PATH, HOME ...)."""
    cwd: str | None = None
    url: str | None = None
    transport: Transport = "stdio"
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """HTTP headers, secrets as ``${NAME}``."""
    bearer: str | None = None
    """Name of the environment variable that holds a bearer token."""
    oauth: OAuth | None = None
    concurrency: int | None = None
    """Calls in flight at once over all rollouts; None for no limit."""
    calls_per_second: float | None = None
    """Calls started per second over all rollouts; None for no limit."""

    def __post_init__(self) -> None:
        if bool(self.command) == bool(self.url):
            raise InputError(f"MCP server {self.name!r} needs a command or a url, one of the two")
        if self.url is not None and (self.transport == "stdio" or urlsplit(self.url).scheme not in ("http", "https")):
            raise InputError(f"MCP server {self.name!r}: url {self.url!r} needs http(s) and transport 'http' or 'sse'")
        if not self.url and (self.headers or self.bearer or self.oauth or self.transport != "stdio"):
            raise InputError(f"MCP server {self.name!r} is a command; headers, bearer and oauth need a url")
        if self.bearer and self.oauth:
            raise InputError(f"MCP server {self.name!r} has both bearer and oauth; give one of them")
        for header, value in self.headers.items():
            if header.lower() == "authorization" and not _VARIABLE.search(value):
                raise InputError(
                    f"MCP server {self.name!r}: header {header!r} holds a secret; name an environment variable in it, as in 'Bearer ${{MY_TOKEN}}'"
                )
        if self.concurrency is not None and self.concurrency < 1:
            raise InputError(f"MCP server {self.name!r}: concurrency must be at least 1, got {self.concurrency!r}")
        if self.calls_per_second is not None and not self.calls_per_second > 0:
            raise InputError(
                f"MCP server {self.name!r}: calls_per_second must be above 0, got {self.calls_per_second!r}"
            )

    @property
    def uses_workdir(self) -> bool:
        """Whether the command, its environment or its working directory mentions ``{workdir}``."""
        return any(WORKDIR in text for text in (*self.command, *self.env.values(), self.cwd or ""))

    def to_entry(self) -> dict[str, Any]:
        """The server as an entry of ``mcp.json`` with our additions, plain values only; ``parse_servers`` reads it back.

        Raises:
            InputError: an environment value or header looks like a secret and is written out.
        """
        for kind, values in (("env", self.env), ("header", self.headers)):
            for key, value in values.items():
                if _SECRET.search(key) and not _VARIABLE.search(value):
                    raise InputError(
                        f"MCP server {self.name!r}: {kind} {key!r} looks like a secret and would be kept with the run; "
                        f"set an environment variable and write {key}=${{ITS_NAME}}"
                    )
        entry: dict[str, Any] = {"name": self.name}
        if self.command:
            program = "python" if self.command[0] == sys.executable else self.command[0]
            entry |= {"command": program, "args": list(self.command[1:]), "env": dict(self.env), "cwd": self.cwd}
        else:
            entry |= {"url": self.url, "type": self.transport, "headers": dict(self.headers), "bearer": self.bearer}
        if self.oauth is not None:
            entry["oauth"] = {name: value for name, value in asdict(self.oauth).items() if value is not None}
        entry |= {"concurrency": self.concurrency, "calls_per_second": self.calls_per_second}
        return {key: value for key, value in entry.items() if value not in (None, {}, [])}

    @property
    def shown(self) -> str:
        """The command line or URL, as messages name it."""
        return self.url or shlex.join(self.command)


ServerLike = str | Path | Server | Sequence[str] | Mapping[str, Any]


def parse_servers(servers: ServerLike | Sequence[ServerLike]) -> list[Server]:
    """Servers from a command line, a URL, a path to ``mcp.json``, a ``Server``, or a list of these.

    In a command ``python`` is the interpreter that runs this. A URL that ends in ``/sse`` is spoken to over SSE, any
    other over streamable HTTP; a ``Server`` or ``mcp.json`` can say otherwise.

    Raises:
        InputError: an element cannot be read, or two servers have the same name.
    """
    several = isinstance(servers, Sequence) and not isinstance(servers, str)
    found = [server for item in (servers if several else [servers]) for server in _parse(item)]  # type: ignore[union-attr]
    if not found:
        raise InputError("no MCP server given; give a command such as 'python -m mcp_server_time' or a URL")
    return _named_apart(found)


def expand(text: str, *, what: str) -> str:
    """The text with every ``${NAME}`` replaced by that environment variable.

    Raises:
        InputError: a variable is not set; the message names it.
    """

    def value(match: re.Match[str]) -> str:
        if match[1] not in os.environ:
            raise InputError(f"{what} needs the environment variable {match[1]!r}, which is not set")
        return os.environ[match[1]]

    return _VARIABLE.sub(value, text)


def _parse(item: Any) -> list[Server]:
    if isinstance(item, Server):
        return [item]
    if isinstance(item, Mapping):
        return _from_mapping(item)
    if isinstance(item, Path) or (isinstance(item, str) and item.endswith(".json") and " " not in item.strip()):
        return _from_file(Path(item))
    if isinstance(item, Sequence) and not isinstance(item, str):
        return [_from_command([str(part) for part in item])]
    if not isinstance(item, str):
        raise InputError(f"an MCP server is a command, a URL, a path to mcp.json or a Server, got {item!r}")
    if item.startswith(("http://", "https://")):
        return [_from_url(item)]
    try:
        return [_from_command(shlex.split(item))]
    except ValueError as error:
        raise InputError(f"MCP server command {item!r} cannot be split into words: {error}") from error


def _from_url(url: str, transport: Transport | None = None, name: str = "", **more: Any) -> Server:
    parts = urlsplit(url)
    guess: Transport = "sse" if parts.path.rstrip("/").endswith("/sse") else "http"
    return Server(name=name or parts.hostname or "http", url=url, transport=transport or guess, **more)


def _from_command(words: list[str], name: str = "", **more: Any) -> Server:
    if not words:
        raise InputError("an MCP server command is empty; give one such as 'python -m mcp_server_time'")
    return Server(name=name or _name_of(words), command=(_program(words[0]), *words[1:]), **more)


def _program(word: str) -> str:
    """``python`` is this interpreter; a script installed beside it is found without an activated environment."""
    if word in ("python", "python3"):
        return sys.executable
    if os.sep in word or shutil.which(word):
        return word
    return shutil.which(word, path=str(Path(sys.executable).parent)) or word


def _name_of(words: list[str]) -> str:
    """A short name: the module of ``python -m``, else the last word that looks like a package, script or program."""
    if "-m" in words[:-1]:
        return words[words.index("-m") + 1]
    if Path(words[0]).name in ("python", "python3", "node", "npx", "uvx", "uv", "docker", Path(sys.executable).name):
        for word in words[1:]:
            if not word.startswith("-") and word not in ("run", "tool"):
                return Path(word).stem
    return Path(words[0]).name


def _from_file(path: Path) -> list[Server]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"cannot read {str(path)!r}: {error.strerror}") from error
    except ValueError as error:
        raise InputError(f"{path} is not JSON: {error}") from error
    if not isinstance(content, Mapping) or not isinstance(content.get("mcpServers"), Mapping):
        raise InputError(f"{path} has no object 'mcpServers'")
    return _from_mapping(content)


def _from_mapping(content: Mapping[str, Any]) -> list[Server]:
    """Servers from ``{"mcpServers": {name: entry}}`` or from one bare entry."""
    entries = content.get("mcpServers")
    if entries is None:
        return [_from_entry("", content)]
    return [_from_entry(str(name), entry) for name, entry in entries.items()]


def _from_entry(name: str, entry: Any) -> Server:
    where = f"MCP server {name!r}" if name else "MCP server"
    if not isinstance(entry, Mapping):
        raise InputError(f"{where} must be an object with command or url, got {entry!r}")
    valid = _JSON_KEYS | _OUR_KEYS
    unknown = sorted(set(entry) - valid)
    if unknown:
        raise InputError(f"{where} has the unknown key {unknown[0]!r}; valid ones: {', '.join(sorted(valid))}")
    name = str(entry.get("name") or name)
    more = {key: entry[key] for key in ("bearer", "concurrency", "calls_per_second") if key in entry}
    if "oauth" in entry:
        more["oauth"] = _oauth(where, entry["oauth"])
    kind = entry.get("type", entry.get("transport"))
    if kind is not None and kind not in _JSON_KINDS:
        raise InputError(f"{where}: type {kind!r} is not one of {', '.join(_JSON_KINDS)}")
    if "url" in entry:
        headers = {str(key): str(value) for key, value in (entry.get("headers") or {}).items()}
        return _from_url(str(entry["url"]), _JSON_KINDS[kind] if kind else None, name, headers=headers, **more)
    env = {str(key): str(value) for key, value in (entry.get("env") or {}).items()}
    words = [str(entry.get("command") or ""), *map(str, entry.get("args") or ())]
    return _from_command([word for word in words if word], name, env=env, cwd=entry.get("cwd"), **more)


def _oauth(where: str, given: Any) -> OAuth:
    try:
        return OAuth(**given)
    except TypeError as error:
        raise InputError(f"{where}: oauth needs client_id, client_secret and issuer, got {given!r}") from error


def _named_apart(servers: list[Server]) -> list[Server]:
    """Number servers whose derived names are equal, in the order given."""
    counts = Counter(server.name for server in servers)
    seen: Counter[str] = Counter()
    result = []
    for server in servers:
        seen[server.name] += 1
        again = counts[server.name] > 1
        result.append(replace(server, name=f"{server.name}-{seen[server.name]}") if again else server)
    return result
