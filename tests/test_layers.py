"""What imports load and make, and by which names ours are imported; who may import whom is for `make check`."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
LINKED = ("conf", "model", "pipelines", "services")  # folders at the top that `dragoman/` holds links to


def run(code: str) -> None:
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT, timeout=120)


def test_nothing_imports_ours_by_the_names_of_the_folders() -> None:
    """`import model` is somebody else's package, or a second copy of ours."""
    names = "|".join(LINKED)
    bare = re.compile(rf"^\s*(from ({names})(\.[\w.]+)? import|import ({names})\b)", re.MULTILINE)
    paths = [path for top in (*LINKED, "dragoman", "bench", "deploy", "tests") for path in (ROOT / top).rglob("*.py")]
    found = [str(path) for path in paths if bare.search(path.read_text(encoding="utf-8"))]
    assert not found
    assert all((ROOT / "dragoman" / name).samefile(ROOT / name) for name in LINKED)


@pytest.mark.long
def test_the_loop_runs_without_the_heavy_libraries() -> None:
    """On a machine without them: loop, networks, loader and reader import."""
    run(
        "import sys\n"
        "for name in ('ray', 'mlflow', 'hydra', 'omegaconf', 'webdataset', 'fastapi', 'sacrebleu', 'numba'):\n"
        "    sys.modules[name] = None\n"
        "from dragoman.model.decoding import search\n"
        "from dragoman.model.networks import architectures\n"
        "from dragoman.model.shards import reader\n"
        "from dragoman.model.word_vectors import batched\n"
        "from dragoman.pipelines.cluster import ranks\n"
        "from dragoman.pipelines.loaders import pairs\n"
        "from dragoman.pipelines.training import checkpoint, loop\n"
        "from dragoman.pipelines.word_vectors import loop\n"
    )


@pytest.mark.long
def test_a_corpus_is_looked_at_and_sharded_without_torch() -> None:
    """Torch and Numba take longer to load than the look at a corpus takes."""
    run(
        "import sys\n"
        "sys.modules['torch'] = None\n"
        "from dragoman.pipelines import shard\n"
        "assert not {'ray', 'numba', 'mlflow'} & {*sys.modules}\n"
    )


@pytest.mark.long
def test_importing_makes_nothing() -> None:
    """No folder, no logger handler, no network: only names."""
    run(
        "import logging, os\n"
        "before = set(os.listdir('.'))\n"
        "from dragoman.model.inference import translator\n"
        "from dragoman.pipelines import shard, train\n"
        "from dragoman.services import cli\n"
        "from dragoman.services.endpoint import app\n"
        "assert set(os.listdir('.')) == before\n"
        "assert not logging.getLogger().handlers\n"
    )
