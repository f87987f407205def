"""An MCP server over stdio in the standard library alone: starts in milliseconds and misbehaves on request.

Speaks protocol 2025-11-25. Options: ``--page N`` tools per page, ``--many N`` extra tools, ``--say TEXT`` on stderr,
``--die CODE`` at once, ``--deaf`` (never answers, ignores TERM), ``--child`` (starts a grandchild that ignores TERM, in a
session of its own), ``--pids FILE`` (append own and grandchild's process ids), ``--log FILE`` (append every job done).
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

STRING = {"type": "string"}
NUMBER = {"type": "number"}


def schema(**properties):
    return {"$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "properties": properties}


REF_SCHEMA = {
    "type": "object",
    "$defs": {"Point": {"type": "object", "properties": {"x": NUMBER, "y": NUMBER}, "required": ["x"]}},
    "properties": {"at": {"$ref": "#/$defs/Point"}, "or": {"anyOf": [STRING, {"$ref": "#/$defs/Point"}]}},
}
TREE_SCHEMA = {
    "type": "object",
    "$defs": {"Node": {"type": "object", "properties": {"children": {"items": {"$ref": "#/$defs/Node"}}}}},
    "properties": {"tree": {"$ref": "#/$defs/Node"}},
}
VALUE_OUTPUT = {"type": "object", "properties": {"value": {"type": "integer"}}, "required": ["value"]}


def tool(name, description="", input_schema=None, **more):
    entry = {"name": name, "inputSchema": input_schema or schema(), **more}
    return {**entry, "description": description} if description else entry


TOOLS = [
    tool("add", "Add to the counter", schema(by=NUMBER)),
    tool("get", "Read the counter", annotations={"readOnlyHint": True}),
    tool("a.b/c", "A name with dots and slashes"),
    tool("x" * 80, "A long name"),
    tool("with space", "A name with a space"),
    tool("ünï", "A name beyond ASCII"),
    tool("no_description"),
    tool("bare", "No properties", {"type": "object"}),
    tool("refs", "References", REF_SCHEMA),
    tool("tree", "A recursive schema", TREE_SCHEMA),
    tool("sleep", "Sleep", schema(seconds=NUMBER)),
    tool("read_slowly", "Sleep, read-only", schema(seconds=NUMBER), annotations={"readOnlyHint": True}),
    tool("progress", "Report progress while working", schema(steps=NUMBER, each=NUMBER)),
    tool("exit", "End the process", schema(code=NUMBER)),
    tool("job_then_exit", "Do the job, then end the process"),
    tool("read_then_exit", "The same, but says it is read-only", annotations={"readOnlyHint": True}),
    tool("fail", "Always fails"),
    tool("fail_structured", "Fails with a structured value"),
    tool("refuse", "Answers with a protocol error"),
    tool("size", "N characters", schema(n=NUMBER)),
    tool("mixed", "Text, image, audio, link and embedded resources"),
    tool("empty", "No content at all"),
    tool("structured", "Only structured content", outputSchema=VALUE_OUTPUT),
    tool("bad_structured", "Contradicts its output schema", outputSchema=VALUE_OUTPUT),
    tool("elicit", "Asks the user"),
    tool("sample", "Asks the model"),
    tool("grow", "Adds a tool to the list"),
    tool("env", "Read an environment variable", schema(name=STRING)),
    tool("write", "Write a file in the working directory", schema(name=STRING, text=STRING)),
    tool("destroy", "Destroys", annotations={"destructiveHint": True}),
    tool("destroy_read", "Says both", annotations={"destructiveHint": True, "readOnlyHint": True}),
    tool("browse", "Open world", annotations={"openWorldHint": True, "readOnlyHint": True}),
]


class Server:
    def __init__(self, options):
        self.options = options
        self.tools = TOOLS + [tool(f"extra_{number:03d}", "One of many") for number in range(options.many)]
        self.counter = 0
        self.lock = threading.Lock()
        self.answers = {}
        self.asked = 0

    def send(self, message):
        with self.lock:
            sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
            sys.stdout.flush()

    def ask(self, method, params):
        with self.lock:
            self.asked += 1
            key = f"ask-{self.asked}"
        event = threading.Event()
        self.answers[key] = [event, None]
        self.send({"id": key, "method": method, "params": params})
        event.wait(10)
        return self.answers[key][1]

    def done(self, what):
        if self.options.log:
            with open(self.options.log, "a", encoding="utf-8") as file:
                file.write(what + "\n")

    def page(self, items, key, params):
        start = int(params.get("cursor") or 0)
        end = start + self.options.page
        more = {"nextCursor": str(end)} if end < len(items) else {}
        return {key: items[start:end], **more}

    def answer(self, method, params):
        if method == "initialize":
            info = {"name": "rich", "version": "1"}
            capabilities = {"tools": {"listChanged": True}, "resources": {}, "prompts": {}}
            return {"protocolVersion": "2025-06-18", "capabilities": capabilities, "serverInfo": info}
        if method == "tools/list":
            return self.page(self.tools, "tools", params)
        if method == "prompts/list":
            arguments = [{"name": "month", "required": True}]
            return {"prompts": [{"name": "review", "description": "Look back on a month", "arguments": arguments}]}
        if method == "resources/list":
            items = [{"uri": "note:///one", "name": "one", "description": "The first note"}]
            return {"resources": [*items, {"uri": "note:///logo", "name": "logo", "mimeType": "image/png"}]}
        if method == "resources/templates/list":
            return {"resourceTemplates": [{"uriTemplate": "note:///{day}", "name": "day"}]}
        if method == "resources/read":
            uri = params["uri"]
            if uri.endswith("logo"):
                return {"contents": [{"uri": uri, "mimeType": "image/png", "blob": "AAAA"}]}
            return {"contents": [{"uri": uri, "text": f"content of {uri}"}]}
        if method == "ping":
            return {}
        raise KeyError(f"Method not found: {method}")

    def call(self, name, given, token):
        act = getattr(self, "tool_" + name.replace("-", "_"), None)
        if act is None:
            if not any(entry["name"] == name for entry in self.tools):
                raise KeyError(f"Unknown tool: {name}")
            return text(f"called {name} with {json.dumps(given, sort_keys=True)}")
        return act(given, token) if name == "progress" else act(given)

    def tool_add(self, given):
        self.counter += given.get("by", 1)
        self.done("add")
        return text(str(self.counter))

    def tool_get(self, given):
        return text(str(self.counter))

    def tool_sleep(self, given):
        time.sleep(given.get("seconds", 1))
        return text("slept")

    tool_read_slowly = tool_sleep

    def tool_progress(self, given, token):
        for step in range(int(given["steps"])):
            time.sleep(given["each"])
            params = {"progressToken": token, "progress": step + 1, "total": given["steps"]}
            self.send({"method": "notifications/progress", "params": params})
        return text("worked")

    def tool_exit(self, given):
        sys.stderr.write("going down\n")
        sys.stderr.flush()
        os._exit(int(given.get("code", 3)))

    def tool_job_then_exit(self, given):
        self.done("job")
        os._exit(4)

    tool_read_then_exit = tool_job_then_exit

    def tool_fail(self, given):
        return {"content": [{"type": "text", "text": "it did not work"}], "isError": True}

    def tool_fail_structured(self, given):
        return {"content": [{"type": "text", "text": "no"}], "isError": True, "structuredContent": {"why": 7}}

    def tool_refuse(self, given):
        raise KeyError("refused by the server")

    def tool_size(self, given):
        return text("z" * int(given["n"]))

    def tool_mixed(self, given):
        embedded = {"uri": "note:///e", "text": "embedded text"}
        return {
            "content": [
                {"type": "text", "text": "first"},
                {"type": "image", "data": "AAAA", "mimeType": "image/png"},
                {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"},
                {"type": "resource_link", "uri": "note:///one", "name": "one"},
                {"type": "resource", "resource": embedded},
                {"type": "resource", "resource": {"uri": "note:///b", "blob": "AAAA", "mimeType": "image/png"}},
            ]
        }

    def tool_empty(self, given):
        return {"content": []}

    def tool_structured(self, given):
        return {"content": [], "structuredContent": {"value": 42}}

    def tool_bad_structured(self, given):
        return {"content": [{"type": "text", "text": "text"}], "structuredContent": {"value": "not a number"}}

    def tool_elicit(self, given):
        form = {"type": "object", "properties": {"ok": {"type": "boolean"}}}
        return text(json.dumps(self.ask("elicitation/create", {"message": "Sure?", "requestedSchema": form})))

    def tool_sample(self, given):
        messages = [{"role": "user", "content": {"type": "text", "text": "say hi"}}]
        return text(json.dumps(self.ask("sampling/createMessage", {"messages": messages, "maxTokens": 5})))

    def tool_grow(self, given):
        self.tools = [*self.tools, tool("grown", "New")]
        self.send({"method": "notifications/tools/list_changed"})
        return text("grown")

    def tool_env(self, given):
        return text(os.environ.get(given["name"], "(unset)"))

    def tool_write(self, given):
        Path(given["name"]).write_text(given["text"], encoding="utf-8")
        return text("written")

    def handle(self, message):
        params = message.get("params") or {}
        try:
            if message["method"] == "tools/call":
                token = (params.get("_meta") or {}).get("progressToken")
                result = self.call(params["name"], params.get("arguments") or {}, token)
            else:
                result = self.answer(message["method"], params)
        except Exception as error:
            self.send({"id": message["id"], "error": {"code": -32602, "message": str(error.args[0])}})
        else:
            self.send({"id": message["id"], "result": result})

    def serve(self):
        for line in sys.stdin:
            message = json.loads(line)
            if "method" not in message:
                slot = self.answers[message["id"]]
                slot[1] = message.get("result", message.get("error"))
                slot[0].set()
            elif "id" in message:
                threading.Thread(target=self.handle, args=(message,), daemon=True).start()


def text(value):
    return {"content": [{"type": "text", "text": value}]}


def grandchild():
    code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
    return subprocess.Popen([sys.executable, "-I", "-S", "-c", code], start_new_session=True).pid


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--page", type=int, default=1000)
    parser.add_argument("--many", type=int, default=0)
    parser.add_argument("--say", default="")
    parser.add_argument("--die", type=int)
    parser.add_argument("--deaf", action="store_true")
    parser.add_argument("--child", action="store_true")
    parser.add_argument("--pids", default="")
    parser.add_argument("--log", default="")
    parser.add_argument("rest", nargs="*")
    options = parser.parse_args()
    if options.say:
        sys.stderr.write(options.say + "\n")
        sys.stderr.flush()
    pids = [os.getpid(), *([grandchild()] if options.child else [])]
    if options.pids:
        with open(options.pids, "a", encoding="utf-8") as file:
            file.write("".join(f"{pid}\n" for pid in pids))
    if options.die is not None:
        sys.exit(options.die)
    if options.deaf:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(600)
    Server(options).serve()
    os._exit(0)


if __name__ == "__main__":
    main()
