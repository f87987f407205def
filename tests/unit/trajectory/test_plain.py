import math
from collections import OrderedDict
from types import MappingProxyType

import numpy as np
import pytest
from pydantic import BaseModel

from art_core.errors import InputError
from art_core.trajectory.plain import pack, unpack


class Model(BaseModel):
    value: float


@pytest.mark.parametrize("value", [None, True, 1, -2.5, "x", [1, "x"], {"a": [None]}, {"$float": 1, "b": 2}])
def test_json_values_stay_as_they_are(value) -> None:
    assert pack(value) == value
    assert unpack(value) == value


@pytest.mark.parametrize(
    ("value", "packed"),
    [
        (math.inf, {"$float": "inf"}),
        ((1, 2), {"$tuple": [1, 2]}),
        (b"\x00", {"$bytes": "AA=="}),
        ({1: "a"}, {"$map": [[1, "a"]]}),
        ({"$float": 1}, {"$map": [["$float", 1]]}),
    ],
)
def test_what_json_lacks_has_a_form(value, packed) -> None:
    assert pack(value) == packed
    assert unpack(packed) == value


@pytest.mark.parametrize(
    ("value", "packed"),
    [
        (np.float32(0.5), 0.5),
        (np.int64(3), 3),
        (OrderedDict(a=1), {"a": 1}),
        (MappingProxyType({"a": 1}), {"a": 1}),
        (Model(value=2), {"value": 2.0}),
        (3j, {"$repr": "3j"}),
    ],
)
def test_foreign_values_become_the_nearest_plain_one(value, packed) -> None:
    assert pack(value) == packed


@pytest.mark.parametrize("packed", [{"$float": "x"}, {"$tuple": 3}, {"$map": [1]}, {"$bytes": None}])
def test_what_pack_never_made_is_refused(packed) -> None:
    with pytest.raises(InputError, match=r"a stored value of kind \$\w+ cannot be read"):
        unpack(packed)
