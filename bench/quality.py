"""The small figures of docs/, made again by the commands that gave them: how many are within their noise.

    python -m bench quality [--quick] [EXPERIMENT ...] [--seed N]
    python -m bench quality --list      the figures, their commands and their noise: the list in docs/notes

`bench/quality_figures.py` holds the figures. Each experiment runs its commands in a folder of its own, then each figure
of it is read from what they wrote. --quick leaves out what takes more than a minute or two of two idle cores. Figures
that a longer training gave are no part of this.
"""

import argparse
import os
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.english_text import CORPORA
from bench.peers import ROOT
from bench.quality_figures import EXPERIMENTS, Experiment, Figure, markdown
from bench.result import Result


def run(quick: bool, args: list[str]) -> Result:
    """ours: figures within their noise; baseline: figures that were made again."""
    parser = argparse.ArgumentParser(prog="python -m bench quality")
    parser.add_argument("experiments", nargs="*", metavar="EXPERIMENT", help=", ".join(EXPERIMENTS))
    parser.add_argument("--seed", type=int, default=1, help="of the trainings; those of docs/ began with 1")
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args(args)
    unknown = sorted(set(options.experiments) - EXPERIMENTS.keys())
    if unknown:
        parser.error(f"{unknown[0]!r} is not known. Choices: {', '.join(EXPERIMENTS)}")
    if options.list:
        print(markdown())
        return Result("quality", 0, 0, "figures, none of which was made again", "baseline")
    chosen = options.experiments or [name for name, one in EXPERIMENTS.items() if not (quick and one.slow)]
    within = [held for name in chosen for held in remake(name, EXPERIMENTS[name], options.seed)]
    left_out = [name for name in EXPERIMENTS if name not in chosen]
    if left_out:
        print(f"not made again: {', '.join(left_out)}")
    return Result(
        "quality", sum(within), len(within), "figures of docs/ within their noise, of those made again", "baseline"
    )


def remake(name: str, experiment: Experiment, seed: int) -> list[bool]:
    """Whether each figure of the experiment came out within its noise; a line a figure. Empty without its corpora."""
    if not all((CORPORA / corpus).is_dir() for corpus in experiment.corpora):
        print(f"{name}: left out, {CORPORA} has no {' and '.join(experiment.corpora)}")
        return []
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        places = {"home": folder, "corpora": str(CORPORA), "seed": str(seed)}
        for command in experiment.commands:
            print(f"$ {command}", flush=True)
            execute([word.format(**places) for word in shlex.split(command)], Path(folder))
        found = experiment.read(Path(folder))
    print(f"{name}: {time.perf_counter() - began:.0f} s")
    return [told(figure, found[figure.name]) for figure in experiment.figures]


def execute(words: list[str], home: Path) -> None:
    """A command of `dragoman`, quietly.

    Raises:
        RuntimeError: it failed; holds what it said.
    """
    programs = {"dragoman": [sys.executable, "-m", "dragoman.services.cli"], "python": [sys.executable]}
    command = [*programs[words[0]], *words[1:]]
    environment = {**os.environ, "DRAGOMAN_HOME": str(home), "MPLBACKEND": "agg"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{shlex.join(words)}: {done.stdout[-2000:]}{done.stderr[-2000:]}")


def told(figure: Figure, measured: float) -> bool:
    """Print one line, and say whether the figure is within its noise."""
    low, high = figure.interval
    held = low <= measured <= high
    print(
        f"  {'within ' if held else 'OUTSIDE'} {figure.name}: {measured:.4g}, {figure.page} has {figure.text} "
        f"({low:.4g} to {high:.4g})"
    )
    return held
