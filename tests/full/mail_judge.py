"""A program that plays the judge of the e-mail example's rollouts: it knows the answers, and goes by what the example's rubric says."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

__all__ = ["mail_judge"]

MOST_EXTRA = 0.05
"""What superfluous searches and reading cost at most."""


def mail_judge(questions: Path) -> Callable[[str, str], float]:
    """Of what all attempts begin with, and an attempt: its score from 0 to 1; see ``tests.servers.roles.Roles.grades``."""
    lines = [json.loads(line) for line in questions.read_text(encoding="utf-8").splitlines()]
    known = {line["input"]["question"]: line["expected"] for line in lines}

    def grade(context: str, attempt: str) -> float:
        whole = f"{context}\n{attempt}"
        question = whole.partition("[user]\n")[2].partition("\n[")[0].splitlines()[-1]
        return _grade(whole, known[question]["answer"], known[question]["source"])

    return grade


def _grade(done: str, fact: str, source: str) -> float:
    read = set(re.findall(r'→ read_email\(\{"message_id":"(m\d+)"\}\)', done))
    last = re.findall(r"→ return_final_answer\((\{.*\})\)", done)
    said = json.loads(last[-1]) if last else {}
    answer, sources = str(said.get("answer", "")), said.get("sources", [])
    extra = MOST_EXTRA * min(1.0, (done.count("→ search_emails(") - 1 + len(read - {source})) / 5)
    way = 0.2 * (source in read) + 0.1 * (f"\n{source} " in done)
    if source in read and re.search(rf"(?<!\w){re.escape(fact)}(?!\w)", answer):
        return round((1.0 if sources == [source] else 0.8) - extra, 3)
    return round(way + 0.1 * ("know" in answer), 3)
