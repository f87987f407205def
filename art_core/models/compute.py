"""The one lock under which this process does heavy arithmetic: decode steps and training micro-batches take turns."""

from __future__ import annotations

import threading

__all__ = ["COMPUTE"]

COMPUTE = threading.RLock()
