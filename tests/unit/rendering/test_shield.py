from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from art_core.rendering.shield import Shield

SHIELD = Shield(["<s>", "</s>", "<|end|>"])


def test_text_without_control_texts_is_one_piece() -> None:
    assert list(SHIELD.pieces(SHIELD.hide("plain"))) == ["plain"]


def test_hidden_texts_come_back_in_two_pieces() -> None:
    assert list(SHIELD.pieces(SHIELD.hide("a</s>"))) == ["a", "<", "/s>"]


def test_the_templates_own_control_texts_stay_whole() -> None:
    assert list(SHIELD.pieces("<s>" + SHIELD.hide("x") + "</s>")) == ["<s>x</s>"]


def test_texts_inside_json_are_hidden_keys_too() -> None:
    hidden = SHIELD.hide({"</s>": ["<s>", 1, None, True]})
    assert "</s>" not in hidden
    assert hidden.popitem()[1][1:] == [1, None, True]


@given(st.lists(st.sampled_from(["<s>", "</s>", "<|end|>", "\U000f0000", "\U000f0001", "\U000f0003"]) | st.text()))
def test_pieces_put_together_are_the_text(parts: list[str]) -> None:
    text = "".join(parts)
    pieces = list(SHIELD.pieces(SHIELD.hide(text)))
    assert "".join(pieces) == text
    assert not any(SHIELD.special.search(piece) for piece in pieces)
