"""What a server that renders again asks for, turn by turn, against what was recorded."""

from __future__ import annotations

import numpy as np

from art_core.inference.scripted import ScriptedPolicy
from art_core.loop.rerender import LaterTurn, check_rerendering, later_turns
from art_core.messages import Message
from art_core.rendering.renderer import Renderer
from art_core.rendering.tokenizer import BytesTokenizer
from art_core.rollout.runner import rollout
from art_core.scenario import Scenario


class PairTokenizer(BytesTokenizer):
    """Writes ``th`` as one id, as a tokenizer with merges does; a model may sample it as two."""

    TH = 300

    def encode(self, text):
        ids = super().encode(text)
        out = []
        for number in ids:
            if out and (out[-1], number) == (ord("t"), ord("h")):
                out[-1] = self.TH
            else:
                out.append(number)
        return out

    def decode(self, ids):
        return super().decode([part for i in ids for part in (map(ord, "th") if i == self.TH else (i,))])


async def exchange(reply):
    """A two-turn conversation; replies are sampled byte by byte."""

    async def agent(scenario, session):
        first = [Message(role="user", content="a")]
        turn = await session.turn(first)
        await session.turn([*first, turn.reply, Message(role="user", content="b")])

    return await rollout(agent, Scenario("s", ""), ScriptedPolicy([reply, "end"]))


def turn(recorded, rendered, completion=(9,)):
    return LaterTurn(recorded=recorded, rendered=rendered, completion=completion, temperature=1.0)


def minus_a_tenth_per_prompt_token(rows):
    """Logprobs that depend on nothing but the length of the prompt."""
    return [np.where(r.mask, -0.1 * (len(r.token_ids) - r.trained_tokens), 0.0).astype(np.float32) for r in rows]


async def test_bytes_survive_being_rendered_again():
    (found,), left_out = later_turns([await exchange("the end")], Renderer(BytesTokenizer()))
    assert left_out == 0
    assert found.recorded == found.rendered
    check = check_rerendering([found], 0, minus_a_tenth_per_prompt_token, source="a test")
    assert (check.status, check.figures[0].value) == ("pass", 0.0)


async def test_a_reply_that_is_tokenized_otherwise_is_seen_where_it_begins_to_differ():
    (found,), _ = later_turns([await exchange("say the")], Renderer(PairTokenizer()))
    assert found.differs
    assert found.recorded[found.agreeing : found.agreeing + 3] == tuple(b"the")
    assert found.rendered[found.agreeing : found.agreeing + 2] == (300, ord("e"))


async def test_a_first_turn_is_no_later_turn_however_its_prompt_looks():
    async def agent(scenario, session):
        shown = [Message(role="user", content="1"), Message(role="assistant", content="one")]
        await session.turn([*shown, Message(role="user", content="2")])

    trajectory = await rollout(agent, Scenario("s", ""), ScriptedPolicy(["two"]))
    assert later_turns([trajectory], Renderer(BytesTokenizer())) == ([], 0)


def test_the_figures_of_a_drift():
    turns = [turn((1, 2, 3, 4), (1, 2, 7)), turn((1, 2, 3, 4), (1, 2, 3, 4))]
    check = check_rerendering(turns, 3, minus_a_tenth_per_prompt_token, source="a test")
    assert check.status == "warn"
    shares = [round(figure.value, 4) for figure in check.figures]
    assert shares == [0.5, 0.25, 0.1, 0.1]  # one turn of two; two ids of eight; one prompt token less
    assert check.note.startswith("measured on 2 turns of a test, 3 more left out, gaps on 1 that differ")


def test_without_a_later_turn_nothing_is_claimed():
    check = check_rerendering([], 0, minus_a_tenth_per_prompt_token, source="a test")
    assert (check.status, check.figures) == ("warn", ())


def test_what_would_take_too_long_is_cut_and_said():
    long = tuple(range(3, 3000))
    check = check_rerendering([turn(long, (1, *long))] * 3, 0, minus_a_tenth_per_prompt_token, source="a test")
    assert "gaps on 1 that differ" in check.note
