"""The environments of the peers, one for each list of requirements here; they see our packages and hold their own."""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

from dragoman.model import openmp

ROOT = Path(__file__).resolve().parent.parent


def peer_python(variant: str = "") -> Path:
    """The interpreter of `.venv-bench` (`.venv-bench-VARIANT`), which is made and filled over the network where it is
    missing: with bench/requirements.txt (requirements-VARIANT.txt).

    Our own packages are visible in it behind its own, so that both sides run the same torch.
    """
    ending = f"-{variant}" if variant else ""
    home = ROOT / f".venv-bench{ending}"
    python = home / "bin" / "python"
    requirements = ROOT / "bench" / f"requirements{ending}.txt"
    stamp = home / "installed.txt"
    if stamp.is_file() and stamp.read_text(encoding="utf-8") == requirements.read_text(encoding="utf-8"):
        return python
    print(f"installing the peers of {requirements.name} into {home.name}", flush=True)
    subprocess.run([sys.executable, "-m", "venv", home], check=True)
    ours = sysconfig.get_paths()["purelib"]
    theirs = subprocess.run(
        [python, "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()
    (Path(theirs) / "dragoman.pth").write_text(f"{ours}\n", encoding="utf-8")
    subprocess.run([python, "-m", "pip", "install", "--quiet", "-r", requirements], check=True)
    stamp.write_text(requirements.read_text(encoding="utf-8"), encoding="utf-8")
    return python


def peer_environment() -> dict[str, str]:
    """The environment for a peer: threads of OpenMP wait as their own library has it, unless the user says how."""
    return {name: value for name, value in os.environ.items() if (name, value) != (openmp.SPINS, openmp.ROUNDS)}
