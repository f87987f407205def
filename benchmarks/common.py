"""What every benchmark's JSON says besides its figures."""

from __future__ import annotations

import json
import os
import platform
import statistics
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any

from art_core.models.config import Precision
from art_core.models.probe import probe

__all__ = ["machine", "matmul_peak_gflops", "print_json", "spread"]

_SIZES = (768, 1536, 3072)


def machine() -> dict[str, Any]:
    """The processor's measured matmul rates and the versions that matter."""
    return {
        "processor": platform.processor() or platform.machine(),
        "cpus": os.cpu_count(),
        **probe(size=_SIZES[0], seconds=1.0).to_dict(),
        "python": platform.python_version(),
        **{name: version(name) for name in ("torch", "transformers", "peft")},
    }


def matmul_peak_gflops(precision: Precision) -> float:
    """The best rate of square matmuls of several sizes: what arithmetic on this machine is measured against."""
    rates = [probe(size=size, seconds=1.0).to_dict()[f"{precision}_gflops"] for size in _SIZES]
    return float(max(rates))


def spread(values: Sequence[float]) -> dict[str, Any]:
    """Median, smallest and largest of repeated measurements."""
    return {"median": round(statistics.median(values), 3), "min": round(min(values), 3), "max": round(max(values), 3)}


def print_json(figures: Mapping[str, Any]) -> None:
    """One object on standard output."""
    print(json.dumps(figures, indent=2))
