"""Programs that call the ``openai`` SDK as agents: ``PythonAgent`` makes their chat completions turns of a rollout; nothing in
the program is edited.

Each name is imported when it is first used: the ``art`` program looks at this package's plugin on every command.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from art_core.lazy import lazy_names

if TYPE_CHECKING:
    from .agent import PythonAgent
    from .by_hand import capture
    from .hook import install, installed, uninstall

__all__ = ["capture", "install", "installed", "PythonAgent", "uninstall"]

_HOMES = {"PythonAgent": "agent", "capture": "by_hand", "install": "hook", "installed": "hook", "uninstall": "hook"}
__getattr__ = lazy_names(__name__, _HOMES)
