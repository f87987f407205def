"""Threads that are started raw: without the context of whoever starts them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any


def in_a_thread(work: Callable[[], Any]) -> None:
    started = threading.Thread(target=work)
    started.start()
    started.join()


def in_a_pool(work: Callable[[], Any]) -> None:
    with ThreadPoolExecutor(1) as workers:
        workers.submit(work).result()
