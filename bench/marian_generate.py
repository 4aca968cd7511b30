"""The peer of `decode`: `python -m bench.marian_generate BUNDLE WORK` in the peers' environment.

transformers' MarianMT with the bundle's trained weights, from ids to ids. WORK is JSON: `sources`, rows of ids with
their end of sentence, and `beam`, `alpha`, `longest`, `forbidden`, `batch`, `dtype`, `threads` as bench/decode.py has
them. Writes WORK.out, the rows of ids it made in the order of the sources; prints sentences/s.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import MarianMTModel

from bench.marian import generate, make_network
from dragoman.model.bundles.translation import load_bundle
from dragoman.model.networks.transformer import Transformer


def main(bundle: Path, path: Path) -> float:
    """Sentences a second, in batches of similar lengths."""
    work = json.loads(path.read_text(encoding="utf-8"))
    ours = load_bundle(bundle).network
    assert isinstance(ours, Transformer)
    network = marian(ours).to(getattr(torch, work["dtype"])).eval()
    torch.set_num_threads(work["threads"])
    sources: list[list[int]] = work["sources"]
    options = {
        "num_beams": work["beam"],
        "length_penalty": work["alpha"],
        "early_stopping": True,  # as ours: a sentence is done when as many hypotheses as the beam have ended
        "max_new_tokens": work["longest"],
        "suppress_tokens": work["forbidden"],
        "do_sample": False,
    }
    generate(network, sorted(sources, key=len)[-2:], 2, **options)
    began = time.perf_counter()
    made = generate(network, sources, work["batch"], **options)
    seconds = time.perf_counter() - began
    path.with_suffix(".out").write_text(json.dumps(made), encoding="utf-8")
    return len(sources) / seconds


def marian(ours: Transformer) -> MarianMTModel:
    """The same network as MarianMT, our table of positions included (Marian lays its sinusoids out otherwise).

    Marian is the paper's: normalisation after a sublayer, full heads, relu or gelu, one table for everything.
    """
    config = ours.config
    shape = (config.norm, config.norm_kind, config.positions, config.tie, config.kv_heads)
    if shape != ("post", "layer", "sinusoidal", "all", 0) or config.activation == "swiglu":
        raise SystemExit(f"bench decode: MarianMT has not this network's shape: {config}")
    rows, width = ours.target_embedding.weight.shape
    theirs = make_network(
        rows,
        d_model=width,
        encoder_layers=config.encoder_layers,
        decoder_layers=config.decoder_layers,
        encoder_attention_heads=config.heads,
        decoder_attention_heads=config.heads,
        encoder_ffn_dim=config.feed_forward,
        decoder_ffn_dim=config.feed_forward,
        activation_function=config.activation,
        max_position_embeddings=config.max_positions,
    )
    table = ours.target_embedding.weight
    weights = {name: table for name, found in theirs.state_dict().items() if found.shape == table.shape}
    weights |= {f"model.{side}.embed_positions.weight": ours.target_positions.table for side in ("encoder", "decoder")}
    weights["final_logits_bias"] = torch.zeros(1, rows)
    for side, layers in (("encoder", ours.encoder), ("decoder", ours.decoder)):
        for number, layer in enumerate(layers):
            weights |= {f"model.{side}.layers.{number}.{name}": tensor for name, tensor in layer_weights(layer).items()}
    theirs.load_state_dict(weights)
    return theirs


def layer_weights(layer: Any) -> dict[str, Tensor]:
    """A layer's weights under Marian's names; joint products are cut into theirs."""
    found: dict[str, Tensor] = {}

    def put(module: Any, *names: str) -> None:
        for kind in ("weight", "bias"):
            parts = getattr(module, kind).detach().chunk(len(names))
            found.update({f"{name}.{kind}": part for name, part in zip(names, parts, strict=True)})

    put(layer.self_attention.qkv, *(f"self_attn.{part}_proj" for part in "qkv"))
    put(layer.self_attention.out, "self_attn.out_proj")
    put(layer.self_sublayer.norm, "self_attn_layer_norm")
    if hasattr(layer, "cross_attention"):
        put(layer.cross_attention.q, "encoder_attn.q_proj")
        put(layer.cross_attention.kv, "encoder_attn.k_proj", "encoder_attn.v_proj")
        put(layer.cross_attention.out, "encoder_attn.out_proj")
        put(layer.cross_sublayer.norm, "encoder_attn_layer_norm")
    put(layer.feed_forward.inner, "fc1")
    put(layer.feed_forward.outer, "fc2")
    put(layer.feed_forward_sublayer.norm, "final_layer_norm")
    return found


if __name__ == "__main__":
    print(main(Path(sys.argv[1]), Path(sys.argv[2])))
