"""Sharding over nodes that share nothing but a bucket, with real processes.

Each node has a cache of its own and, where that can be had, a network namespace of its own.
"""

import json
import subprocess
from pathlib import Path

import pytest

from bench.ray_nodes import no_namespaces, ray_nodes
from bench.s3_server import Proxy, proxy_before
from model.storage import remote
from tests.pipelines.test_train_in_bucket import HOME, SETTINGS

WORDS = [word for word in SETTINGS if not word.startswith("cluster.")]
PATIENCE = 240.0  # seconds until a command that goes on for too long is ended
PLACE = "shards/phrasebook-en-de-characters"


def end_of(process: "subprocess.Popen[str]") -> str:
    """What a command that ends well has printed."""
    try:
        out, _ = process.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        pytest.fail(process.communicate()[0])
    assert process.returncode == 0, out
    return out


def test_nodes_make_the_shards_that_one_machine_makes(s3: Proxy, tmp_path: Path) -> None:
    environment = {"DRAGOMAN_HOME": HOME, "OMP_NUM_THREADS": "1"}
    with (
        ray_nodes(tmp_path / "nodes", environment, not no_namespaces()) as cluster,
        proxy_before(s3.behind, cluster.host) as bucket,
    ):
        cluster.environment = {**cluster.environment, **bucket.environment}
        for name, cpus in (("head", 0), ("a", 1), ("b", 1)):
            cluster.start(name, cpus)
        nodes, alone = "s3://bucket/nodes", "s3://bucket/alone"
        end_of(cluster.call("shard", *WORDS, f"cluster.address={cluster.address}", f"paths.root={nodes}"))
        end_of(cluster.call("shard", *WORDS, "cluster.backend=local", f"paths.root={alone}"))
        made = [len(list((cluster.nodes[name].cache / "objects").glob("*/*"))) for name in ("a", "b")]
    manifest = remote.read(f"{nodes}/{PLACE}/manifest.json")
    assert manifest == remote.read(f"{alone}/{PLACE}/manifest.json")
    for split in json.loads(manifest)["splits"].values():
        for entry in split["shards"]:
            name = entry["name"]
            assert remote.read(f"{nodes}/{PLACE}/{name}") == remote.read(f"{alone}/{PLACE}/{name}")
    assert all(made), "each node has made some, and keeps them"
