from art_core.messages import Message
from art_core.observe.tokens import Pieces, TokenView, make_pieces, turn_views
from art_core.scenario import Scenario
from art_core.trajectory.graph import TokenGraph, Turn
from art_core.trajectory.trajectory import Trajectory


def decode_bytes(ids):
    return bytes(ids).decode(errors="replace")


def turn(ids, **options):
    logprobs = options.pop("logprobs", tuple(-0.1 for _ in ids))
    reply = Message(role="assistant")
    return Turn(id="t", context_ids=(65, 66), completion_ids=ids, logprobs=logprobs, reply=reply, **options)


def views(one, **options):
    trajectory = Trajectory(scenario=Scenario("s", "x"), rollout_id="r", graph=TokenGraph([one]), **options)
    pieces = make_pieces(decode_bytes, [one.context_ids, one.completion_ids])
    return turn_views(trajectory, pieces, max_tokens=100, max_context=100)


def test_pieces_of_whole_characters_stand_alone():
    pieces = make_pieces(decode_bytes, [[72, 105]])
    assert pieces.split([72, 105]) == [(0, 1, "H"), (1, 2, "i")]


def test_ids_that_make_one_character_together_are_shown_as_one():
    ids = list("é😀!".encode())
    pieces = make_pieces(decode_bytes, [ids])
    assert pieces.split(ids) == [(0, 2, "é"), (2, 6, "😀"), (6, 7, "!")]


def test_a_broken_character_shows_its_ids():
    pieces = make_pieces(decode_bytes, [[0xC3, 65]])
    assert pieces.text([0xC3, 65]) == "⟨195⟩A"


def test_an_unknown_id_is_shown_by_number():
    assert Pieces().text([7]) == "⟨7⟩"


def test_a_space_that_a_tokenizer_drops_at_the_start_is_kept():
    def decode(ids):
        return "".join(" word" for _ in ids).lstrip()

    assert make_pieces(decode, [[1]]).text([1]) == " word"


def test_the_stored_table_reads_back_equal():
    pieces = make_pieces(decode_bytes, [list("aé".encode())])
    assert Pieces.from_dict(pieces.to_dict()) == pieces


def test_logprobs_of_joined_tokens_add_up():
    (view,) = views(turn(tuple("é".encode()), logprobs=(-0.25, -0.5)))
    assert (view.tokens[0].ids, view.tokens[0].logprob) == ((0xC3, 0xA9), -0.75)


def test_a_logprob_that_is_not_finite_is_unknown_and_untrained():
    (view,) = views(turn((65, 66), logprobs=(float("nan"), -0.5)))
    assert [(token.logprob, token.trainable) for token in view.tokens] == [(None, False), (-0.5, True)]


def test_greedy_tokens_are_untrained():
    (view,) = views(turn((65,), not_trainable="greedy"))
    assert view.tokens[0].trainable is False


def test_tokens_of_a_rollout_with_another_fate_are_untrained():
    (view,) = views(turn((65,)), metadata={"fate": "no_spread"})
    assert view.tokens[0].trainable is False


def test_the_number_of_shown_tokens_is_capped_and_the_rest_counted():
    (view,) = views(turn((65,) * 130))
    assert (len(view.tokens), view.cut) == (100, 30)


def test_buckets_follow_the_probability():
    buckets = [TokenView(text="", ids=(1,), logprob=x, trainable=True).bucket for x in (-5, -2, -1, -0.3, 0, None)]
    assert buckets == [0, 1, 2, 3, 4, 5]


def test_the_tooltip_names_id_logprob_and_probability():
    view = TokenView(text="", ids=(318,), logprob=-0.5, trainable=False)
    assert view.title == "id 318 · logprob -0.500 · 60.7 % · not trained"
