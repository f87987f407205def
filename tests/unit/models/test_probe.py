import pytest

from art_core.models.probe import Probe, choose_precision, probe


def figures(float32, bfloat16):
    return Probe(device="cpu", threads=2, float32_gflops=float32, bfloat16_gflops=bfloat16)


def test_bfloat16_has_to_be_clearly_faster():
    assert figures(75.0, 185.0).precision == "bfloat16"
    assert figures(75.0, 80.0).precision == "float32"
    assert figures(75.0, 8.0).precision == "float32"


def test_the_probe_measures_both_precisions():
    measured = probe(size=64, seconds=0.005)
    assert measured.float32_gflops > 0
    assert measured.bfloat16_gflops > 0


def test_a_named_precision_is_taken_without_asking():
    assert choose_precision("float32") == "float32"


def test_an_unknown_precision_is_named():
    with pytest.raises(ValueError, match="'int3' is not one of auto, float32, bfloat16"):
        choose_precision("int3")
