"""Which tools are named, or marked, as destructive."""

from __future__ import annotations

import pytest

from art_core.rollout.hazards import hinted_hazard, named_hazard


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("delete_order", "delete"),
        ("deleteOrder", "delete"),
        ("drop-table", "drop"),
        ("remove_user", "remove"),
        ("send_email", "send"),
        ("gmail.sendMessage", "send"),
        ("pay_invoice", "pay"),
        ("charge_card", "charge"),
        ("stripe_refund", "refund"),
        ("process_refund", "refund"),
        ("transfer_money", "transfer"),
        ("cancel_subscription", "cancel"),
        ("write_file", "write"),
        ("update_account", "update"),
        ("find_and_delete", "delete"),
        ("get_or_create_user", "create"),
        ("book_flight", "book"),
        ("order_pizza", "order"),
        ("run_sql", "run"),
        ("add_to_cart", "add"),
    ],
)
def test_names_of_tools_that_change_something(name, word):
    assert named_hazard(name) == f"its name says {word!r}"


@pytest.mark.parametrize(
    "name",
    [
        *(
            "get_order",
            "get_refund_policy",
            "github_get_payment",
            "search_books",
            "list_cancelled",
            "find_order",
            "lookup_charge",
        ),
        *(
            "cancellation_policy",
            "weather",
            "calculator",
            "tavily_search",
            "updated_at",
            "payments",
            "flight_book",
            "add",
            "",
        ),
    ],
)
def test_names_of_tools_that_do_not(name):
    assert named_hazard(name) is None


@pytest.mark.parametrize(
    ("hints", "why"),
    [
        ({"destructiveHint": True}, "its server says that it is destructive"),
        ({"destructiveHint": True, "readOnlyHint": True}, None),
        ({"openWorldHint": True}, "its server says that it reaches the open world"),
        ({"destructiveHint": False}, None),
        ({}, None),
    ],
)
def test_hints_of_servers(hints, why):
    assert hinted_hazard(hints) == why
