"""Third parties add agents, verbs, scenario sources and sinks through the same door as our own integrations."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from art_core.cli.main import build, main
from art_core.errors import InputError, MissingExtra
from art_core.observe.sinks import Sink
from art_core.plugins import GROUP, Integration, Integrations, Verb, integrations
from art_core.scenario import Scenario

PLUGIN = """
from art_core.plugins import Integration, Verb
from art_core.scenario import Scenario


class Lines:
    def __init__(self, options):
        self.path = options["path"]

    def on_metrics(self, row):
        with open(self.path, "a") as file:
            file.write(repr(row))

    def on_run_start(self, info): ...
    def on_rollout(self, trajectory): ...
    def on_run_end(self, summary): ...
    def close(self): ...


def forecaster(options):
    async def agent(scenario, session):
        return f"{scenario.input}: {options['sky']}"

    return agent


integration = Integration(
    name="weather",
    agents={"forecaster": forecaster},
    verbs=(
        Verb(path=("weather",), command="art_weather.cli:weather", help="Say the weather."),
        Verb(path=("train", "weather"), command="art_weather.cli:weather", help="Train on the weather."),
        Verb(path=("almanac", "show"), command="art_weather.cli:weather", help="Show the almanac."),
    ),
    scenario_sources={"cities": lambda options: [Scenario(name, name) for name in options["names"]]},
    sinks={"lines": Lines},
)
"""

COMMAND = '''
def weather(city: str, *, days: int = 1) -> None:
    """Say the weather.

    ```console
    $ art weather Paris --days 2
    ```
    """
    print(f"{city}: sun for {days} days")
'''


def wheel(folder: Path, name: str, files: dict[str, str], entry: str) -> Path:
    """A wheel as a build backend would make it, of pure Python modules and one entry point of our group."""
    info = f"{name}-1.0.dist-info"
    files = {
        **files,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": f"[{GROUP}]\n{entry}\n",
    }
    path = folder / f"{name}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for file, text in files.items():
            archive.writestr(file, text)
        archive.writestr(f"{info}/RECORD", "".join(f"{file},,\n" for file in [*files, f"{info}/RECORD"]))
    return path


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which pip has installed the third-party distribution ``art_weather``."""
    folder = tmp_path_factory.mktemp("weather")
    files = {"art_weather/__init__.py": "", "art_weather/plugin.py": PLUGIN, "art_weather/cli.py": COMMAND}
    made = wheel(folder, "art_weather", files, "weather = art_weather.plugin:integration")
    target = folder / "site"
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(target)]
    subprocess.run([*command, str(made)], check=True, stdin=subprocess.DEVNULL, timeout=60)
    return target


@pytest.fixture
def weather(site: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Integrations]:
    monkeypatch.syspath_prepend(str(site))
    integrations.cache_clear()
    yield integrations()
    integrations.cache_clear()


def entry(name: str, value: str = "x:y", *, gives: object) -> EntryPoint:
    """An entry point whose loading gives an object, or raises it."""

    class Fake(EntryPoint):
        def load(self) -> object:
            if isinstance(gives, Exception):
                raise gives
            return gives

    return Fake(name=name, value=value, group=GROUP)


def verb(*path: str) -> Verb:
    return Verb(path=path, command=lambda: None, help="Do it.")


def broken_sink(options: object) -> Sink:
    raise AssertionError("no sink was asked for")


async def test_an_installed_plugin_offers_its_agent(weather: Integrations) -> None:
    agent = weather.agent("forecaster", {"sky": "rain"})
    assert await agent(Scenario("q", "Oslo"), None) == "Oslo: rain"  # type: ignore[arg-type]


def test_an_installed_plugin_offers_its_scenarios(weather: Integrations) -> None:
    assert [scenario.id for scenario in weather.scenarios("cities", {"names": ["Oslo", "Rome"]})] == ["Oslo", "Rome"]


def test_an_installed_plugin_offers_its_sink(weather: Integrations, tmp_path: Path) -> None:
    sink = weather.sink("lines", {"path": tmp_path / "out"})
    assert isinstance(sink, Sink)
    sink.on_metrics({"step": 1})
    assert (tmp_path / "out").read_text() == "{'step': 1}"


@pytest.mark.parametrize("words", [["weather"], ["almanac", "show"], ["train", "weather"]])
def test_an_installed_plugin_offers_its_verbs(
    weather: Integrations, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words, "Oslo", "--days", "3"]) == 0
    assert capsys.readouterr().out == "Oslo: sun for 3 days\n"


def test_a_verb_that_joins_ours_stands_beside_them(weather: Integrations, capsys: pytest.CaptureFixture[str]) -> None:
    main(["train", "--help"])
    overview = capsys.readouterr().out
    assert "Train on the weather." in overview
    assert "python" in overview


def test_the_help_of_a_verb_is_its_own_docstring(weather: Integrations, capsys: pytest.CaptureFixture[str]) -> None:
    main(["train", "weather", "--help"])
    assert "$ art weather Paris --days 2" in capsys.readouterr().out


def test_a_verb_is_imported_only_when_it_is_used(site: Path) -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(site)!r})\n"
        "from art_core.cli.main import main\nmain(['--help'])\n"
        "import json; print(json.dumps('art_weather.cli' in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert "Say the weather." in done.stdout
    assert json.loads(done.stdout.splitlines()[-1]) is False


def test_a_broken_plugin_is_told_once_and_breaks_no_other(caplog: pytest.LogCaptureFixture) -> None:
    good = Integration(name="good", agents={"fine": lambda options: lambda scenario, session: "ok"})
    found = Integrations([entry("bad", "bad.mod:it", gives=RuntimeError("no display")), entry("good", gives=good)])
    assert [record.getMessage() for record in caplog.records] == [
        "warning: integration 'bad' (bad.mod:it) could not be loaded: RuntimeError: no display"
    ]
    assert found.agent("fine", {}) is not None


def test_something_that_is_no_integration_is_a_broken_plugin(caplog: pytest.LogCaptureFixture) -> None:
    Integrations([entry("odd", "odd:thing", gives=3)])
    assert caplog.messages == [
        "warning: integration 'odd' (odd:thing) could not be loaded: "
        "entry point 'odd:thing' is a int, not an art_core.plugins.Integration"
    ]


def test_a_missing_extra_is_told_when_it_is_asked_for(caplog: pytest.LogCaptureFixture) -> None:
    found = Integrations([entry("graph", gives=MissingExtra("langgraph", "langgraph"))])
    assert caplog.messages == []
    with pytest.raises(InputError, match=r"pip install 'art-integrations\[langgraph\]'"):
        found.agent("graph", {})


def test_two_offers_of_one_thing_are_an_error_that_names_both() -> None:
    one = Integration(name="one", sinks={"log": broken_sink})
    found = Integrations([entry("one", "one:it", gives=one), entry("two", "two:it", gives=one)])
    with pytest.raises(InputError, match=r"sink 'log' is offered by 'one' \(one:it\) and by 'two' \(two:it\)"):
        found.sink("log", {})


def test_two_verbs_of_one_name_are_an_error_when_used() -> None:
    offer = Integration(name="one", verbs=(verb("dance"),))
    found = Integrations([entry("one", "one:it", gives=offer), entry("two", "two:it", gives=offer)])
    with pytest.raises(InputError, match=r"'art dance' is offered by 'one' .* and by 'two'"):
        build(found)(["dance", "--fast"], exit_on_error=False, print_error=False)


def test_a_verb_of_ours_cannot_be_taken_over(caplog: pytest.LogCaptureFixture) -> None:
    found = Integrations([entry("one", "one:it", gives=Integration(name="one", verbs=(verb("models"),)))])
    assert "list" in build(found)["models"]
    assert caplog.messages == ["warning: verb 'models' of 'one' (one:it) is left out: art has its own"]


def test_an_unknown_kind_names_the_closest() -> None:
    found = Integrations([entry("one", gives=Integration(name="one", sinks={"jsonl": broken_sink}))])
    with pytest.raises(InputError, match=r"unknown sink 'json'; valid ones: jsonl; did you mean 'jsonl'\?"):
        found.sink("json", {})


@pytest.mark.parametrize("path", [(), ("a", "b", "c"), ("--x",), ("",)])
def test_a_verb_path_is_one_or_two_words(path: tuple[str, ...]) -> None:
    with pytest.raises(InputError, match="one or two words"):
        Verb(path=path, command="a:b", help="")
