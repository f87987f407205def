"""What is on this machine, row by row, each with a verdict and the cure: what ``art doctor`` shows.

Nothing here needs torch to be imported; a missing package is a row. Nothing is written but the answer.
"""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, metadata, requires, version
from pathlib import Path
from typing import Literal

from packaging.requirements import Requirement

from art_core.errors import MissingExtra, describe
from art_core.models import registry
from art_core.plugins import integrations

from .environment import fingerprint

__all__ = ["Finding", "examine", "extras"]

State = Literal["ok", "warning", "problem"]

PACKAGE = "art-integrations"
_NEEDED = "train"  # the extra without which nothing can be trained here
_NOT_FOR_USERS = {"dev"}
_MEMORY_GIB = (2.0, 4.0)  # below the first a 135M model does not fit beside its training step, below the second barely
_DISK_GIB = (0.5, 2.0)
_GIB = 1 << 30
_CGROUP = Path("/sys/fs/cgroup")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One row."""

    name: str
    state: State = "ok"
    found: str
    cure: str = ""
    """What to do, in one sentence; empty where all is well."""

    def to_dict(self) -> dict[str, str]:
        """Plain values."""
        return asdict(self)


def examine(runs: Path) -> list[Finding]:
    """Look at everything; ``runs`` is the directory that runs are put in."""
    here = fingerprint()
    return [
        Finding(name="python", found=f"{here['python']} on {here['system']}"),
        Finding(name=PACKAGE, found=version(PACKAGE)),
        *extras(requires(PACKAGE) or (), metadata(PACKAGE).get_all("Provides-Extra") or ()),
        *_integrations(),
        Finding(name="processor", found=f"{here['cpu'] or platform.machine()}, {here['cores']} usable cores"),
        _memory(),
        *_compute(here["cores"]),
        *_models(),
        _disk(runs),
    ]


def extras(needed: Sequence[str], names: Sequence[str]) -> list[Finding]:
    """One row per extra: whether every package it asks for is installed, in a version it takes.

    Args:
        needed: requirements as a distribution's metadata lists them. ``names``: its extras.
    """
    wanted = [Requirement(text) for text in needed]
    return [_extra(name, _of_extra(wanted, name)) for name in names if name not in _NOT_FOR_USERS]


def _of_extra(wanted: Sequence[Requirement], name: str) -> list[Requirement]:
    """What an extra adds, the extras it is made of taken apart."""
    found: list[Requirement] = []
    for requirement in wanted:
        marker = requirement.marker
        if marker is None or marker.evaluate({"extra": ""}) or not marker.evaluate({"extra": name}):
            continue
        if requirement.name == PACKAGE:
            found += [inner for extra in sorted(requirement.extras) for inner in _of_extra(wanted, extra)]
        else:
            found.append(requirement)
    return found


def _extra(name: str, wanted: Sequence[Requirement]) -> Finding:
    have: dict[str, str] = {}
    missing, unfit = [], []
    for requirement in wanted:
        try:
            have[requirement.name] = version(requirement.name)
        except PackageNotFoundError:
            missing.append(requirement.name)
            continue
        if not requirement.specifier.contains(have[requirement.name], prereleases=True):
            unfit.append(f"{requirement.name} {have[requirement.name]} is not {requirement.specifier}")
    row = f"extra [{name}]"
    install = f"pip install '{PACKAGE}[{name}]'"
    serious: State = "problem" if name == _NEEDED else "warning"
    if unfit:
        return Finding(name=row, state=serious, found="; ".join(unfit), cure=f"Bring the versions in line: {install}")
    if not missing:
        return Finding(name=row, found="complete: " + ", ".join(f"{p} {v}" for p, v in sorted(have.items())))
    if name == _NEEDED:
        return Finding(
            name=row, state="problem", found=f"missing: {', '.join(missing)}", cure=f"To train here: {install}"
        )
    return Finding(name=row, found=f"not installed ({', '.join(missing)} missing); if you want it: {install}")


def _integrations() -> list[Finding]:
    """A row for each integration that is installed and cannot be loaded; lacking an extra is a choice."""
    return [
        Finding(
            name=f"integration {name}",
            state="warning",
            found=f"not loaded: {describe(error)}",
            cure="Mend or remove the package that offers it; the other integrations work without it.",
        )
        for name, error in sorted(integrations().failures.items())
        if not isinstance(error, MissingExtra)
    ]


def _memory() -> Finding:
    total, free = _memory_bytes()
    if total is None:
        return Finding(name="memory", found="unknown on this system")
    about = f"{total / _GIB:.1f} GiB" + ("" if free is None else f", {free / _GIB:.1f} GiB of it free")
    left = (total if free is None else free) / _GIB
    cure = "Close other programs, or train a smaller model: weights take 4 bytes a parameter, training about as much again."
    return _graded("memory", about, left, _MEMORY_GIB, cure)


def _memory_bytes() -> tuple[int | None, int | None]:
    """Total and available bytes, of this container where it is limited."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        names = getattr(os, "sysconf_names", {})
        if "SC_PHYS_PAGES" not in names:
            return None, None
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"), None
    sizes = {line.partition(":")[0]: int(line.split()[1]) * 1024 for line in lines if line.endswith("kB")}
    total, free = sizes["MemTotal"], sizes.get("MemAvailable")
    limit, used = _number(_CGROUP / "memory.max"), _number(_CGROUP / "memory.current")
    if limit is not None and limit < total:
        room = limit - (used or 0) + _reclaimable()
        return limit, room if free is None else min(free, room)
    return total, free


def _reclaimable() -> int:
    """Bytes of cached files that are counted as used and given up when they are needed."""
    try:
        lines = (_CGROUP / "memory.stat").read_text(encoding="utf-8").splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("inactive_file ")), 0)


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def _compute(cores: int) -> list[Finding]:
    """The GPU, and what the probe measured."""
    try:
        from art_core.models.probe import gpu_name, probe
    except (ImportError, OSError) as error:  # OSError: its shared libraries are broken
        cure = f"To train here: pip install '{PACKAGE}[{_NEEDED}]'"
        return [Finding(name="probe", state="problem", found=f"not measured: {describe(error)}", cure=cure)]
    try:
        measured = probe()
    except RuntimeError as error:  # a GPU that is seen and cannot compute
        return [
            Finding(
                name="probe",
                state="problem",
                found=f"not measured: {describe(error)}",
                cure="Free the GPU, install a torch built for it, or set CUDA_VISIBLE_DEVICES='' to train on the processor.",
            )
        ]
    speed = (
        f"{measured.float32_gflops:g} GFLOPS in float32, {measured.bfloat16_gflops:g} in bfloat16: "
        f"{measured.precision} is used, on {measured.threads} threads of {measured.device}"
    )
    idle = measured.device == "cpu" and measured.threads < cores
    return [
        _gpu(gpu_name()),
        Finding(
            name="probe",
            state="warning" if idle else "ok",
            found=speed,
            cure=f"{cores - measured.threads} of {cores} cores are left idle; unset OMP_NUM_THREADS." if idle else "",
        ),
    ]


def _gpu(name: str | None) -> Finding:
    if name is not None:
        return Finding(name="GPU", found=name)
    if shutil.which("nvidia-smi") is None:
        return Finding(name="GPU", found="none; training runs on the processor")
    return Finding(
        name="GPU",
        state="warning",
        found="there may be one, but this torch cannot use it",
        cure="Install a torch built for your CUDA version, then check with nvidia-smi that the driver sees the card.",
    )


def _models() -> list[Finding]:
    rows = []
    for known in registry.known_models():
        ready = known.is_ready()
        rows.append(
            Finding(
                name=f"model {known.name}",
                state="ok" if ready else "warning",
                found=f"fetched, in {known.path}" if ready else "not fetched",
                cure="" if ready else f"To use it: art models get {known.name}",
            )
        )
    return rows


def _disk(runs: Path) -> Finding:
    place = runs.expanduser().resolve()
    while not place.exists():
        place = place.parent
    if not place.is_dir() or not os.access(place, os.W_OK):
        cure = "Choose a directory you may write to, with --out."
        return Finding(name="disk", state="problem", found=f"{place} cannot be written to", cure=cure)
    free = shutil.disk_usage(place).free / _GIB
    cure = "Make room, or put runs elsewhere with --out: a run of a small model takes some hundred MiB."
    return _graded("disk", f"{free:.1f} GiB free for {runs}", free, _DISK_GIB, cure)


def _graded(name: str, found: str, value: float, bounds: tuple[float, float], cure: str) -> Finding:
    state: State = "problem" if value < bounds[0] else "warning" if value < bounds[1] else "ok"
    return Finding(name=name, state=state, found=found, cure="" if state == "ok" else cure)
