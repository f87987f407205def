import re

from hypothesis import given
from hypothesis import strategies as st

from art_integrations.mcp.names import public_names, sanitise

KEYS = st.lists(st.tuples(st.sampled_from(["a", "b"]), st.text(max_size=100)), max_size=30)


def test_a_good_name_stays():
    assert public_names([("s", "get_time")]) == {"get_time": ("s", "get_time")}


def test_refused_characters_become_underscores():
    assert sanitise("a.b/c ü") == "a_b_c__"


def test_a_long_name_is_cut_to_64():
    assert public_names([("s", "x" * 80)]) == {"x" * 64: ("s", "x" * 80)}


def test_an_empty_name_becomes_tool():
    assert sanitise("") == "tool"


def test_of_two_that_collide_the_good_one_keeps_its_name():
    names = public_names([("s", "a.b"), ("s", "a_b")])
    assert names.pop("a_b") == ("s", "a_b")
    (public,) = names
    assert re.fullmatch(r"a_b_[0-9a-f]{8}", public)


def test_two_long_names_with_a_common_start_are_told_apart():
    names = public_names([("s", "x" * 70 + "1"), ("s", "x" * 70 + "2")])
    assert len(names) == 2
    assert all(re.fullmatch(r"x{55}_[0-9a-f]{8}", name) for name in names)


def test_a_name_on_two_servers_is_prefixed_on_both():
    assert set(public_names([("one", "get"), ("two", "get"), ("two", "put")])) == {"one_get", "two_get", "put"}


def test_prefix_on_request():
    assert public_names([("one", "get")], prefix=True) == {"one_get": ("one", "get")}


@given(KEYS)
def test_every_tool_gets_one_accepted_name_and_the_way_back(keys):
    names = public_names(keys)
    assert sorted(names.values()) == sorted(set(keys))
    assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name) for name in names)


@given(KEYS, st.randoms())
def test_the_order_of_the_tools_changes_nothing(keys, random):
    shuffled = list(keys)
    random.shuffle(shuffled)
    assert public_names(shuffled) == public_names(keys)
