"""Public names of a package that are imported when they are first used, so that the package itself stays light."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from .errors import MissingExtra

__all__ = ["lazy_names", "names_of_extra"]


def lazy_names(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """A module's ``__getattr__`` for names that live in its submodules ``homes``."""

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f".{homes[name]}", package), name)

    return find


def names_of_extra(
    package: str, homes: Mapping[str, str], *, extra: str, needs: tuple[str, ...]
) -> Callable[[str], Any]:
    """The same for names that need an extra.

    It raises ``MissingExtra`` where one of the packages ``needs`` is not installed; any other failed import escapes as it is.
    """
    find = lazy_names(package, homes)

    def find_or_tell(name: str) -> Any:
        try:
            return find(name)
        except ModuleNotFoundError as error:
            missing = (error.name or "").partition(".")[0]
            if missing in needs:
                raise MissingExtra(missing, extra) from error
            raise

    return find_or_tell
