"""What equal minutes of training give: BLEU of ours and of eole on the same shards, each on a core of its own at once.

    python -m bench minutes [--quick] [--corpus multi30k] [--pair en-fr] [--minutes 20] [--seed 1]
                            [--experiment multi30k]

Both have Transformer-tiny's sizes and the same pieces. Ours is the experiment as it is, but for the number of its
steps, which is what fits into the minutes by a minute's trial beside a trial of eole's: its rate falls to zero over
them. eole's rate falls with 1/sqrt(step) and needs no end, so it trains until ours is done, whose evaluations,
checkpoints and last bundle no trial foresees; its last checkpoint then counts. Both begin at once, search with a beam
of 5, and are scored by the same sacreBLEU on the test set.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import TypeVar

from bench import eole_minutes
from bench.english_text import CORPORA
from bench.quality import execute
from bench.result import Result
from pipelines.evaluation.metrics import score
from pipelines.evaluation.translation import held_out
from pipelines.training import journal

TRIAL = 1.0  # minutes
T = TypeVar("T")


def run(quick: bool, args: list[str]) -> Result:
    """Cased BLEU of the test set; --quick trains for three minutes, which says only that it works."""
    parser = argparse.ArgumentParser(prog="python -m bench minutes")
    parser.add_argument("--corpus", default="multi30k", help="a folder of the corpora that conf/corpus/ has a file for")
    parser.add_argument("--pair", default="en-fr")
    parser.add_argument("--minutes", type=float, default=3.0 if quick else 20.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--experiment", default="multi30k")
    options = parser.parse_args(args)
    root = CORPORA / options.corpus
    if not root.is_dir():
        sys.exit(f"bench minutes: --corpus={options.corpus}: there is no {root}")
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        sys.exit("bench minutes: needs two cores, one for each")
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        corpus = [f"corpus={options.corpus}", f"corpus.root={root}", f"pair={options.pair}", f"seed={options.seed}"]
        common = [f"experiment={options.experiment}", *corpus, "cluster.backend=local"]
        execute(["dragoman", "shard", *common], home)
        shards = home / "shards" / f"{options.corpus}-{options.pair}-bpe"
        eole_minutes.write_pieces(shards, home / "eole")
        sources, references = held_out(shards, "test", tuple(options.pair.split("-")))

        steps, _ = at_once(
            cores,
            lambda: trial(common, home, options.minutes),
            lambda: eole_minutes.train_for(TRIAL, home / "eole"),
        )
        eole_minutes.forget(home / "eole")
        done, begun = Event(), time.monotonic()
        at_once(
            cores,
            lambda: execute_and_tell(train_command(common, "ours", f"train.max_steps={steps}"), home, done),
            lambda: eole_minutes.train_while(lambda: not done.is_set(), home / "eole"),
        )
        seconds = time.monotonic() - begun
        updates = eole_minutes.newest(home / "eole")[0]
        target = options.pair.split("-")[1]
        ours = (home / "runs" / "ours" / f"hypotheses.test.{target}.txt").read_text("utf-8").split("\n")[:-1]
        theirs = eole_minutes.translate(shards, home / "eole", sources)
    print(f"ours {steps:,} steps and eole {updates:,} updates, both in {seconds / 60:.1f} minutes")
    found = {}
    for who, texts in (("ours", ours), ("eole", theirs)):
        one = score(texts, references, target)
        print(f"{who}: BLEU {one.bleu:.2f}, lower-cased {one.bleu_lowercase:.2f}, chrF {one.chrf:.2f}")
        found[who] = one.bleu
    return Result("minutes", found["ours"], found["eole"], f"BLEU of {options.corpus} {options.pair}")


def trial(common: list[str], home: Path, minutes: float) -> int:
    """The steps that fit into the minutes, by the second half of a trial."""
    execute(train_command(common, "trial", "train.max_steps=1000000", f"train.max_minutes={TRIAL}"), home)
    seconds = [line["seconds"] for line in steps_of(home / "runs" / "trial")]
    late = [moment for moment in seconds if moment >= seconds[-1] / 2]
    return max(10, int(60 * minutes * (len(late) - 1) / (late[-1] - late[0])))


def execute_and_tell(command: list[str], home: Path, done: Event) -> None:
    """Run it, and set `done` in the end, also where it fails: whoever waits for it stops then."""
    try:
        execute(command, home)
    finally:
        done.set()


def train_command(common: list[str], name: str, *more: str) -> list[str]:
    return ["dragoman", "train", *common, f"name={name}", "registry.register=false", "train.bleu_every=0", *more]


def steps_of(run: Path) -> list[dict[str, float]]:
    return [line for line in journal.lines(run / journal.NAME) if "batch" in line]


def at_once(cores: list[int], first: Callable[[], T], second: Callable[[], T]) -> tuple[T, T]:
    """What both give, each on a core of its own; the processes that a thread starts have the cores that it has."""

    def pinned(work: Callable[[], T], core: int) -> T:
        os.sched_setaffinity(0, {core})
        return work()

    with ThreadPoolExecutor(2) as pool:
        one, other = pool.submit(pinned, first, cores[0]), pool.submit(pinned, second, cores[1])
        return one.result(), other.result()
