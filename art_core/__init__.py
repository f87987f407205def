"""Train the agent you already have: the public names, each imported when it is first used.

>>> import art_core as art
>>> art.Scenario("q1", "What time is it in Paris?").id
'q1'

Importing this package loads nothing heavy; torch comes with the first name that needs it.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .authoring.brief import Brief
    from .authoring.dry_run import DryRun
    from .authoring.make import make_scenarios
    from .authoring.task import TaskAgent
    from .errors import (
        AgentError,
        ArtError,
        BoundaryError,
        InputError,
        JudgeError,
        LimitReached,
        MissingExtra,
        NonFiniteError,
        NotTrainable,
        ProviderError,
        RewardError,
        ToolError,
        TrainerError,
    )
    from .inference.hosted import HostedPolicy
    from .inference.original import OriginalPolicy
    from .inference.protocol import Policy, SamplingParams
    from .inference.scripted import ScriptedPolicy
    from .judging.prompt import DEFAULT_RUBRIC
    from .judging.ruler import Ruler, ruler_score_group
    from .loop.config import TrainConfig
    from .loop.export import ExportResult, export
    from .loop.run import RunResult
    from .messages import Message, ToolCall, ToolSpec
    from .plugins import Integration, Verb
    from .rewards.combine import Combined
    from .rewards.protocol import GroupReward, RewardFunction
    from .rollout.capture import capture
    from .rollout.current import no_capture
    from .rollout.group import gather
    from .rollout.limits import Limits
    from .rollout.protocol import Agent
    from .rollout.runner import rollout
    from .rollout.session import Session
    from .scenario import Scenario, ScenarioSource, load_scenarios
    from .supervised.config import SftConfig
    from .supervised.run import SftResult, asft, sft
    from .supervised.train import atrain, train
    from .trajectory.graph import PolicyVersion, Turn
    from .trajectory.samples import TrainingSample
    from .trajectory.trajectory import ModelCall, Reward, ToolEvent, Trajectory, TrajectoryGroup

    __version__: str

__all__ = [
    "__version__",
    "Agent",
    "AgentError",
    "ArtError",
    "asft",
    "atrain",
    "BoundaryError",
    "Brief",
    "capture",
    "Combined",
    "DEFAULT_RUBRIC",
    "DryRun",
    "export",
    "ExportResult",
    "gather",
    "GroupReward",
    "HostedPolicy",
    "InputError",
    "Integration",
    "JudgeError",
    "LimitReached",
    "Limits",
    "load_scenarios",
    "make_scenarios",
    "Message",
    "MissingExtra",
    "ModelCall",
    "no_capture",
    "NonFiniteError",
    "NotTrainable",
    "OriginalPolicy",
    "Policy",
    "PolicyVersion",
    "ProviderError",
    "Reward",
    "RewardError",
    "RewardFunction",
    "rollout",
    "Ruler",
    "ruler_score_group",
    "RunResult",
    "SamplingParams",
    "Scenario",
    "ScenarioSource",
    "ScriptedPolicy",
    "Session",
    "sft",
    "SftConfig",
    "SftResult",
    "TaskAgent",
    "ToolCall",
    "ToolError",
    "ToolEvent",
    "ToolSpec",
    "train",
    "TrainConfig",
    "TrainerError",
    "TrainingSample",
    "Trajectory",
    "TrajectoryGroup",
    "Turn",
    "Verb",
]

_HOMES = {
    "Agent": "rollout.protocol",
    "AgentError": "errors",
    "ArtError": "errors",
    "asft": "supervised.run",
    "atrain": "supervised.train",
    "BoundaryError": "errors",
    "Brief": "authoring.brief",
    "capture": "rollout.capture",
    "Combined": "rewards.combine",
    "DEFAULT_RUBRIC": "judging.prompt",
    "DryRun": "authoring.dry_run",
    "export": "loop.export",
    "ExportResult": "loop.export",
    "gather": "rollout.group",
    "GroupReward": "rewards.protocol",
    "HostedPolicy": "inference.hosted",
    "InputError": "errors",
    "Integration": "plugins",
    "JudgeError": "errors",
    "LimitReached": "errors",
    "Limits": "rollout.limits",
    "load_scenarios": "scenario",
    "make_scenarios": "authoring.make",
    "Message": "messages",
    "MissingExtra": "errors",
    "ModelCall": "trajectory.trajectory",
    "no_capture": "rollout.current",
    "NonFiniteError": "errors",
    "NotTrainable": "errors",
    "OriginalPolicy": "inference.original",
    "Policy": "inference.protocol",
    "PolicyVersion": "trajectory.graph",
    "ProviderError": "errors",
    "Reward": "trajectory.trajectory",
    "RewardError": "errors",
    "RewardFunction": "rewards.protocol",
    "Ruler": "judging.ruler",
    "ruler_score_group": "judging.ruler",
    "RunResult": "loop.run",
    "SamplingParams": "inference.protocol",
    "Scenario": "scenario",
    "ScenarioSource": "scenario",
    "ScriptedPolicy": "inference.scripted",
    "Session": "rollout.session",
    "sft": "supervised.run",
    "SftConfig": "supervised.config",
    "SftResult": "supervised.run",
    "TaskAgent": "authoring.task",
    "ToolCall": "messages",
    "ToolError": "errors",
    "ToolEvent": "trajectory.trajectory",
    "ToolSpec": "messages",
    "train": "supervised.train",
    "TrainConfig": "loop.config",
    "TrainerError": "errors",
    "TrainingSample": "trajectory.samples",
    "Trajectory": "trajectory.trajectory",
    "TrajectoryGroup": "trajectory.trajectory",
    "Turn": "trajectory.graph",
    "Verb": "plugins",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return version("art-integrations")
    if name == "rollout":  # a package that can be called, so that importing its modules does not hide the function
        return import_module(".rollout", __name__)
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{_HOMES[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
