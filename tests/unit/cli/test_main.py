"""The program's own manners: exit codes, one-sentence errors, quick and complete help."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from cyclopts import App

from art_core.cli import main as program
from art_core.errors import InputError, MissingExtra, ProviderError
from art_core.plugins import Integration, Integrations, Verb, integrations


class Run:
    """Runs ``art probe`` with a body of the test's choosing."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.monkeypatch, self.capsys = monkeypatch, capsys

    def __call__(self, body: Callable[..., Any], *words: str) -> tuple[int, str]:
        found = Integrations([])
        found._add(Integration(name="t", verbs=(Verb(path=("probe",), command=body, help="Probe."),)), "'t' (t)")
        self.monkeypatch.setattr(program, "integrations", lambda: found)
        code = program.main(["probe", *words])
        return code, self.capsys.readouterr().err


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    return Run(monkeypatch, capsys)


def failing(error: BaseException) -> Callable[[], None]:
    def body() -> None:
        raise error

    return body


@pytest.mark.parametrize(
    ("error", "code", "sentence"),
    [
        (InputError("seed -1 must be 0 or more"), 2, "error: seed -1 must be 0 or more\n"),
        (ProviderError("the engine is closed"), 1, "error: the engine is closed\n"),
        (KeyboardInterrupt(), 130, "interrupted\n"),
        (ZeroDivisionError("by zero"), 1, "error: ZeroDivisionError: by zero (run again with --debug for the traceback)\n"),
        (ExceptionGroup("g", [InputError("bad port 0")]), 2, "error: bad port 0\n"),
        (InputError("two\n  lines"), 2, "error: two lines\n"),
    ],
)  # fmt: skip
def test_a_failure_is_one_sentence_and_a_code(run: Run, error: BaseException, code: int, sentence: str) -> None:
    assert run(failing(error)) == (code, sentence)


def test_a_missing_extra_behind_a_failed_import_shows_the_install_command(run: Run) -> None:
    error = ImportError("Cannot import module 'x'")
    error.__cause__ = MissingExtra("mcp", "mcp")
    code, sentence = run(failing(error))
    assert (code, sentence) == (
        2,
        "error: mcp is not installed; install it with: pip install 'art-integrations[mcp]'\n",
    )


def test_debug_shows_the_traceback(run: Run) -> None:
    with pytest.raises(ZeroDivisionError):
        run(failing(ZeroDivisionError()), "--debug")


def test_debug_after_a_double_dash_is_an_argument(run: Run) -> None:
    def body(word: str) -> int:
        return 7 if word == "--debug" else 0

    assert run(body, "--", "--debug") == (7, "")


def test_an_async_verb_is_run(run: Run) -> None:
    async def body() -> int:
        await asyncio.sleep(0)
        return 3

    assert run(body) == (3, "")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["trian"], "error: unknown command 'trian'; did you mean 'train'?\n"),
        (["train", "pyhton"], "error: unknown command 'pyhton'; did you mean 'python'?\n"),
        (["train", "no.toml"], "error: cannot read 'no.toml': No such file or directory\n"),
        (["models", "gte"], "error: unknown command 'gte'; did you mean 'get'?\n"),
        (["models", "list", "--jsn"], "error: unknown option '--jsn'; did you mean '--json'?\n"),
        (["models", "list", "--zzz"], "error: unknown option '--zzz'; valid ones: --json\n"),
        (["models", "get"], 'error: Command "models get" parameter NAME requires an argument\n'),
    ],
)
def test_a_slip_is_one_sentence_that_names_it(
    words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert program.main(words) == 2
    assert capsys.readouterr().err == sentence


def test_an_integration_that_was_not_loaded_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = Integrations([])
    found.failures["graph"] = MissingExtra("langgraph", "langgraph")
    monkeypatch.setattr(program, "integrations", lambda: found)
    assert program.main(["train", "graph"]) == 2
    assert "pip install 'art-integrations[langgraph]'" in capsys.readouterr().err


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert program.main(["--version"]) == 0
    assert capsys.readouterr().out == "0.1.0\n"


def walk(app: App, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name in app:
        if not name.startswith("-"):
            child = app[name]
            if child.default_command is not None:
                yield (*path, name)
            yield from walk(child, (*path, name))


def all_verbs() -> list[tuple[str, ...]]:
    groups = [verb.path[0] for verb in program.VERBS]
    found = integrations()
    return sorted({path for group in groups for path in walk(program.build(found, [group]))})


@pytest.mark.parametrize("path", all_verbs(), ids=" ".join)
def test_the_help_of_every_verb_has_an_example(path: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert program.main([*path, "--help"]) == 0
    assert f"$ art {path[0]}" in capsys.readouterr().out
