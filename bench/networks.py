"""Training every translation network at the parameters of Transformer-tiny, target tokens/s, in turns.

    python -m bench networks [--quick] [--threads N]

All have some 2.6M parameters over a vocabulary of 10,000 and train on the same made-up pairs, 4,096 tokens a batch, by
the loop that `dragoman train` runs. The figure is RNNsearch with additive attention; the peer is the Transformer.
"""

import argparse
import tempfile
from pathlib import Path
from typing import Any

import torch

from bench.result import Result, in_turns
from bench.sample_shards import write_sample_shards
from bench.sample_text import write_ids
from bench.train import VOCABULARY, training_speed
from conf import door
from model.architectures import build_network, model_config

FIXED = {"embedding": 160, "width": 224}
ATTENTIVE = {"embedding": 176, "width": 288, "encoder_width": 144}
NETWORKS: dict[str, dict[str, Any]] = {
    "transformer_tiny": {},
    "rnnenc": FIXED,
    "rnnenc_reversed": FIXED,
    "rnnsearch_additive": {**ATTENTIVE, "attention_width": 144},
    "rnnsearch_dot": ATTENTIVE,
    "rnnsearch_general": ATTENTIVE,
    "rnnsearch_scaled_dot": ATTENTIVE,
    "prefixlm_tiny": {},
}
OURS, PEER = "rnnsearch_additive", "transformer_tiny"


def run(quick: bool, args: list[str]) -> Result:
    """Tokens are the real ones of the target side, EOS included."""
    parser = argparse.ArgumentParser(prog="python -m bench networks")
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args(args)
    torch.set_num_threads(options.threads)
    configs = {name: configuration(name, changes) for name, changes in NETWORKS.items()}
    steps, rounds = (4, 1) if quick else (20, 3)
    with tempfile.TemporaryDirectory() as folder:
        shards = write_sample_shards(Path(folder) / "shards", write_ids(30_000, VOCABULARY), VOCABULARY)
        found = in_turns(
            rounds,
            **{name: lambda config=config: speed(shards, steps, config) for name, config in configs.items()},
        )
    for name, value in found.items():
        parameters = build_network(configs[name], VOCABULARY, VOCABULARY).parameter_count()
        print(f"{name:<22}{parameters / 1e6:6.2f}M parameters {value:10,.0f} target tokens/s")
    return Result("networks", found[OURS], found[PEER], "target tokens/s, RNNsearch additive against Transformer-tiny")


def configuration(name: str, changes: dict[str, Any]) -> Any:
    """conf/model/NAME.yaml with some sizes changed, typed."""
    overrides = [f"model={name}", *(f"model.{key}={value}" for key, value in changes.items())]
    return model_config(door.compose(overrides)["model"])


def speed(shards: Path, steps: int, config: Any) -> float:
    """bf16, as `dragoman train` by default."""
    return training_speed(shards, steps, "bf16", model=config)
