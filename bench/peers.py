"""The environment of the peers: `.venv-bench`, which sees our packages and holds what bench/requirements.txt names."""

import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def peer_python() -> Path:
    """The interpreter of the peers' environment, which is made (and filled over the network) where there is none.

    Our own packages are visible in it behind its own, so that both sides run the same torch.
    """
    home = ROOT / ".venv-bench"
    python = home / "bin" / "python"
    requirements = ROOT / "bench" / "requirements.txt"
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
