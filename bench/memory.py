"""Peak memory of sharding ten times a corpus (ours) and the corpus itself (baseline), MiB: a ratio near 1 is right."""

import subprocess
import sys
import tempfile
from pathlib import Path

from bench.result import Result
from bench.sample_text import write_text


def run(quick: bool, args: list[str]) -> Result:
    """Each size is a process of its own, one worker, and the tokenizer sees the same number of lines in both."""
    lines = 15_000 if quick else 200_000
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        peaks = {}
        for times in (1, 10):
            source, target = write_text(folder / str(times), lines * times)
            peaks[times] = _peak(folder / f"shards-{times}", source, target, lines)
            size = sum(path.stat().st_size for path in (source, target)) / 2**20
            print(f"{lines * times:>10,} pairs, {size:7.1f} MiB of text: peak {peaks[times]:7.1f} MiB", flush=True)
    return Result("memory", peaks[10], peaks[1], "MiB at most, 10 x the corpus and 1 x", "baseline")


def _peak(directory: Path, source: Path, target: Path, tokenizer_lines: int) -> float:
    """Peak resident memory of `dragoman shard` in MiB."""
    words = ["corpus=moses", f"corpus.train.source={source}", f"corpus.train.target={target}"]
    words += [f"paths.shards={directory}", "cluster.backend=local", f"tokenizer.train_lines={tokenizer_lines}"]
    measured = (
        "import resource, sys; from pipelines.entries import main; code = main(['shard', *sys.argv[1:]]); "
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr); sys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", measured, *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr)
    kibibytes = int(done.stderr.splitlines()[-1])
    return kibibytes / 1024
