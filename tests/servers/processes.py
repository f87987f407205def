"""Test helpers: commands of the test servers, process ids, free ports."""

import os
import socket
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

HERE = Path(__file__).parent


def rich(*options):
    """The command of the rich stdio server with options."""
    return [sys.executable, "-I", "-S", str(HERE / "rich_server.py"), *map(str, options)]


def http_command(kind, port):
    """The command of the HTTP counter server; kind is ``http`` or ``sse``."""
    return [sys.executable, str(HERE / "http_server.py"), kind, str(port)]


def read_pids(path, count, seconds=20):
    """The process ids in a file once there are ``count`` of them."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        pids = [int(line) for line in path.read_text().split()] if path.exists() else []
        if len(pids) >= count:
            return pids
        time.sleep(0.02)
    raise AssertionError(f"{path} never held {count} process ids")


def running(pid):
    """Whether a process exists and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def left_over(pids, seconds=10):
    """Those of the processes that still run after a while."""
    deadline = time.monotonic() + seconds
    while any(map(running, pids)) and time.monotonic() < deadline:
        time.sleep(0.02)
    return [pid for pid in pids if running(pid)]


def children(pid):
    """The child processes of a process: process id -> state letter."""
    found = {}
    for entry in Path("/proc").iterdir():
        try:
            state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
        except OSError:
            continue
        if int(parent) == pid:
            found[int(entry.name)] = state
    return found


def zombies():
    """Our own children that ended and were never waited for."""
    return [pid for pid, state in children(os.getpid()).items() if state == "Z"]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_until_served(url, seconds=30):
    """Return once the URL answers anything over HTTP."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            urllib.request.urlopen(url, timeout=5).close()
            return
        except urllib.error.HTTPError:
            return
        except OSError:
            time.sleep(0.05)
    raise AssertionError(f"nothing answers at {url}")
