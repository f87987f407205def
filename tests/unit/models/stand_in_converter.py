"""A stand-in for llama.cpp's converter that knows small Llama models: MODEL --outfile FILE --outtype f32|f16."""

import argparse
import json
import sys
from pathlib import Path

import numpy as np
from gguf import GGUFWriter, LlamaFileType
from safetensors.numpy import load_file

NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def gguf_name(name: str) -> str:
    module = name.removesuffix(".weight")
    if module.startswith("model.layers."):
        number, _, part = module.removeprefix("model.layers.").partition(".")
        return f"blk.{number}.{NAMES[part]}.weight"
    return f"{NAMES[module]}.weight"


def interleaved(weight: np.ndarray, heads: int) -> np.ndarray:
    """The order in which GGUF keeps the rows of queries and keys."""
    rows, columns = weight.shape
    return weight.reshape(heads, 2, rows // heads // 2, columns).swapaxes(1, 2).reshape(rows, columns)


def convert(model: Path, target: Path, *, outtype: str) -> None:
    config = json.loads((model / "config.json").read_text())
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    writer = GGUFWriter(target, "llama")
    writer.add_file_type(LlamaFileType.MOSTLY_F16 if outtype == "f16" else LlamaFileType.ALL_F32)
    writer.add_vocab_size(config["vocab_size"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv_heads)
    writer.add_rope_dimension_count(config["head_dim"])
    writer.add_rope_freq_base(config["rope_parameters"]["rope_theta"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_chat_template((model / "chat_template.jinja").read_text())
    for name, weight in load_file(model / "model.safetensors").items():
        if "q_proj" in name or "k_proj" in name:
            weight = interleaved(weight, heads if "q_proj" in name else kv_heads)
        half = outtype == "f16" and weight.ndim == 2
        writer.add_tensor(gguf_name(name), weight.astype(np.float16 if half else np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("model", type=Path)
    parser.add_argument("--outfile", type=Path, required=True)
    parser.add_argument("--outtype", choices=["f32", "f16"], required=True)
    given = parser.parse_args(sys.argv[1:])
    convert(given.model, given.outfile, outtype=given.outtype)
