"""What the documentation shows works: its Python runs, its commands parse, its links lead somewhere."""

import re
import shlex

import pytest

from art_core.cli.main import build
from art_core.plugins import integrations

from .blocks import PAGES, ROOT, blocks, commands

EVERY = [block for page in PAGES for block in blocks(page)]
PYTHON_PAGES = [page for page in PAGES if any(b.language == "python" and not b.options for b in blocks(page))]
COMMANDS = [(str(b), line) for b in EVERY if b.language == "console" for line in commands(b)]
LINK = re.compile(r"\]\(([^)#]+)(?:#[^)]*)?\)")


@pytest.mark.parametrize("page", PYTHON_PAGES, ids=lambda page: page.name)
def test_the_python_of_a_page_runs_from_top_to_bottom(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "__main__"}
    for block in blocks(page):
        if block.language == "python" and not block.options:
            exec(compile("\n" * block.line + block.text, str(page), "exec"), names)


def test_a_block_is_run_or_says_that_it_is_not():
    assert {block.options for block in EVERY if block.language == "python"} <= {"", "no-run"}


@pytest.mark.parametrize(("where", "line"), [c for c in COMMANDS if c[1].startswith("art ")], ids=str)
def test_an_art_command_parses(where, line):
    words = shlex.split(line)[1:]
    build(integrations(), words).parse_args(words, exit_on_error=False, print_error=False)


@pytest.mark.parametrize(("where", "line"), [c for c in COMMANDS if c[1].startswith("make ")])
def test_a_make_target_exists(where, line):
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert line.split()[1] in targets


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page):
    targets = [page.parent / link for link in LINK.findall(page.read_text()) if "://" not in link]
    assert [t for t in targets if not t.exists()] == []


def test_the_ledger_of_the_documentation_is_that_of_the_code():
    from art_core.observe.ledger import FATES, MEANINGS, SOURCES

    text = (ROOT / "docs" / "run-directory.md").read_text()
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", text, re.MULTILINE))
    assert {row: rows.get(row) for row in (*SOURCES, *FATES)} == {row: MEANINGS[row] for row in (*SOURCES, *FATES)}
