import pytest
from pydantic import Field, model_validator

from art_core.config import Config, read_toml
from art_core.errors import InputError


class Inner(Config):
    rank: int = Field(16, ge=1)


class Outer(Config):
    name: str = "run"
    """What the run is called."""
    lora: Inner = Inner()
    note: str | None = None


def test_defaults_and_overrides() -> None:
    config = Outer.build({"lora": {"rank": 4}}, name="x")
    assert (config.name, config.lora.rank) == ("x", 4)


def test_fields_are_documented() -> None:
    assert Outer.model_fields["name"].description == "What the run is called."


def test_a_config_is_frozen() -> None:
    with pytest.raises(ValueError, match="frozen"):
        Outer().name = "y"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"nam": "x"}, "^unknown option 'nam'; valid ones here: lora, name, note$"),
        ({"lora": {"alpha": 1}}, r"^unknown option 'lora\.alpha'; valid ones here: rank$"),
        ({"lora": {"rank": 0}}, r"^lora\.rank = 0: Input should be greater than or equal to 1$"),
        ({"name": 3}, "^name = 3: Input should be a valid string$"),
    ],
)
def test_a_bad_value_is_one_sentence(values, text) -> None:
    with pytest.raises(InputError, match=text):
        Outer.build(values)


def test_a_sentence_about_several_keys_does_not_show_them_all() -> None:
    class Pair(Config):
        low: int = 0
        high: int = 1

        @model_validator(mode="after")
        def _ordered(self) -> "Pair":
            if self.low > self.high:
                raise ValueError(f"low = {self.low} must not be above high = {self.high}")
            return self

    class Holder(Config):
        pair: Pair = Pair()

    with pytest.raises(InputError, match=r"^low = 3 must not be above high = 1$"):
        Pair.build(low=3)
    with pytest.raises(InputError, match=r"^pair: low = 3 must not be above high = 1$"):
        Holder.build({"pair": {"low": 3}})


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_number_must_be_finite(value) -> None:
    class Rate(Config):
        rate: float

    with pytest.raises(InputError, match=r"rate = .*finite"):
        Rate.build(rate=value)


def test_to_dict_leaves_out_what_is_not_set_and_builds_again() -> None:
    values = Outer(name="x").to_dict()
    assert values == {"name": "x", "lora": {"rank": 16}}
    assert Outer.build(values) == Outer(name="x")


def test_reading_a_file(tmp_path) -> None:
    path = tmp_path / "run.toml"
    path.write_text('name = "x"\n[lora]\nrank = 2\n')
    assert read_toml(path, Outer) == Outer(name="x", lora=Inner(rank=2))


@pytest.mark.parametrize(
    ("content", "text"), [("name = ", "run.toml is not valid TOML"), ("nam = 1", "run.toml: unknown option 'nam'")]
)
def test_files_that_cannot_be_used(tmp_path, content, text) -> None:
    path = tmp_path / "run.toml"
    path.write_text(content)
    with pytest.raises(InputError, match=text):
        read_toml(path, Outer)


def test_a_file_that_is_not_there(tmp_path) -> None:
    with pytest.raises(InputError, match=r"cannot read '.*none\.toml': No such file"):
        read_toml(tmp_path / "none.toml", Outer)
