"""Comparing values and pairing lists: equality as JSON means it, closeness of near misses, and best assignment."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["assign", "same", "similarity"]

_MOST_FOR_A_MISS = 0.4


def same(expected: Any, given: Any) -> bool:
    """Equal as JSON values: 1 equals 1.0, a boolean is no number, text ignores surrounding space and nothing else."""
    if isinstance(expected, bool) or isinstance(given, bool):
        return expected is given
    if isinstance(expected, str) and isinstance(given, str):
        return expected.strip() == given.strip()
    if isinstance(expected, Mapping) and isinstance(given, Mapping):
        return expected.keys() == given.keys() and all(same(expected[key], given[key]) for key in expected)
    if isinstance(expected, list | tuple) and isinstance(given, list | tuple):
        return len(expected) == len(given) and all(map(same, expected, given))
    return bool(expected == given)


def similarity(expected: Any, given: Any) -> float:
    """1 for the same value; for a near miss at most 0.4, in steps a learner can climb.

    Text: 0.4 times the square of its Ratcliff-Obershelp ratio (case aside), so that every right piece earns a little and
    the last wrong letter costs little, while text that has only a few letters in common earns next to nothing. Numbers: 0.4 times one minus the relative difference. A value of the
    wrong type whose text is right: 0.4. Lists and objects: the mean over their members, missing and superfluous ones
    counting 0.
    """
    if same(expected, given):
        return 1.0
    if isinstance(expected, Mapping) and isinstance(given, Mapping):
        shared = expected.keys() & given.keys()
        return sum(similarity(expected[key], given[key]) for key in shared) / len(expected.keys() | given.keys())
    if isinstance(expected, list | tuple) and isinstance(given, list | tuple):
        return sum(map(similarity, expected, given)) / max(len(expected), len(given))
    if isinstance(expected, bool) or isinstance(given, bool):
        return _MOST_FOR_A_MISS if str(expected).lower() == str(given).lower().strip() else 0.0
    if isinstance(expected, int | float) and isinstance(given, int | float):
        return _MOST_FOR_A_MISS * max(0.0, 1 - abs(expected - given) / max(abs(expected), 1))
    if isinstance(expected, str | int | float) and isinstance(given, str | int | float):
        return _MOST_FOR_A_MISS * _closeness(str(expected), str(given)) ** 2
    return 0.0


def _closeness(expected: str, given: str) -> float:
    """Twice the letters in matching blocks over all letters (``difflib``)."""
    return difflib.SequenceMatcher(None, expected.casefold(), given.casefold(), autojunk=False).ratio()


def assign(scores: Sequence[Sequence[float]]) -> dict[int, int]:
    """Row -> column such that the sum of scores is largest and as many rows as possible have a column.

    The Hungarian method with potentials; among equal sums the earlier columns win.
    """
    if not scores or not scores[0]:
        return {}
    if len(scores) > len(scores[0]):
        turned = assign([[row[column] for row in scores] for column in range(len(scores[0]))])
        return {row: column for column, row in turned.items()}
    rows, columns = len(scores), len(scores[0])
    row_potential, column_potential = [0.0] * (rows + 1), [0.0] * (columns + 1)
    owner = [0] * (columns + 1)
    for row in range(1, rows + 1):
        owner[0] = row
        _augment(scores, row_potential, column_potential, owner)
    return {owner[column] - 1: column - 1 for column in range(1, columns + 1) if owner[column]}


def _augment(scores: Sequence[Sequence[float]], u: list[float], v: list[float], owner: list[int]) -> None:
    """One shortest augmenting path from the row placed in column 0; indices are 1-based, costs are minus the scores."""
    columns = len(v) - 1
    slack, came_from, done = [float("inf")] * (columns + 1), [0] * (columns + 1), [False] * (columns + 1)
    column = 0
    while owner[column]:
        done[column] = True
        row, step, nearest = owner[column], float("inf"), 0
        for other in range(1, columns + 1):
            if done[other]:
                continue
            cost = -scores[row - 1][other - 1] - u[row] - v[other]
            if cost < slack[other]:
                slack[other], came_from[other] = cost, column
            if slack[other] < step:
                step, nearest = slack[other], other
        for other in range(columns + 1):
            if done[other]:
                u[owner[other]] += step
                v[other] -= step
            else:
                slack[other] -= step
        column = nearest
    while column:
        owner[column] = owner[came_from[column]]
        column = came_from[column]
