"""The start of bare Ray Train, a peer of `python -m bench start`: two workers whose train function writes a file.

Ray Train's quick start as its users write it, on a Ray of its own, with Ray's defaults.
"""

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import sys
from pathlib import Path

import ray
from ray import train
from ray.train.torch import TorchTrainer

def work(settings):
    if train.get_context().get_world_rank() == 0:
        Path(settings["mark"]).write_text("started")

ray.init(include_dashboard=False, num_cpus=2)
TorchTrainer(
    work,
    train_loop_config={"mark": sys.argv[1]},
    scaling_config=train.ScalingConfig(num_workers=2),
    run_config=train.RunConfig(name="bare", storage_path=sys.argv[2]),
).fit()
"""


def start_bare_ray_train(mark: Path) -> "subprocess.Popen[bytes]":
    """Starts the program; its train function makes the file `mark`."""
    words = [sys.executable, "-c", PROGRAM, str(mark), str(mark.parent / f"{mark.name}-ray")]
    return subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
