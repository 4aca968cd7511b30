"""MarianMT in `bench race`, by the peers' interpreter.

    python -m bench.race_marian train SHARDS HOME RATE DROPOUT    # HOME/model/N every 50 updates, without end
    python -m bench.race_marian translate SHARDS HOME WEIGHTS     # HOME/lines.txt -> HOME/out.txt

Transformer-tiny's sizes, its own loss, Adam, a linear warm-up and then 1 / sqrt(updates), in bf16 if the processor
has it, on the batches of our loader.
"""

import sys
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from bench.marian import generate, make_adam, make_network, update
from bench.race_peers import BEAM, SAVE_EVERY, SENTENCES
from dragoman.model.precision import bf16_instructions
from dragoman.model.shards.manifest import read_manifest
from dragoman.model.shards.reader import ShardReader
from dragoman.model.text.tokenizer import EOS
from dragoman.model.text.tokenizer_files import load_pair
from dragoman.pipelines.loaders.pairs import LaneLoader
from dragoman.pipelines.settings import LoaderConfig

WARM_UP = 300
TOKENS = 1024  # of an update, as eole's here
LONGEST = 100  # tokens of a translation


def train(shards: Path, home: Path, rate: float, dropout: float) -> None:
    """Trains until the process is killed."""
    torch.manual_seed(1)
    pair = load_pair(shards, read_manifest(shards).tokenizer)
    network = make_network(pair.target.vocabulary, dropout=dropout, attention_dropout=dropout).train()
    optimizer = make_adam(network, rate)
    loader = LaneLoader(ShardReader(shards, "train"), LoaderConfig(lanes=1, batch_tokens=TOKENS), 1)
    bf16 = bool(bf16_instructions())
    (home / "model").mkdir()
    number = 0
    while True:
        number += 1
        optimizer.param_groups[0]["lr"] = rate * min(number / WARM_UP, (WARM_UP / number) ** 0.5)
        (batch,) = loader.step()
        loss = update(network, optimizer, batch, bf16)
        if number % SAVE_EVERY == 0:
            part = home / "model" / f"part-{number}"
            save_file(dict(network.named_parameters()), part)  # each once
            part.rename(home / "model" / str(number))
            print(number, float(loss), flush=True)


def translate(shards: Path, home: Path, weights: Path) -> None:
    """Translates HOME/lines.txt."""
    pair = load_pair(shards, read_manifest(shards).tokenizer)
    network = make_network(pair.target.vocabulary).eval()
    network.load_state_dict(load_file(weights), strict=False)  # buffers and tied tables are not stored
    lines = (home / "lines.txt").read_text(encoding="utf-8").split("\n")[:-1]
    rows = [[*map(int, ids), EOS] for ids in pair.source.encode(lines)]
    texts = pair.target.decode(generate(network, rows, SENTENCES, num_beams=BEAM, max_new_tokens=LONGEST))
    (home / "out.txt").write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")


if __name__ == "__main__":
    torch.set_num_threads(1)
    shards, home = (Path(word) for word in sys.argv[2:4])
    if sys.argv[1] == "train":
        train(shards, home, float(sys.argv[4]), float(sys.argv[5]))
    else:
        translate(shards, home, Path(sys.argv[4]))
