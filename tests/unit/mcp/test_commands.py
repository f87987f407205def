import json
import sys
from pathlib import Path

import pytest

from art_core.errors import InputError
from art_integrations.mcp import OAuth, Server
from art_integrations.mcp.commands import expand, parse_servers


def one(servers):
    (server,) = parse_servers(servers)
    return server


def test_python_is_the_running_interpreter():
    server = one("python -m mcp_server_time --local-timezone 'Europe/Berlin'")
    assert server.command == (sys.executable, "-m", "mcp_server_time", "--local-timezone", "Europe/Berlin")
    assert server.name == "mcp_server_time"


def test_a_script_beside_the_interpreter_is_found(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    assert one("mcp-server-time").command == (str(Path(sys.executable).parent / "mcp-server-time"),)


@pytest.mark.parametrize(
    ("command", "name"),
    [("npx -y @scope/server-memory", "server-memory"), ("/opt/x/run.sh a", "run.sh"), ("node dist/index.js", "index")],
)
def test_names_come_from_the_command(command, name):
    assert one(command).name == name


@pytest.mark.parametrize(
    ("url", "transport"), [("http://h:1/mcp", "http"), ("https://h/sse", "sse"), ("http://h/sse/", "sse")]
)
def test_urls_are_streamable_http_unless_they_end_in_sse(url, transport):
    assert one(url).transport == transport
    assert one(url).name == "h"


def test_several_servers_of_one_kind_get_numbers():
    names = [server.name for server in parse_servers(["python -m a", "python -m a", "python -m b"])]
    assert names == ["a-1", "a-2", "b"]


def test_a_list_of_words_is_one_command():
    assert one([["prog", "with space"]]).command == ("prog", "with space")


def test_mcp_json_is_read(tmp_path):
    entries = {
        "files": {"command": "prog", "args": ["{workdir}"], "env": {"KEY": "${SECRET}"}, "cwd": "/tmp"},
        "web": {"url": "http://h/x", "type": "sse", "headers": {"Authorization": "Bearer ${T}"}},
    }
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps({"mcpServers": entries}))
    files, web = parse_servers(str(path))
    assert (files.name, files.command, files.cwd, files.uses_workdir) == ("files", ("prog", "{workdir}"), "/tmp", True)
    assert (web.name, web.url, web.transport) == ("web", "http://h/x", "sse")


def test_no_secret_is_printed():
    server = Server(name="s", url="http://h", transport="http", headers={"X-Key": "hunter2"})
    assert "hunter2" not in repr(server)
    assert "hunter2" not in repr(Server(name="s", command=("c",), env={"KEY": "hunter2"}))


def test_environment_variables_are_filled_in(monkeypatch):
    monkeypatch.setenv("TOKEN", "abc")
    assert expand("Bearer ${TOKEN}", what="it") == "Bearer abc"


def test_a_missing_environment_variable_is_named(monkeypatch):
    monkeypatch.delenv("TOKEN", raising=False)
    with pytest.raises(InputError, match="header needs the environment variable 'TOKEN', which is not set"):
        expand("Bearer ${TOKEN}", what="header")


@pytest.mark.parametrize(
    ("server", "message"),
    [
        ("", "command is empty"),
        ("prog 'open", "cannot be split"),
        ([], "no MCP server given"),
        (7, "is a command, a URL"),
        ({"command": "x", "port": 1}, "unknown key 'port'; valid ones: args, "),
        ({"url": "http://h", "type": "carrier-pigeon"}, "'carrier-pigeon' is not one of stdio"),
        ({"mcpServers": {"a": 3}}, "'a' must be an object"),
        ("/nowhere/mcp.json", "cannot read"),
    ],
)
def test_what_cannot_be_read_is_named(server, message):
    with pytest.raises(InputError, match=message):
        parse_servers(server)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "a command or a url"),
        ({"command": ("a",), "url": "http://h", "transport": "http"}, "one of the two"),
        ({"url": "ftp://h", "transport": "http"}, "needs http"),
        ({"url": "http://h"}, "transport 'http' or 'sse'"),
        ({"command": ("a",), "bearer": "T"}, "need a url"),
        (
            {"url": "http://h", "transport": "http", "headers": {"authorization": "Bearer abc"}},
            "name an environment variable",
        ),
        ({"command": ("a",), "concurrency": 0}, "at least 1, got 0"),
        ({"command": ("a",), "calls_per_second": 0.0}, "above 0"),
        (
            {
                "url": "http://h",
                "transport": "http",
                "bearer": "T",
                "oauth": OAuth(client_id="A", client_secret="B", issuer="http://i"),
            },
            "both bearer and oauth",
        ),
    ],
)
def test_contradictions_are_refused(fields, message):
    with pytest.raises(InputError, match=message):
        Server(name="s", **fields)


@pytest.mark.parametrize(
    "server",
    [
        Server(name="a", command=("prog", "{workdir}"), env={"LEVEL": "1", "API_KEY": "${MY_KEY}"}, cwd="/srv"),
        Server(
            name="b", url="https://h/mcp", transport="http", headers={"X-Team": "red"}, bearer="TOKEN", concurrency=2
        ),
        Server(
            name="c",
            url="https://h/sse",
            transport="sse",
            calls_per_second=1.5,
            oauth=OAuth(client_id="ID", client_secret="SECRET", issuer="https://issuer"),
        ),
    ],
    ids=lambda server: server.name,
)
def test_an_entry_reads_back_as_the_same_server(server):
    assert parse_servers([server.to_entry()]) == [server]


def test_an_entry_keeps_python_portable():
    assert parse_servers("python -m x")[0].to_entry() == {"name": "x", "command": "python", "args": ["-m", "x"]}


@pytest.mark.parametrize("given", [{"env": {"API_KEY": "abc"}}, {"env": {"MY_PASSWORD": "abc"}}])
def test_a_secret_written_out_does_not_become_an_entry(given):
    with pytest.raises(InputError, match=r"looks like a secret .* write \w+=\$\{ITS_NAME\}"):
        Server(name="a", command=("prog",), **given).to_entry()
