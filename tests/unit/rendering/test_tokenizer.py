from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from art_core.errors import InputError
from art_core.rendering.tokenizer import BytesTokenizer, ChatTokenizer, TransformersTokenizer

from .families import CHATML, FAMILIES, bpe

BYTES = BytesTokenizer()
PIECES = st.lists(st.sampled_from(["<|im_start|>", "<|im_end|>", "<|endoftext|>"]) | st.text()).map("".join)


@given(PIECES)
def test_bytes_round_trip(text: str) -> None:
    assert BYTES.decode(BYTES.encode(text)) == text


@given(st.lists(st.integers(0, 258)))
def test_any_ids_decode(ids: list[int]) -> None:
    assert isinstance(BYTES.decode(ids), str)


def test_control_texts_are_one_id_each() -> None:
    assert BYTES.encode("a<|im_end|><|endoftext|>") == [97, 257, 258]
    assert BYTES.vocab_size == 259


def hugging_face(**more: object) -> object:
    transformers = pytest.importorskip("transformers")
    special = FAMILIES["chatml"].special
    return transformers.PreTrainedTokenizerFast(tokenizer_object=bpe(special), eos_token="<|endoftext|>", **more)


def test_both_are_chat_tokenizers() -> None:
    assert isinstance(BYTES, ChatTokenizer)
    assert isinstance(TransformersTokenizer(hugging_face(), chat_template=CHATML), ChatTokenizer)


def test_a_hugging_face_tokenizer_adds_nothing_and_keeps_control_texts() -> None:
    tokenizer = TransformersTokenizer(hugging_face(bos_token="<|im_start|>"), chat_template=CHATML)
    ids = tokenizer.encode("café<|im_end|>")
    assert tokenizer.decode(ids) == "café<|im_end|>"
    assert ids[0] != tokenizer.encode("<|im_start|>")[0]
    assert "<|im_end|>" in tokenizer.special_texts


def test_stop_ids_are_the_end_of_text_and_those_given() -> None:
    tokenizer = TransformersTokenizer(hugging_face(), stop_ids=[3], chat_template=CHATML)
    assert tokenizer.stop_ids == {3, *tokenizer.encode("<|endoftext|>")}


def test_a_tokenizer_without_a_template_is_refused() -> None:
    with pytest.raises(InputError, match="has no chat template"):
        TransformersTokenizer(hugging_face())
