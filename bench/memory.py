"""Peak memory of sharding ten times a corpus (ours) and the corpus itself (baseline), MiB: a ratio near 1 is right.

    python -m bench memory [--quick]
    python -m bench memory --training [--quick]

--training: the process of `dragoman train` from its start to the released bundle, Transformer-tiny with two lanes of
2,048 tokens, beside eole's own command on the same pieces, sizes and tokens an update, which ends with its last
checkpoint; one thread each.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

from bench.result import Result
from bench.sample_text import write_text

ONE_THREAD = {**os.environ, "OMP_NUM_THREADS": "1"}
DRAGOMAN = [
    sys.executable,
    "-c",
    "import sys; from dragoman.pipelines.entries import main; sys.exit(main(sys.argv[1:]))",
]


def run(quick: bool, args: list[str]) -> Result:
    """Each measurement is a process of its own."""
    parser = argparse.ArgumentParser(prog="python -m bench memory")
    parser.add_argument("--training", action="store_true")
    with tempfile.TemporaryDirectory() as name:
        return (training if parser.parse_args(args).training else sharding)(Path(name), quick)


def sharding(folder: Path, quick: bool) -> Result:
    """One worker, and the tokenizer sees the same number of lines in both."""
    lines = 15_000 if quick else 200_000
    peaks = {}
    for times in (1, 10):
        source, target = write_text(folder / str(times), lines * times)
        peaks[times] = peak(shard_command(folder / f"shards-{times}", source, target, lines), folder)
        size = sum(path.stat().st_size for path in (source, target)) / 2**20
        print(f"{lines * times:>10,} pairs, {size:7.1f} MiB of text: peak {peaks[times]:7.1f} MiB", flush=True)
    return Result("memory", peaks[10], peaks[1], "MiB at most, 10 x the corpus and 1 x", "baseline")


def training(folder: Path, quick: bool) -> Result:
    """So many updates that lengths in all their combinations have been seen."""
    from bench.eole_training import configuration
    from bench.peers import peer_python
    from bench.race_peers import write_pieces

    lines, steps = (15_000, 20) if quick else (60_000, 400)
    source, target = write_text(folder / "text", lines)
    shards, home = folder / "shards", folder / "eole"
    peak(shard_command(shards, source, target, lines), folder)
    words = ["model=transformer_tiny", "loader.batch_tokens=2048", "name=tiny", f"train.max_steps={steps}"]
    words += [f"train.evaluate_every={steps // 2}", f"paths.shards={shards}", f"paths.root={folder}"]
    words += ["cluster.backend=local", "registry.register=false", "evaluate.split=valid"]
    words += ["decode.max_ratio=1", "decode.max_extra=0"]  # as a trained network's: a new one finds no end
    ours = peak([*DRAGOMAN, "train", *words], folder)
    write_pieces(shards, home)
    theirs = {}
    for precision in ("fp32", "bf16"):
        settings = configuration(home, steps // 2, precision)  # for two reports
        (home / "config.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")
        eole = [str(peer_python().with_name("eole")), "train", "-config", str(home / "config.yaml")]
        theirs[precision] = peak(eole, folder)
        print(f"eole in {precision}: peak {theirs[precision]:.1f} MiB", flush=True)
    return Result("memory-training", ours, min(theirs.values()), f"MiB at most, {steps} updates of Transformer-tiny")


def shard_command(directory: Path, source: Path, target: Path, tokenizer_lines: int) -> list[str]:
    """`dragoman shard` of two files, in one process."""
    words = ["corpus=moses", f"corpus.train.source={source}", f"corpus.train.target={target}"]
    words += [f"paths.shards={directory}", "cluster.backend=local", f"tokenizer.train_lines={tokenizer_lines}"]
    words += ["corpus.check=off"]  # the text is made up
    return [*DRAGOMAN, "shard", *words]


def peak(command: list[str], folder: Path) -> float:
    """Run it with its output in a file; the peak resident memory of its process in MiB, as the system counts it.

    Raises:
        RuntimeError: it failed; with the end of what it said.
    """
    said = folder / "said.log"
    with said.open("wb") as log:
        process = subprocess.Popen(command, env=ONE_THREAD, stdout=log, stderr=subprocess.STDOUT)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with exit code {process.returncode}: {said.read_text()[-2000:]}")
    return usage.ru_maxrss / 1024
