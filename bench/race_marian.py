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
from transformers import MarianConfig, MarianMTModel

from bench.race_peers import BEAM, SAVE_EVERY, SENTENCES
from dragoman.model.precision import bf16_instructions
from dragoman.model.shards.manifest import read_manifest
from dragoman.model.shards.reader import ShardReader
from dragoman.model.text.tokenizer import BOS, EOS, PAD
from dragoman.model.text.tokenizers import load_pair
from dragoman.pipelines.loaders.pairs import LaneLoader
from dragoman.pipelines.settings import LoaderConfig

WARM_UP = 300
TOKENS = 1024  # of an update, as eole's here
LONGEST = 100  # tokens of a translation


def make_network(vocabulary: int, dropout: float) -> MarianMTModel:
    """Returns the network with new weights."""
    config = MarianConfig(
        vocab_size=vocabulary,
        d_model=128,
        encoder_layers=4,
        decoder_layers=4,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=256,
        decoder_ffn_dim=256,
        dropout=dropout,
        attention_dropout=dropout,
        activation_dropout=0.0,
        activation_function="relu",
        max_position_embeddings=512,
        scale_embedding=True,
        pad_token_id=PAD,
        bos_token_id=BOS,
        eos_token_id=EOS,
        decoder_start_token_id=BOS,
        forced_eos_token_id=None,
    )
    return MarianMTModel(config)


def train(shards: Path, home: Path, rate: float, dropout: float) -> None:
    """Trains until the process is killed."""
    torch.manual_seed(1)
    pair = load_pair(shards, read_manifest(shards).tokenizer)
    network = make_network(pair.target.vocabulary, dropout).train()
    optimizer = torch.optim.Adam(network.parameters(), lr=rate, betas=(0.9, 0.98), fused=True)
    loader = LaneLoader(ShardReader(shards, "train"), LoaderConfig(lanes=1, batch_tokens=TOKENS), 1)
    bf16 = bool(bf16_instructions())
    (home / "model").mkdir()
    update = 0
    while True:
        update += 1
        optimizer.param_groups[0]["lr"] = rate * min(update / WARM_UP, (WARM_UP / update) ** 0.5)
        (batch,) = loader.step()
        labels = batch.target_out.masked_fill(batch.target_out == PAD, -100)
        with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            loss = network(
                input_ids=batch.source,
                attention_mask=(batch.source != PAD).long(),
                decoder_input_ids=batch.target_in,
                labels=labels,
            ).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if update % SAVE_EVERY == 0:
            part = home / "model" / f"part-{update}"
            save_file(dict(network.named_parameters()), part)  # each once
            part.rename(home / "model" / str(update))
            print(update, float(loss), flush=True)


def translate(shards: Path, home: Path, weights: Path) -> None:
    """Translates HOME/lines.txt; sorted by length, so that a batch has little padding."""
    pair = load_pair(shards, read_manifest(shards).tokenizer)
    network = make_network(pair.target.vocabulary, 0.0).eval()
    network.load_state_dict(load_file(weights), strict=False)  # buffers and tied tables are not stored
    lines = (home / "lines.txt").read_text(encoding="utf-8").split("\n")[:-1]
    rows = [[*map(int, ids), EOS] for ids in pair.source.encode(lines)]
    order = sorted(range(len(rows)), key=lambda row: -len(rows[row]))
    texts = [""] * len(rows)
    with torch.inference_mode():
        for first in range(0, len(order), SENTENCES):
            batch = order[first : first + SENTENCES]
            padded = torch.nn.utils.rnn.pad_sequence([torch.tensor(rows[row]) for row in batch], True, PAD)
            mask = (padded != PAD).long()
            ids = network.generate(padded, attention_mask=mask, num_beams=BEAM, max_new_tokens=LONGEST)[:, 1:].tolist()
            cut = [row[: row.index(EOS)] if EOS in row else row for row in ids]
            for row, text in zip(batch, pair.target.decode(cut), strict=True):
                texts[row] = text
    (home / "out.txt").write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")


if __name__ == "__main__":
    torch.set_num_threads(1)
    shards, home = (Path(word) for word in sys.argv[2:4])
    if sys.argv[1] == "train":
        train(shards, home, float(sys.argv[4]), float(sys.argv[5]))
    else:
        translate(shards, home, Path(sys.argv[4]))
