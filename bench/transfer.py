"""Fine-tuning to a domain: all weights, and low-rank factors alone, from a network of Tatoeba to medical texts.

    python -m bench transfer [--quick] [--root CORPORA] [--steps N] [--tuning N]

English to French. A `transformer_tiny` learns Tatoeba, then TICO-19 and Tatoeba by turns, so that it does not forget:
once with all weights (`train.init_from`), once with factors of rank 8 beside them (`train.lora.rank`). Each takes the
better of two learning rates by BLEU of both validation sets. TICO-19 is cut in its order, so that no text stands in two
parts; its lines 425 to 698, which are not translations of each other, are left out. The figure is the BLEU of the
factors on TICO-19's test set, the baseline that of all weights; the table has Tatoeba's test set too.
"""

import argparse
import gzip
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import sacrebleu

from bench.result import Result
from dragoman.conf import compose
from dragoman.model.inference.translator import open_translator
from dragoman.pipelines import train
from dragoman.pipelines.config import Config
from dragoman.pipelines.evaluation.held_out import held_out
from dragoman.pipelines.loaders.texts import unpack_split
from dragoman.pipelines.shard import shard

ROOT = Path("../shared/corpora")
MISALIGNED = range(424, 698)  # TICO-19's lines, from 0
HELD_OUT = 250  # pairs of TICO-19 to validate with, and as many to test with
RATES = {"all weights": (0.0005, 0.002), "rank 8": (0.002, 0.008)}
FACTORS = ["train.lora.rank=8"]
MAY_LOSE = 1.0  # BLEU of Tatoeba's validation set, where a rate is chosen
Splits = dict[str, list[tuple[str, str]]]
Scores = dict[str, float]  # by corpus


def run(quick: bool, args: list[str]) -> Result:
    """BLEU of TICO-19: rank 8 against all weights."""
    parser = argparse.ArgumentParser(prog="python -m bench transfer")
    parser.add_argument("--root", type=Path, default=ROOT)
    parser.add_argument("--steps", type=int, default=20 if quick else 3_000)
    parser.add_argument("--tuning", type=int, default=10 if quick else 400)
    options = parser.parse_args(args)
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        tatoeba = ["corpus=tatoeba", f"corpus.root={options.root / 'tatoeba'}", "tokenizer.vocabulary=10000"]
        broad = settings([*tatoeba, "name=broad", f"paths.root={home}", *training(options.steps, 0.004)])
        shard(broad)
        train.task(broad)
        sets = {"tatoeba": cut_tatoeba(broad), "tico": cut_tico(options.root / "tico19")}
        parts = ", ".join(f"{{name: {corpus}, {', '.join(write(sets, corpus, home))}}}" for corpus in sets)
        common = ["corpus=mix", f"corpus.parts=[{parts}]", f"paths.root={home}", f"tokenizer.same_as={broad.run_dir}"]
        weights = "loader.mix.weights={tico: 1, tatoeba: 1}"
        shard(settings([*common, "name=both"]))
        before = scores(broad.run_dir, sets, "valid")
        chosen = {"broad": broad.run_dir}
        for who, rates in RATES.items():
            words = [*common, weights, f"train.init_from={broad.run_dir}", *(FACTORS if who == "rank 8" else [])]
            tried = [tune(words, rate, options.tuning, sets, who) for rate in rates]
            kept = [one for one in tried if one[0]["tatoeba"] > before["tatoeba"] - MAY_LOSE]
            chosen[who] = max(kept or tried, key=lambda one: one[0]["tico"])[1]
        found = {who: scores(run_dir, sets, "test") for who, run_dir in chosen.items()}
    for who, each in found.items():
        print(f"{who:>12}: BLEU of the test sets: {', '.join(f'{corpus} {bleu:.2f}' for corpus, bleu in each.items())}")
    return Result("transfer", found["rank 8"]["tico"], found["all weights"]["tico"], "BLEU of TICO-19", "baseline")


def training(steps: int, rate: float) -> list[str]:
    """The words of a training of so many steps."""
    every = max(1, steps // 10)
    return [
        f"train.max_steps={10 * every}", f"train.evaluate_every={5 * every}", f"train.checkpoint_every={every}",
        "train.average_last=2", "train.optimizer.kind=muon", f"train.optimizer.lr={rate}",
        "train.optimizer.schedule=cosine", f"train.optimizer.warmup_steps={min(250, every)}",
    ]  # fmt: skip


def settings(words: Sequence[str]) -> Config:
    """The same for all trainings."""
    values = compose.values(
        [
            "pair=en-fr", "model=transformer_tiny", "tokenizer=bpe", "loader.batch_tokens=2048", "decode.beam=1",
            "decode.length_penalty=1.0", "cluster.backend=local", "registry.register=false", "tracking.offline=true",
            "tracking.system_metrics=false", "evaluate.split=valid", *words,
        ]
    )  # fmt: skip
    return compose.typed(Config, values)


def tune(words: Sequence[str], rate: float, steps: int, sets: dict[str, Splits], who: str) -> tuple[Scores, Path]:
    """Fine-tunes at this rate; returns the scores of the validation sets, and the run."""
    config = settings([*words, f"name={who.replace(' ', '-')}-{rate}", *training(steps, rate)])
    train.task(config)
    valid = scores(config.run_dir, sets, "valid")
    print(f"{who}, rate {rate}: BLEU of the validation sets {valid}", flush=True)
    return valid, config.run_dir


def scores(run_dir: Path, sets: dict[str, Splits], split: str) -> Scores:
    """Returns BLEU of each corpus's split."""
    translator = open_translator(run_dir / "bundle", "ctranslate2")
    found = {}
    for corpus, splits in sets.items():
        sources, references = zip(*splits[split], strict=True)
        answers = [answer.text for answer in translator.translate(sources)]
        found[corpus] = float(sacrebleu.corpus_bleu(answers, [list(references)], tokenize="13a").score)
    return found


def cut_tatoeba(config: Config) -> Splits:
    """Returns the splits of the shards."""
    held = {
        split: list(zip(*held_out(config.shard_dir, split, config.languages), strict=True))
        for split in ("valid", "test")
    }
    return {"train": [(source, target) for source, target in unpack_split(config.shard_dir, "train")], **held}


def cut_tico(folder: Path) -> Splits:
    """Returns the aligned lines: the last are the test set, those before them validate."""
    sides = (read(folder / f"tico19-test.{language}.gz") for language in ("eng", "fra"))
    pairs = [pair for row, pair in enumerate(zip(*sides, strict=True)) if row not in MISALIGNED]
    return {"train": pairs[: -2 * HELD_OUT], "valid": pairs[-2 * HELD_OUT : -HELD_OUT], "test": pairs[-HELD_OUT:]}


def read(path: Path) -> list[str]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [line.rstrip("\n") for line in lines]


def write(sets: dict[str, Splits], corpus: str, folder: Path) -> Iterator[str]:
    """Writes the splits as files, and yields their settings as a part of a mix."""
    for split, pairs in sets[corpus].items():
        files = {side: folder / f"{corpus}.{split}.{side}" for side in ("source", "target")}
        for row, path in enumerate(files.values()):
            path.write_text("".join(f"{pair[row]}\n" for pair in pairs), encoding="utf-8")
        yield f"{split}: {{source: {files['source']}, target: {files['target']}}}"
