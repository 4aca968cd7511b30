"""The arrows of the house: services -> model <- pipelines, one door for each heavy library."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
OURS = {"model", "pipelines", "services", "conf", "bench"}
# What a layer may import of ours.
ALLOWED = {
    "model": {"model"},
    "pipelines": {"pipelines", "model", "conf"},
    "services": {"services", "model", "conf"},
    "conf": {"conf", "model.errors", "model.renamed", "model.schema"},
}
# Where a heavy library may be imported: files or folders.
DOORS = {
    "ray": [
        *("pipelines/cluster/ray_train.py", "pipelines/cluster/embedded_ray.py"),
        *(
            "services/jobs/jobs.py",
            "services/jobs/job_client.py",
            "services/commands/doctor.py",
            "services/commands/machine.py",
        ),
    ],
    "mlflow": ["pipelines/tracking", "services/models/registry.py"],
    "hydra": ["conf/compose.py"],
    "omegaconf": ["conf/compose.py"],
    "webdataset": ["pipelines/shards"],
    "fastapi": ["services"],
}


def imports(path: Path) -> Iterator[str]:
    """Every module that a file imports, at its top or inside functions."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


def sources(package: str) -> list[Path]:
    return sorted((ROOT / package).rglob("*.py"))


@pytest.mark.parametrize("layer", sorted(ALLOWED))
def test_imports_point_one_way(layer: str) -> None:
    for path in sources(layer):
        for name in imports(path):
            if name.split(".")[0] in OURS:
                allowed = any(name == good or name.startswith(f"{good}.") for good in ALLOWED[layer])
                assert allowed, f"{path.relative_to(ROOT)} imports {name}"


@pytest.mark.parametrize("library", sorted(DOORS))
def test_a_heavy_library_has_its_doors_only(library: str) -> None:
    used = False
    for package in sorted(OURS - {"bench"}):
        for path in sources(package):
            if any(name.split(".")[0] == library for name in imports(path)):
                used = True
                place = path.relative_to(ROOT).as_posix()
                assert any(place == door or place.startswith(f"{door}/") for door in DOORS[library]), place
    assert used, f"nothing imports {library}: the table of doors is out of date"


def test_the_loop_runs_without_the_heavy_libraries() -> None:
    """On a machine with torch and numpy alone: loop, networks, loader and reader import."""
    code = (
        "import sys\n"
        "for name in ('ray', 'mlflow', 'hydra', 'omegaconf', 'webdataset', 'fastapi', 'sacrebleu'):\n"
        "    sys.modules[name] = None\n"
        "import model.networks.architectures, model.decoding.search\n"
        "import pipelines.training.loop, pipelines.loaders.pairs, pipelines.shards.reader\n"
        "import pipelines.cluster.ranks, pipelines.training.checkpoint\n"
        "import model.word_vectors.batched, pipelines.word_vectors.loop\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT, timeout=120)


def test_importing_makes_nothing() -> None:
    """No folder, no logger handler, no network: only names."""
    code = (
        "import logging, os\n"
        "before = set(os.listdir('.'))\n"
        "import model.inference.translator, pipelines.train, pipelines.shard, services.cli, services.endpoint.app\n"
        "assert set(os.listdir('.')) == before\n"
        "assert not logging.getLogger().handlers\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT, timeout=120)
