"""What equal minutes of training give: BLEU of ours and of eole on the same shards, each on a core of its own at once.

    python -m bench minutes [--quick] [--corpus multi30k] [--pair en-fr] [--minutes 20] [--seed 1]
                            [--experiment multi30k]

Both have Transformer-tiny's sizes and the same pieces. Ours is the experiment as it is, but for the number of its
steps, which is what fits into the minutes by a minute's trial beside a trial of eole's: its rate falls to zero over
them. eole's rate falls with 1/sqrt(step) and needs no end, so it trains until ours is done, whose evaluations,
checkpoints and last bundle no trial foresees; its last checkpoint then counts. Both begin at once, search with a beam
of 5, and are scored by the same sacreBLEU on the test set.
"""

import tempfile
import time
from pathlib import Path
from threading import Event

from bench import eole_minutes
from bench.quality import execute
from bench.result import Result
from bench.two_cores import at_once, corpus_arguments, corpus_overrides, train_command, two_cores
from dragoman.model.runs import journal, paths
from dragoman.pipelines.evaluation.held_out import held_out
from dragoman.pipelines.evaluation.metrics import score

TRIAL = 1.0  # minutes


def run(quick: bool, args: list[str]) -> Result:
    """Cased BLEU of the test set; --quick trains for three minutes, which says only that it works."""
    parser = corpus_arguments("minutes", pair="en-fr")
    parser.add_argument("--minutes", type=float, default=3.0 if quick else 20.0)
    parser.add_argument("--experiment", default="multi30k")
    options = parser.parse_args(args)
    corpus, cores = corpus_overrides("minutes", options.corpus), two_cores("minutes")
    common = [f"experiment={options.experiment}", *corpus, f"pair={options.pair}", f"seed={options.seed}"]
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
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


def steps_of(run: Path) -> list[dict[str, float]]:
    return [line for line in journal.lines(run / paths.STEPS) if "batch" in line]
