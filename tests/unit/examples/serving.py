"""An example with the stand-in for its hosted model, which listens on loopback."""

from __future__ import annotations

import contextlib
import importlib
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest
import uvicorn

EXAMPLES = Path(__file__).parents[3] / "examples"


@contextlib.contextmanager
def serving(name: str) -> Iterator[Callable[[str], ModuleType]]:
    """What imports a module of the example; its model is the stand-in. The next example's modules may have the same names."""
    here = EXAMPLES / name
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(EXAMPLES))
        patch.syspath_prepend(str(here))
        app = importlib.import_module("stand_in").service(importlib.import_module("rules").reply)
        server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error"))
        thread = threading.Thread(target=server.run)
        thread.start()
        while not server.started:
            time.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        patch.setenv("OPENAI_BASE_URL", f"http://127.0.0.1:{port}/v1")
        try:
            yield importlib.import_module
        finally:
            server.should_exit = True
            thread.join()
            for module, found in list(sys.modules.items()):
                if here in Path(getattr(found, "__file__", None) or "/").parents:
                    del sys.modules[module]
