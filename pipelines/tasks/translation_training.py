"""What one training process does: puts shards, loader, network and tracking together and runs the loop."""

import json
import logging
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from model.errors import UserError
from model.networks.architectures import ARCHITECTURES, architecture, build_network, model_config
from model.networks.network import TranslationNetwork
from model.renamed import current_values
from model.settings import DecodeConfig
from model.text.batch import TranslationBatch
from model.text.tokenizer import TokenizerPair, load_pair
from pipelines.cluster.ranks import Ranks
from pipelines.config import Config
from pipelines.evaluation.metrics import quick_bleu
from pipelines.evaluation.translation import held_out as held_out_texts
from pipelines.loaders.pairs import OF_PAIRS, LaneLoader, held_out_batches
from pipelines.shards.manifest import manifest_hash
from pipelines.shards.reader import ShardReader
from pipelines.shards.verify import verify_once
from pipelines.tasks import pretrained_embeddings
from pipelines.tasks.precision import settled
from pipelines.tracking.run import TrackedRun
from pipelines.training import checkpoint
from pipelines.training.loop import Progress, Trainer, limits

logger = logging.getLogger(__name__)

RECORD = "run.json"  # in a run's folder: what it is made of
VALIDATION_SENTENCES = 500  # decoded for a BLEU in mid-training; the final evaluation takes all


def train_rank(config: Config, ranks: Ranks) -> Progress:
    """Train on this rank until the run is over; goes on from the run's newest checkpoint.

    Raises:
        UserError: the shards, the model or the run directory do not fit each other.
    """
    run = config.run_dir
    reader = ShardReader(config.shard_dir, "train")
    tokenizers = load_pair(config.shard_dir, reader.manifest.tokenizer)
    network = fresh_network(config, tokenizers)
    loader = LaneLoader(reader, config.loader, config.seed, ranks.rank, ranks.world)
    tracked = TrackedRun(config.tracking, run, config.name) if ranks.first else None
    try:
        trainer = Trainer(
            network,
            architecture(config.model["architecture"]).loss,
            loader,
            config.loader.lanes,
            settled(config, network, ranks, tracked),
            run,
            ranks,
            config.seed,
            held_out=validation_batches(config, ranks),
            bleu=partial(validation_bleu, config, network, tokenizers, ranks),
        )
        return trainer.run(tracked.metrics if tracked else lambda step, values: None)
    finally:
        loader.close()
        if tracked:
            # The run goes on in the driver (evaluation, registration): hand over without ending it.
            tracked.leave()


def fresh_network(config: Config, tokenizers: TokenizerPair) -> TranslationNetwork:
    """The untrained network of the configuration; every rank draws the same weights from the seed.

    Raises:
        UserError: one table for two vocabularies, or the section `embeddings` asks for vectors that it cannot have.
    """
    torch.manual_seed(config.seed)
    network = build_network(model_config(config.model), tokenizers.source.vocabulary, tokenizers.target.vocabulary)
    network.check_vocabularies(tokenizers.joint)
    pretrained_embeddings.initialise(config, network, tokenizers)
    return network


def validation_batches(config: Config, ranks: Ranks) -> Callable[[], Iterable[TranslationBatch]]:
    """This rank's share of the validation batches, anew at each call."""
    reader = ShardReader(config.shard_dir, "valid")
    return lambda: held_out_batches(reader, config.loader.batch_tokens, ranks.rank, ranks.world)


def validation_bleu(config: Config, network: TranslationNetwork, tokenizers: TokenizerPair, ranks: Ranks) -> float:
    """Greedy sacreBLEU on the head of the validation set; each rank decodes its part, all get the same number."""
    from model.inference.translator import network_translator

    sources, references = held_out_texts(config.shard_dir, "valid", config.languages, VALIDATION_SENTENCES)
    network.eval()
    translator = network_translator(network, tokenizers, DecodeConfig(beam=1))
    mine = [answer.text for answer in translator.translate(sources[ranks.rank :: ranks.world])]
    network.train()
    hypotheses = [""] * len(sources)
    for rank, texts in enumerate(ranks.gather(mine)):
        hypotheses[rank :: ranks.world] = texts
    return quick_bleu(hypotheses, references)


def identity(config: Config) -> dict[str, Any]:
    """What makes two starts the same run: everything that the weights after a given step depend on."""
    return {**identity_of_text(config, OF_PAIRS), **pretrained_embeddings.identity(config)}


def identity_of_text(config: Config, of_loader: Sequence[str]) -> dict[str, Any]:
    """The same for any network; `of_loader`: the settings that its loader's order depends on."""
    train = asdict(config.train)
    return {
        "seed": config.seed,
        "shards": manifest_hash(config.shard_dir),
        "model": asdict(model_config(config.model)),
        "loader": {key: getattr(config.loader, key) for key in of_loader},
        "train": {key: train[key] for key in ("precision", "optimizer", "loss")},
    }


def warn_of_warmup(config: Config) -> None:
    """Say that a run will hardly train at its learning rate: most such warm-ups were meant for a longer run."""
    warmup, steps = config.train.optimizer.warmup_steps, config.train.max_steps
    if 3 * warmup > steps:
        logger.warning(
            f"train.optimizer.warmup_steps={warmup}: more than a third of train.max_steps={steps}; the learning rate "
            + (f"reaches {config.train.optimizer.lr:g} late" if warmup < steps else "never reaches its height")
            + f", and {max(1, steps // 10)} would leave it time to fall"
        )


def workers(config: Config) -> int:
    """How many processes will train."""
    return config.cluster.workers if config.cluster.backend == "ray" else int(os.environ.get("WORLD_SIZE", "1"))


def with_lanes(config: Config, runs: Iterable[Path]) -> Config:
    """The configuration with its number of lanes settled, where `loader.lanes` leaves it open (0).

    It is that of the first of `runs` that has begun, which goes on with the same batches on any number of ranks that
    divides it; else one a rank, two at least.
    """
    if config.loader.lanes:
        return config
    begun = (json.loads((run / RECORD).read_text(encoding="utf-8")) for run in runs if (run / RECORD).is_file())
    kept = (record["loader"]["lanes"] for record in begun if "loader" in record)
    return replace(config, loader=replace(config.loader, lanes=next(kept, max(2, workers(config)))))


def remaining(config: Config) -> bool:
    """Whether there is anything left to train."""
    newest = checkpoint.newest(config.run_dir)
    if newest is None:
        return True
    state = checkpoint.state(newest)
    step, max_steps = state["step"], config.train.max_steps
    over = step >= max_steps or (state["stopped"] and state["limits"] == limits(config.train))
    said = "is trained to its end" if over else f"goes on to step {max_steps:,}"
    logger.info(f"{config.name}: found the checkpoint of step {step:,}; the run {said}")
    return not over


def check_shards(config: Config) -> None:
    """Read every byte of the shards once and remember it: a flipped token id would train without a word.

    Raises:
        UserError: a file is missing or is not the one in the manifest.
    """
    if int(os.environ.get("RANK", "0")) == 0:  # torchrun starts this on every rank; one is enough
        verify_once(config.shard_dir, Path(config.paths.root).absolute() / "verified")


def claim(config: Config, wanted: dict[str, Any]) -> None:
    """Make the run directory, or check that it belongs to the same run: to one of the identity `wanted`.

    Raises:
        UserError: a run of this name was started with other settings; names each.
    """
    path = config.run_dir / RECORD
    if path.is_file():
        stored = current_values(json.loads(path.read_text(encoding="utf-8")))
        if wanted.get("train", {}).get("precision") == "auto":  # a run keeps the precision that it began in
            wanted = {**wanted, "train": {**wanted["train"], "precision": stored.get("train", {}).get("precision")}}
        if stored.get("model", {}).get("architecture") in ARCHITECTURES:  # not word vectors
            # A network that has been given a switch since then is the same one while that is at its default.
            stored["model"] = asdict(model_config(stored["model"]))
        differences = [
            f"{key} was {before!r}, is {now!r}"
            for key, before, now in _differences(stored, json.loads(json.dumps(wanted)))
        ]
        if differences:
            raise UserError(
                f"name={config.name}: the run in {config.run_dir} was started with other settings: "
                f"{'; '.join(differences)}. Choose another name=, or put the settings back to go on with it"
            )
        return
    config.run_dir.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    part.write_text(json.dumps(wanted, indent=2, sort_keys=True), encoding="utf-8")
    part.replace(path)


def _differences(before: Any, now: Any, where: str = "") -> Iterable[tuple[str, Any, Any]]:
    if isinstance(before, dict) and isinstance(now, dict):
        for key in sorted(before.keys() | now.keys()):
            yield from _differences(before.get(key), now.get(key), f"{where}.{key}" if where else key)
    elif before != now:
        yield where, before, now
