"""What a run is to do, new or resumed: everything given, checked as far as no model is needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from art_core.errors import InputError
from art_core.scenario import Scenario, Scenarios, load_scenarios

from .backend import Backend
from .config import TrainConfig
from .curriculum import Curriculum
from .deterministic import check_same_machine
from .environment import fingerprint
from .figures import Metric
from .rundir import RunDir, new_path
from .splits import Schedule, Splits, make_splits
from .start import StartAdapter, begin

__all__ = ["Plan", "new_plan", "resumed_plan"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a run is to do, checked as far as no model is needed."""

    record: dict[str, Any]
    """What run.toml holds, or is to hold."""
    settings: TrainConfig
    splits: Splits
    directory: RunDir | None = None
    """Of the run that goes on; None for a new one."""
    start: StartAdapter | None = None
    """What a new run begins from."""

    def place(self) -> RunDir:
        """The directory of the run: that of the one that goes on, or a new one with its scenarios and its first adapter.

        Raises:
            InputError: it cannot be made.
        """
        return self.directory or _create(self)


def new_plan(
    scenarios: Scenarios | None,
    validation: Scenarios | None,
    test: Scenarios | None,
    base_model: str | None,
    backend: Backend | None,
    config: TrainConfig,
    origin: Mapping[str, Any],
) -> Plan:
    """
    Raises:
        InputError: something is missing or cannot be used.
    """
    model = _model(base_model, backend)
    settings, start = begin(config, model)
    splits = _splits(scenarios, validation, test, settings)
    record = {"base_model": model, **origin, "config": settings.to_dict(), "environment": fingerprint()}
    return _checked(Plan(record=record, settings=settings, splits=splits, start=start))


def resumed_plan(
    path: Path,
    scenarios: Scenarios | None,
    base_model: str | None,
    config: TrainConfig | None,
    *,
    measured_on: Mapping[str, Scenarios | None],
) -> Plan:
    """
    Raises:
        InputError: ``path`` is no run of training, or something was given that the run does not have.
    """
    directory = RunDir.open(path)
    record = directory.read_training_record()
    for name, given in measured_on.items():
        if given is not None:
            raise InputError(f"{name}= has no effect with resume=: the run keeps the scenarios it began with")
    settings = _resumed_config(record, config)
    splits = _resumed_splits(directory, scenarios)
    _check_model(record, base_model)
    if settings.deterministic:
        check_same_machine(record.get("environment", {}), fingerprint())
    return _checked(Plan(record=record, settings=settings, splits=splits, directory=directory))


def _checked(plan: Plan) -> Plan:
    _check_schedule(plan.settings, plan.splits)
    _check_validation(plan.settings, plan.splits)
    return plan


def _create(plan: Plan) -> RunDir:
    start, config = plan.start, plan.settings
    if start is not None:
        plan.record["start"] = start.to_record()

    def fill(directory: RunDir) -> None:
        plan.splits.write(directory.scenarios)
        if start is not None:
            start.copy(directory.start)

    return RunDir.create(new_path(config.out, config.name, str(plan.record["base_model"])), plan.record, fill)


def _splits(
    scenarios: Scenarios | None, validation: Scenarios | None, test: Scenarios | None, config: TrainConfig
) -> Splits:
    if scenarios is None:
        raise InputError("scenarios are needed: a JSONL file, a list, or a function that returns them")
    return make_splits(
        load_scenarios(scenarios),
        validation=_held_out(validation, config.evaluation.validation),
        test=_held_out(test, config.evaluation.test),
        seed=config.seed,
    )


def _held_out(given: Scenarios | None, count: int) -> Sequence[Scenario] | int:
    """What was given, or how many to hold out where nothing was; an empty list is a wish for none."""
    if given is None:
        return count
    empty = isinstance(given, Sequence) and not isinstance(given, str) and not given
    return () if empty else load_scenarios(given)


def _model(base_model: str | None, backend: Backend | None) -> str:
    if base_model is None and backend is not None:
        return str(backend.describe()["base_model"])
    if not base_model:
        raise InputError("base_model is needed, for example 'smollm2-135m'; see: art models")
    return base_model


def _check_model(record: Mapping[str, Any], base_model: str | None) -> None:
    stored = record.get("base_model")
    if base_model not in (None, stored):
        raise InputError(f"the run trains {stored!r}; it cannot go on with {base_model!r}")


def _resumed_config(record: Mapping[str, Any], config: TrainConfig | None) -> TrainConfig:
    stored = TrainConfig.build(record.get("config") or {})
    return stored if config is None else stored.resumed(config)


def _resumed_splits(directory: RunDir, scenarios: Scenarios | None) -> Splits:
    splits = Splits.read(directory.scenarios)
    if scenarios is not None:
        known = {scenario.id: scenario for part in (splits.train, splits.validation, splits.test) for scenario in part}
        for scenario in load_scenarios(scenarios):
            if known.get(scenario.id) != scenario:
                raise InputError(
                    f"scenario {scenario.id!r} is not among those run {str(directory.path)!r} began with; "
                    "a resumed run keeps its scenarios"
                )
    return splits


def _check_schedule(config: TrainConfig, splits: Splits) -> None:
    """
    Raises:
        InputError: too few training scenarios for a step, or for choosing among them.
    """
    kinds = [Schedule] if config.rollout.curriculum == "none" else [Schedule, Curriculum]
    for kind in kinds:
        kind(splits.train, config.rollout.scenarios_per_step, seed=config.seed)


def _check_validation(config: TrainConfig, splits: Splits) -> None:
    """
    Raises:
        InputError: there are no validation scenarios, and something that was asked for is measured on them.
    """
    metric = config.best_metric
    uses = {
        "target": config.target is not None,
        "patience": config.patience is not None,
        "best_metric": metric is not None and Metric.parse(metric).source == "validation",
    }
    asked = next((name for name, used in uses.items() if used), None)
    if asked is not None and not splits.validation:
        raise InputError(f"{asked} = {getattr(config, asked)!r} needs validation scenarios, and there are none")
