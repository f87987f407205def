"""``art export``: a run's adapter as files that other programs serve."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from art_core.loop.export import Dtype, Form
from art_core.loop.export import export as export_adapter

__all__ = ["app"]

_EXAMPLE = """
```console
$ art export runs/support --to support-merged --form merged --dtype bfloat16
```
"""

app = App(name="export", help="Write a run's adapter for serving.", help_epilogue=_EXAMPLE)


@app.default
def export(
    source: Path,
    /,
    *,
    to: Path,
    step: int | None = None,
    form: Form = "adapter",
    dtype: Dtype | None = None,
    model: str | None = None,
    converter: Path | None = None,
    json_output: Annotated[bool, Parameter(name="--json", negative="")] = False,
) -> None:
    """Write a run's adapter for serving, load it again and compare it with the adapter on its base.

    Parameters
    ----------
    source
        The directory of a run, of a checkpoint, or of any PEFT LoRA adapter.
    to
        A new directory. It appears whole or not at all.
    step
        The run's checkpoint of this step. Default: the one the run chose, or its newest.
    form
        `adapter` is what training made, exact and small; `merged` is the whole model; `gguf` is a file for llama.cpp.
    dtype
        Precision of the written weights; `q8_0` is for `gguf` only. Default: the adapter's own, or that of the base.
    model
        The base model, where the adapter does not name it or it is somewhere else now.
    converter
        llama.cpp's `convert_hf_to_gguf.py`, where it is not on the PATH.
    json_output
        Print one JSON object.
    """
    result = export_adapter(
        source,
        to,
        step=step,
        form=form,
        dtype=dtype,
        model=model,
        converter=converter,
        say=lambda line: print(line, file=sys.stderr, flush=True),
    )
    print(json.dumps(result.to_dict(), ensure_ascii=False) if json_output else result)
