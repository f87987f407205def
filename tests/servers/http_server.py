"""A counter as an MCP server over streamable HTTP (``/mcp``) or SSE (``/sse``), on the installed SDK of either generation.

``python http_server.py http|sse PORT``. ``MCP_TOKEN`` in the environment asks for that bearer token; ``MCP_BUSY=N`` answers
the first N calls of a tool with 429. ``GET /seen`` gives the headers of the last MCP request; ``/token`` and its
metadata are a small OAuth authorization server for client credentials ``id``/``secret``.
"""

import base64
import os
import sys
from urllib.parse import parse_qs

import uvicorn
from starlette.responses import JSONResponse

try:
    from mcp.server.mcpserver import MCPServer as HighLevel
except ImportError:
    from mcp.server.fastmcp import FastMCP as HighLevel

state = {"counter": 0, "busy": int(os.environ.get("MCP_BUSY", "0")), "headers": {}, "tokens": 0}
server = HighLevel("counter")


@server.tool()
def add(by: int = 1) -> str:
    """Add to the counter."""
    state["counter"] += by
    return str(state["counter"])


@server.tool()
def get() -> str:
    """Read the counter."""
    return str(state["counter"])


@server.tool()
async def sleep(seconds: float) -> str:
    """Sleep."""
    import anyio

    await anyio.sleep(seconds)
    return "slept"


@server.tool()
def die() -> str:
    """End the process."""
    os._exit(5)


class Front:
    """Looks at every request before the MCP application does."""

    def __init__(self, app, port, path):
        self.app = app
        self.path = path
        self.base = f"http://127.0.0.1:{port}"

    async def __call__(self, scope, receive, send):
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        headers = {key.decode(): value.decode() for key, value in scope["headers"]}
        body, messages = b"", []
        if scope["method"] == "POST":
            more = True
            while more:
                message = await receive()
                messages.append(message)
                body += message.get("body", b"")
                more = message.get("more_body", False)

        async def replay():
            return messages.pop(0) if messages else await receive()

        reply = self.own(scope["path"], headers, body)
        return await (reply or self.app)(scope, replay, send)

    def own(self, path, headers, body):
        if path == "/seen":
            return JSONResponse({"headers": state["headers"], "tokens": state["tokens"], "counter": state["counter"]})
        if path.startswith("/.well-known/oauth-protected-resource"):
            return JSONResponse({"resource": self.base + self.path, "authorization_servers": [self.base]})
        if path.startswith(("/.well-known/oauth-authorization-server", "/.well-known/openid-configuration")):
            methods = ["client_secret_basic", "client_secret_post"]
            ends = {"authorization_endpoint": self.base + "/authorize", "token_endpoint": self.base + "/token"}
            more = {"response_types_supported": ["code"], "token_endpoint_auth_methods_supported": methods}
            return JSONResponse({"issuer": self.base, **ends, **more})
        if path == "/token":
            return self.token(headers, body)
        state["headers"] = headers
        wanted = os.environ.get("MCP_TOKEN")
        if wanted and headers.get("authorization") != f"Bearer {wanted}":
            hint = f'Bearer resource_metadata="{self.base}/.well-known/oauth-protected-resource"'
            return JSONResponse({"error": "unauthorized"}, 401, {"WWW-Authenticate": hint})
        if b'"tools/call"' in body and state["busy"] > 0:
            state["busy"] -= 1
            return JSONResponse({"error": "busy"}, 429, {"Retry-After": "0.05"})
        return None

    def token(self, headers, body):
        form = {key: values[0] for key, values in parse_qs(body.decode()).items()}
        basic = headers.get("authorization", "").removeprefix("Basic ")
        sent = base64.b64decode(basic).decode() if basic else f"{form.get('client_id')}:{form.get('client_secret')}"
        if sent != "id:secret" or form.get("grant_type") != "client_credentials":
            return JSONResponse({"error": "invalid_client"}, 401)
        state["tokens"] += 1
        return JSONResponse({"access_token": os.environ["MCP_TOKEN"], "token_type": "Bearer", "expires_in": 3600})


def main():
    kind, port = sys.argv[1], int(sys.argv[2])
    app = server.sse_app() if kind == "sse" else server.streamable_http_app()
    uvicorn.run(
        Front(app, port, "/sse" if kind == "sse" else "/mcp"),
        host="127.0.0.1",
        port=port,
        log_level="warning",
        lifespan="on",
    )


if __name__ == "__main__":
    main()
