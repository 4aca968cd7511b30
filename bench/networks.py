"""Training every network at the parameters of Transformer-tiny, tokens/s, in turns.

    python -m bench networks [--quick] [--threads N]

All have some 2.6M parameters over a vocabulary of 10,000 (language models have no second side and some 2.2M) and train
on the same made-up pairs, 4,096 tokens a batch, by the loop that `dragoman train` runs; language models read the target
sides, rows of 128 tokens. The figure is RNNsearch with additive attention; the baseline is the Transformer.
"""

import argparse
import tempfile
from pathlib import Path
from typing import Any

import torch

from bench.result import Result, in_turns
from bench.sample_shards import write_sample_shards
from bench.sample_text import write_ids
from bench.trainer import TOKENS, VOCABULARY, default_precision, training_speed
from dragoman.conf import compose
from dragoman.model.networks.architectures import any_network, architecture, model_config
from dragoman.pipelines.config import Config
from dragoman.pipelines.tasks.language import Texts

FIXED = {"embedding": 160, "width": 224}
ATTENTIVE = {"embedding": 176, "width": 288, "encoder_width": 144}
RECURRENT = {"embedding": 176, "width": 176}
TEXT = ["loader.side=target", "loader.lanes=1", f"loader.batch_tokens={TOKENS}", "corpus.format=tsv"]
NETWORKS: dict[str, dict[str, Any]] = {
    "transformer_tiny": {},
    "rnnenc": FIXED,
    "rnnenc_reversed": FIXED,
    "rnnsearch_additive": {**ATTENTIVE, "attention_width": 144},
    "rnnsearch_dot": ATTENTIVE,
    "rnnsearch_general": ATTENTIVE,
    "rnnsearch_scaled_dot": ATTENTIVE,
    "prefixlm_tiny": {},
    "rnnlm_tanh": RECURRENT,
    "rnnlm_relu": RECURRENT,
    "rnnlm_gru": RECURRENT,
    "rnnlm_lstm": RECURRENT,
    "rnnlm_attention": RECURRENT,
    "gpt_tiny": {},
    "gpt_tiny with BatchNorm": {"norm_kind": "batch"},
    "statelm_linear": {},
    "statelm_selective": {},
    "bert_tiny": {},
}
OURS, BASELINE = "rnnsearch_additive", "transformer_tiny"


def run(quick: bool, args: list[str]) -> Result:
    """Tokens are the real ones that are predicted, EOS included; of masked text, those that were to be guessed."""
    parser = argparse.ArgumentParser(prog="python -m bench networks")
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args(args)
    torch.set_num_threads(options.threads)
    settings = {name: overrides(name, changes) for name, changes in NETWORKS.items()}
    steps, rounds = (2, 1) if quick else (20, 3)
    with tempfile.TemporaryDirectory() as folder:
        shards = write_sample_shards(Path(folder) / "shards", write_ids(30_000, VOCABULARY), VOCABULARY)
        found = in_turns(
            rounds,
            **{name: lambda words=words: speed(shards, steps, words) for name, words in settings.items()},
        )
    for name, value in found.items():
        config = model_config(compose.values(settings[name])["model"])
        parameters = any_network(config, VOCABULARY, VOCABULARY).parameter_count()
        print(f"{name:<26}{parameters / 1e6:6.2f}M parameters {value:10,.0f} tokens/s")
    return Result(
        "networks", found[OURS], found[BASELINE], "target tokens/s, RNNsearch additive, Transformer-tiny", "baseline"
    )


def overrides(name: str, changes: dict[str, Any]) -> list[str]:
    """The command line of conf/model/NAME.yaml, the first word of `name`, with some settings changed."""
    return [f"model={name.partition(' ')[0]}", *(f"model.{key}={value}" for key, value in changes.items())]


def speed(shards: Path, steps: int, words: list[str]) -> float:
    """In the precision that `dragoman train` takes by default."""
    values = compose.values([*words, f"paths.shards={shards}", *TEXT])
    model = model_config(values["model"])
    precision = default_precision(model)
    if architecture(model.architecture).kind == "translation":
        return training_speed(shards, steps, precision, model=model)
    config = compose.typed(Config, values)
    return training_speed(shards, steps, precision, model=model, loader=Texts(config).loader())
