"""The peer of `bench train` in eole: its own command on the same pairs, its own figure for target tokens/s."""

import re
import subprocess
from pathlib import Path

import numpy as np
import yaml

from bench.peers import peer_environment, peer_python

REPORTS = 2  # the first report holds its warm-up, the second is taken


def eole(
    folder: Path,
    pairs: list[tuple[np.ndarray, np.ndarray]],
    vocabulary: int,
    steps: int,
    precision: str,
    threads: int,
) -> float:
    """eole's Transformer-tiny, 4,096 tokens a batch; the target tokens/s that it reports after its warm-up."""
    home = folder / "eole"
    if not home.exists():
        home.mkdir()
        for side, name in enumerate(("source", "target")):
            lines = (" ".join(f"w{word}" for word in pair[side]) + "\n" for pair in pairs)
            (home / f"{name}.txt").write_text("".join(lines), encoding="utf-8")
        (home / "vocabulary.txt").write_text(
            "".join(f"w{word}\t1\n" for word in range(6, vocabulary)), encoding="utf-8"
        )
    (home / "config.yaml").write_text(yaml.safe_dump(configuration(home, steps, precision)), encoding="utf-8")
    command = [str(peer_python().with_name("eole")), "train", "-config", str(home / "config.yaml")]
    environment = {**peer_environment(), "OMP_NUM_THREADS": str(threads)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    speeds = re.findall(r"([\d.]+)/([\d.]+) tok/s", done.stdout + done.stderr)
    if done.returncode or len(speeds) < REPORTS:
        raise RuntimeError(f"eole ended with exit code {done.returncode}:\n{(done.stdout + done.stderr)[-2000:]}")
    return float(speeds[REPORTS - 1][1])


def configuration(home: Path, steps: int, precision: str) -> dict[str, object]:
    """eole's settings for the sizes of Transformer-tiny."""
    return {
        "seed": 1,
        "save_data": str(home / "data"),
        "src_vocab": str(home / "vocabulary.txt"),
        "tgt_vocab": str(home / "vocabulary.txt"),
        "share_vocab": True,
        "n_sample": 0,
        "overwrite": True,
        "report_every": steps,
        "transforms": [],
        "data": {"corpus": {"path_src": str(home / "source.txt"), "path_tgt": str(home / "target.txt")}},
        "model": {
            "architecture": "transformer",
            "hidden_size": 128,
            "transformer_ff": 256,
            "heads": 4,
            "layers": 4,
            "embeddings": {"word_vec_size": 128, "position_encoding_type": "SinusoidalInterleaved"},
            "share_embeddings": True,
            "share_decoder_embeddings": True,
        },
        "training": {
            "model_path": str(home / "model"),
            "compute_dtype": precision,
            "batch_type": "tokens",
            "batch_size": 4096,
            "normalization": "tokens",
            "bucket_size": 30_000,
            "num_workers": 0,
            "train_steps": REPORTS * steps,
            "save_checkpoint_steps": 10**6,
            "valid_steps": 10**6,
            "optim": "adam",
            "learning_rate": 0.005,
            "decay_method": "noam",
            "warmup_steps": 2000,
            "label_smoothing": 0.1,
            "dropout_steps": [0],
            "dropout": [0.3],
            "attention_dropout": [0.3],
        },
    }
