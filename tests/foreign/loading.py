"""The graphs in ``graphs/``, as an application would load them."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

GRAPHS = Path(__file__).parent / "graphs"
NAMES = sorted(path.stem for path in GRAPHS.glob("*.py") if path.stem != "__init__")
NOWHERE = "http://127.0.0.1:9"
"""A service that refuses every connection."""
ENVIRONMENT = {
    "OPENAI_API_KEY": "none",
    "OPENAI_BASE_URL": f"{NOWHERE}/v1",
    "ANTHROPIC_API_KEY": "none",
    "ANTHROPIC_BASE_URL": NOWHERE,
    "GOOGLE_API_KEY": "none",
    "GOOGLE_GEMINI_BASE_URL": NOWHERE,
}
"""Where their models would be, had nobody captured the calls."""


def load(name: str) -> ModuleType:
    """The module, made anew."""
    spec = importlib.util.spec_from_file_location(f"foreign_{name}", GRAPHS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
