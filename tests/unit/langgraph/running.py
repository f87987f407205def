"""Running a graph against a script, and what must hold of every trajectory that comes out."""

from __future__ import annotations

from itertools import groupby

import art_core as art
from art_core.rollout.current import bind
from art_core.rollout.session import Session
from art_integrations.langgraph import LangGraphAgent, install


async def run(graph, replies, scenario="What time is it in Rome?", *, limits=None, **options):
    """The trajectory of one rollout, its tokens checked."""
    policy = art.ScriptedPolicy(replies)
    trajectory = await art.rollout(
        LangGraphAgent(graph, **options),
        art.Scenario("s", scenario),
        policy,
        limits=limits or art.Limits(seconds=20),
    )
    check_tokens(trajectory)
    return trajectory


async def drive(how, replies):
    """The trajectory of the model calls that ``how``, an async function of nothing, makes by itself; and what it returns."""
    install()
    session = Session(art.ScriptedPolicy(replies), art.Scenario("s", ""), rollout_id="r")
    with bind(session):
        seen = await how()
    check_tokens(session.trajectory)
    return session.trajectory, seen


def check_tokens(trajectory):
    """Every sampled token is trained once, behind exactly the ids it was sampled behind; a turn extends an earlier one's ids to
    their end, or says why it does not."""
    graph = trajectory.graph
    wanted = sorted(graph.path(turn.id) for turn in graph if turn.trainable)
    rows = trajectory.samples(superseded=True) if wanted else []
    assert sorted(ids[:end] for ids, _, end in _trained(rows)) == wanted
    completions = sorted(list(turn.completion_ids) for turn in graph if turn.trainable)
    assert sorted(ids[begin:end] for ids, begin, end in _trained(rows)) == completions
    for turn in graph:
        assert turn.parent is None or turn.parent_len == graph.path_len(turn.parent) or turn.fork


def _trained(rows):
    """The trained runs of the rows: all ids of the row, where the run begins and where it ends."""
    for row in rows:
        for trained, run in groupby(range(len(row.mask)), key=lambda i: bool(row.mask[i])):
            where = list(run)
            if trained:
                yield row.token_ids.tolist(), where[0], where[-1] + 1


def asked(trajectory):
    """Role and text of the messages of each request."""
    graph = trajectory.graph
    return [[(m.role, m.text) for m in graph.history(turn.id)[:-1]] for turn in trajectory.turns]


def forks(trajectory):
    """Why each turn does not extend an earlier one; None where it does, or is the first."""
    return [turn.fork for turn in trajectory.turns]


def callers(trajectory, key="node"):
    """What is known of each turn's caller."""
    return [turn.metadata["call"].get(key) for turn in trajectory.turns]
