"""The ``art`` program: which verbs there are, and what an escaping exception becomes.

A verb's module is imported when the verb is used, so ``art --help`` stays quick. Bad input is one sentence on stderr
and exit code 2, any other failure one sentence and exit code 1, an interrupt 130; ``--debug`` adds the traceback.
"""

from __future__ import annotations

import difflib
import logging
import os
import re
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, CycloptsError, Parameter, UnknownCommandError, UnknownOptionError

from art_core.errors import ArtError, InputError, describe
from art_core.plugins import Integrations, Offer, Verb, integrations

__all__ = ["VERBS", "build", "main"]

HELP = """Train the agent you already have.

```console
$ art train mcp "python -m mcp_server_time" --model smollm2-135m
```

`art VERB --help` explains a verb with an example. `--debug` shows the traceback of a failure.
"""

VERBS: tuple[Verb, ...] = (
    Verb(path=("train",), command="art_core.cli.train:app", help="Train a small model to do an agent's job."),
    Verb(path=("eval",), command="art_core.cli.eval:app", help="Measure a checkpoint of a run."),
    Verb(
        path=("collect",),
        command="art_core.cli.collect:app",
        help="Record an agent with its own model or a provider's.",
    ),
    Verb(path=("scenarios",), command="art_core.cli.scenarios:app", help="Write scenarios for an agent, to edit."),
    Verb(path=("judge",), command="art_core.cli.judge:app", help="Score stored rollouts again, or measure a judge."),
    Verb(path=("export",), command="art_core.cli.export:app", help="Write a run's adapter for serving."),
    Verb(path=("report",), command="art_core.cli.report:app", help="Write a run's report.html again."),
    Verb(path=("doctor",), command="art_core.cli.doctor:app", help="Check this machine, and a model's numbers on it."),
    Verb(path=("models",), command="art_core.cli.models:app", help="List and fetch the models known by a short name."),
)

logger = logging.getLogger(__name__)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line (default: this process's) and return the exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    debug = _take_flag(words, "--debug")
    try:
        found = integrations()
        code = _run(build(found, words), words, found)
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        return _tell("interrupted", 130)
    except BrokenPipeError:  # the reader of our output has gone: nobody is left to be told
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        if debug:
            raise
        return _report(error)


def build(found: Integrations, words: Sequence[str] = ()) -> App:
    """The command tree: our verbs and those of the integrations.

    A group of ours that integrations add verbs to is imported only if it is the one ``words`` asks for.
    """
    app = App(
        name="art",
        help=HELP,
        version=lambda: version("art-integrations"),
        result_action="return_value",
        default_parameter=Parameter(negative_iterable=()),  # no --empty-NAME beside each list option
        suppress_keyboard_interrupt=False,
    )
    for verb in VERBS:
        app.command(verb.command, name=verb.path[0], help=verb.help)
    groups: dict[str, App] = {}
    for path, offer in sorted(found.verbs().items()):
        first = path[0]
        if len(path) == 1:
            if first in app:
                logger.warning("warning: verb %r of %s is left out: art has its own", first, offer.owners[0])
            else:
                _add(app, offer)
        elif first not in app:
            groups[first] = App(name=first, help=f"Verbs of {' and '.join(offer.owners)}.")
            app.command(groups[first])
            _add(groups[first], offer)
        elif first in groups or first in words[:1]:
            if first not in groups:
                groups[first] = _open(app, first)
            _add(groups[first], offer)
    _explain(app, words)
    return app


def _explain(app: App, words: Sequence[str]) -> None:
    """Let the verb that ``words`` asks for speak for itself: its docstring instead of its sentence in the overview."""
    for word in words:
        if word.startswith("-") or word not in app:
            return
        app = app[word]
        if app.default_command is not None:
            app.help = None


def _open(app: App, name: str) -> App:
    """Put a group that can be added to in the place of the verb ``name``, which stays as its module made it."""
    verb = app[name]
    group = App(name=name, help=verb.help, help_epilogue=verb.help_epilogue, default_command=verb.default_command)
    group.command(verb, name="*")
    del app[name]
    app.command(group)
    return group


def _add(group: App, offer: Offer) -> None:
    verb: Verb = offer.value
    if verb.path[-1] in group:
        logger.warning("warning: verb %r of %s is left out: art has its own", verb.name, offer.owners[0])
        return
    command: Any = verb.command if len(offer.owners) == 1 else _clash(offer)
    group.command(command, name=verb.path[-1], help=verb.help)


def _clash(offer: Offer) -> Callable[..., None]:
    def refuse(*words: Annotated[str, Parameter(allow_leading_hyphen=True)]) -> None:
        offer.take(f"'art {offer.value.name}'")

    return refuse


def _run(app: App, words: list[str], found: Integrations) -> int:
    _check_group(app, words, found)
    try:
        result = app(words, exit_on_error=False, print_error=False)
    except UnknownCommandError as error:
        word = (error.unused_tokens or [""])[0]
        raise InputError(_unknown_command(word, error.app or app, found)) from error
    except UnknownOptionError as error:
        raise InputError(_unknown_option(error)) from error
    except CycloptsError as error:
        error.verbose = False
        raise InputError(" ".join(str(error).split()).rstrip(".")) from error
    return result if isinstance(result, int) else 0


def _check_group(app: App, words: Sequence[str], found: Integrations) -> None:
    """Tell a mistyped verb of a group that also takes a file (``art train``) from a file's name."""
    if len(words) < 2 or words[0].startswith("-") or words[0] not in app:
        return
    group, word = app[words[0]], words[1]
    takes_both = group.default_command is not None and any(not name.startswith("-") for name in group)
    if takes_both and word not in group and re.fullmatch(r"\w[\w-]*", word) and not Path(word).exists():
        raise InputError(_unknown_command(word, group, found))


def _unknown_command(word: str, group: App, found: Integrations) -> str:
    if reason := found.why_missing(word):
        return f"unknown command {word!r}: {reason}"
    return f"unknown command {word!r}; {_closest(word, [name for name in group if not name.startswith('-')])}"


def _unknown_option(error: UnknownOptionError) -> str:
    word = error.token.keyword or error.token.value
    names = [name for argument in error.argument_collection if argument.parse for name in argument.names]
    return f"unknown option {word!r}; {_closest(word, [name for name in names if name.startswith('-')])}"


def _closest(word: str, names: Sequence[str]) -> str:
    close = difflib.get_close_matches(word, names, n=1)
    return f"did you mean {close[0]!r}?" if close else f"valid ones: {', '.join(sorted(names)) or 'none'}"


def _report(error: Exception) -> int:
    cause = _ours(error)
    if isinstance(cause, InputError):
        return _tell(f"error: {cause}", 2)
    if cause is not None:
        return _tell(f"error: {cause}", 1)
    return _tell(f"error: {describe(error)} (run again with --debug for the traceback)", 1)


def _ours(error: BaseException | None) -> ArtError | None:
    """The error of our own tree behind ``error``: itself, the first of a group, or what a failed import came from."""
    while error is not None and not isinstance(error, ArtError):
        if isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        elif isinstance(error, ImportError):
            error = error.__cause__
        else:
            return None
    return error


def _tell(sentence: str, code: int) -> int:
    print(" ".join(sentence.split()), file=sys.stderr)
    return code


def _take_flag(words: list[str], flag: str) -> bool:
    end = words.index("--") if "--" in words else len(words)
    if flag not in words[:end]:
        return False
    words[:end] = [word for word in words[:end] if word != flag]
    return True
