"""Training Transformer-tiny at 4,096 tokens a batch, target tokens/s: ours against MarianMT and eole, in turns.

    python -m bench train [--quick] [--threads N]
    python -m bench train --curve          bf16 with our kernels against the plain fp32 loop, 2,000 steps, two seeds
    python -m bench train --device cuda    Transformer-base and big in bf16, beside the matmul rate (no peer needed)

The plain loop is our network with torch's own attention, dropout and cross-entropy: what the kernels of
model/device.py are worth. All train on the same made-up pairs with the lengths of Multi30k (15 tokens on average), each
peer in the precision and with the threads that are quickest for it on this machine.

Before its last line it prints two more, of ours against ours with OpenMP's own way of waiting (model/openmp.py):
`train-idle`, and `train-busy` beside a process that keeps one core busy.
"""

import argparse
import subprocess
import tempfile
from pathlib import Path

import torch

from bench import busy
from bench.loss_curve import loss_curve
from bench.peers import ROOT, peer_environment, peer_python
from bench.result import Result, best_setting, in_turns
from bench.sample_shards import write_sample_shards
from bench.sample_text import write_ids
from bench.trainer import TINY, VOCABULARY, WARM_UP, default_precision, plain_paths, training_speed


def run(quick: bool, args: list[str]) -> Result:
    """Tokens are the real ones of the target side, EOS included."""
    parser = argparse.ArgumentParser(prog="python -m bench train")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--curve", action="store_true")
    options = parser.parse_args(args)
    torch.set_num_threads(options.threads)
    with tempfile.TemporaryDirectory() as folder:
        if options.device == "cuda":
            from bench.gpu_training import gpu_training

            return gpu_training(Path(folder), quick)
        pairs = write_ids(30_000, VOCABULARY)
        shards = write_sample_shards(Path(folder) / "shards", pairs, VOCABULARY)
        if options.curve:
            return loss_curve(Path(folder), quick)
        from bench.eole_training import eole

        steps, rounds = (8, 1) if quick else (30, 3)
        tries = [(precision, cores) for precision in ("fp32", "bf16") for cores in {1, options.threads}]
        tries = [("bf16", options.threads)] if quick else tries
        of_marian = best_setting("marian", tries, lambda one: marian(shards, 4, *one))
        of_eole = best_setting("eole", tries, lambda one: eole(Path(folder), pairs, VOCABULARY, 4, *one))
        found = in_turns(
            rounds,
            ours=lambda: training_speed(shards, steps, default_precision(TINY)),
            ours_fp32=lambda: training_speed(shards, max(4, steps // 2), "fp32"),
            plain_fp32=lambda: plain_speed(shards, max(4, steps // 3)),
            marian=lambda: marian(shards, max(4, steps // 3), *of_marian),
            eole=lambda: eole(Path(folder), pairs, VOCABULARY, max(4, steps // 3), *of_eole),
        )
        busy.compare_waiting(shards, 3 if quick else steps, options.threads, rounds, 1 if quick else WARM_UP)
    for name, value in found.items():
        print(f"{name:<12} {value:10,.0f} target tokens/s")
    return Result(
        "train", found["ours"], max(found["marian"], found["eole"]), "target tokens/s, against the faster peer"
    )


def plain_speed(shards: Path, steps: int) -> float:
    """The same in fp32 by torch's own modules."""
    with plain_paths():
        return training_speed(shards, steps, "fp32")


def marian(shards: Path, steps: int, precision: str, threads: int) -> float:
    """transformers' MarianMT of the same sizes on the same batches, in a process of the peers' environment."""
    words = [str(peer_python()), "-m", "bench.marian_training", str(shards), precision]
    words += [str(number) for number in (steps, WARM_UP, threads)]
    out = subprocess.run(words, check=True, cwd=ROOT, env=peer_environment(), stdout=subprocess.PIPE, text=True).stdout
    return float(out.split()[-1])
