"""``art models``: list the models known by a short name, and fetch one."""

from __future__ import annotations

import json
import sys
from typing import Annotated

from cyclopts import App, Parameter

from art_core.models import registry

__all__ = ["app"]

app = App(name="models", help="List and fetch the models known by a short name.")


@app.command(name="list")
def list_models(*, json_output: Annotated[bool, Parameter(name="--json", negative="")] = False) -> None:
    """List the models known by a short name, and where those that were fetched are.

    ```console
    $ art models list --json
    ```

    Parameters
    ----------
    json_output
        Print one JSON array.
    """
    rows = [
        {"name": known.name, "about": known.about, "path": str(known.path) if known.is_ready() else None}
        for known in registry.known_models()
    ]
    if json_output:
        print(json.dumps(rows))
        return
    for row in rows:
        print(f"{row['name']}  {row['about']}")
        print(f"    {row['path'] or 'not fetched: art models get ' + str(row['name'])}")


@app.command(name="get")
def get_model(name: str, /) -> None:
    """Fetch a model's weights once and keep them, ready to train, in the cache (`ART_CACHE`).

    ```console
    $ art models get smollm2-135m
    ```

    Parameters
    ----------
    name
        A name that `art models list` shows.
    """
    known = registry.find(name)
    path = registry.fetch(known, say=lambda line: print(line, file=sys.stderr, flush=True))
    print(path)
