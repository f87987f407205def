"""Which precision and how many threads this machine should use, measured, not guessed.

Some processors multiply bfloat16 at several times the speed of float32, others emulate it at a tenth: only a
measurement tells.
"""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch

from art_core.errors import InputError

from .compute import COMPUTE
from .config import Precision

__all__ = ["PRECISIONS", "Probe", "choose_precision", "gpu_name", "probe"]

PRECISIONS: Mapping[Precision, torch.dtype] = {"float32": torch.float32, "bfloat16": torch.bfloat16}
_WORTH_IT = 1.5  # bfloat16 costs exactness; it has to be clearly faster to be chosen


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """What two matmuls told."""

    device: str
    threads: int
    float32_gflops: float
    bfloat16_gflops: float

    @property
    def precision(self) -> Precision:
        """The precision worth using: ``float32`` or ``bfloat16``."""
        return "bfloat16" if self.bfloat16_gflops >= _WORTH_IT * self.float32_gflops else "float32"

    def to_dict(self) -> dict[str, Any]:
        """The figures and the choice."""
        return {**asdict(self), "precision": self.precision}


@functools.cache
def probe(size: int = 768, seconds: float = 0.15) -> Probe:
    """Time a square matmul of ``size`` in each precision for about ``seconds`` each, once per process; the best run counts."""
    return COMPUTE.run(_measure, size, seconds)


def _measure(size: int, seconds: float) -> Probe:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if "OMP_NUM_THREADS" not in os.environ and device == "cpu":
        torch.set_num_threads(_usable_cores())
    figures = {name: round(_gflops(size, dtype, device, seconds), 1) for name, dtype in PRECISIONS.items()}
    return Probe(
        device=device,
        threads=torch.get_num_threads(),
        float32_gflops=figures["float32"],
        bfloat16_gflops=figures["bfloat16"],
    )


def choose_precision(wish: str) -> Precision:
    """``auto`` (the probe decides), ``float32`` or ``bfloat16``, as one of the last two.

    Raises:
        InputError: any other word.
    """
    for name in PRECISIONS:
        if name == (probe().precision if wish == "auto" else wish):
            return name
    raise InputError(f"precision {wish!r} is not one of auto, {', '.join(PRECISIONS)}")


def gpu_name() -> str | None:
    """What torch calls the GPU it would use; None without one."""
    return str(torch.cuda.get_device_name()) if torch.cuda.is_available() else None


def _usable_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _gflops(size: int, dtype: torch.dtype, device: str, seconds: float) -> float:
    """The best rate of several runs: whatever else the machine does can only slow a run down."""
    left = torch.randn(size, size, device=device).to(dtype)
    _run(left)
    best, start = float("inf"), time.perf_counter()
    while time.perf_counter() - start < seconds:
        begin = time.perf_counter()
        _run(left)
        best = min(best, time.perf_counter() - begin)
    return 2 * size**3 / best / 1e9


def _run(left: torch.Tensor) -> None:
    _ = left @ left
    if left.is_cuda:
        torch.cuda.synchronize()
