"""The fingerprint of the machine and the packages a run was made with, for telling two runs apart later."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

__all__ = ["fingerprint"]

_PACKAGES = (
    "art-integrations",
    "torch",
    "transformers",
    "tokenizers",
    "peft",
    "numpy",
    "jinja2",
    "mcp",
    "langgraph",
    "langchain-core",
    "openai",
)


def fingerprint() -> dict[str, Any]:
    """Python, system, processor, usable cores and the versions of the packages that decide numbers."""
    found: dict[str, str] = {}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "cpu": _cpu(),
        "cores": cores,
        "packages": found,
    }


def _cpu() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return platform.processor()
    names = (line.partition(":")[2].strip() for line in text.splitlines() if line.startswith("model name"))
    return next(names, platform.processor())
