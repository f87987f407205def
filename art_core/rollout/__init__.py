"""Rolling out: one scenario, one agent, one policy, one trajectory.

``art_core.rollout`` names both this package and the function that does it, so the package can be called as the
function: ``await art_core.rollout(agent, scenario, policy)``.
"""

import sys
from types import ModuleType
from typing import Any


class _CallablePackage(ModuleType):
    async def __call__(self, *args: Any, **kwargs: Any) -> Any:
        from .runner import rollout  # here, because the runner imports this package

        return await rollout(*args, **kwargs)


sys.modules[__name__].__class__ = _CallablePackage
