"""Two nodes that share nothing but a bucket: training loses one and gets it back, target tokens/s beside undisturbed.

Each node is a Ray node with a cache of its own, in a network namespace of its own where that can be had; the bucket is
moto's server on this machine. The phrasebook is trained three times with `dragoman train`: two workers on one node, one
on each of two, and one to two workers while a node is killed and joins again. Said beside: seconds from the kill until
the run is at a step it had not reached before, what `dragoman verify` says, BLEU, and the gradients' bytes a step.

    python -m bench nodes [--quick]
"""

import json
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.ray_nodes import Cluster, no_namespaces, ray_nodes
from bench.result import Result
from bench.s3_server import proxy_before, s3_server
from dragoman.model.runs import journal, paths
from dragoman.services.commands.inspect import tensors

HOME = "s3://bucket/home"
BYTES = 4  # of a gradient in fp32
NOTICED = 20.0  # seconds until Ray surely knows of a node that it is gone
SETTINGS = ["experiment=demo", "train.precision=fp32", "registry.register=false", "tracking.offline=true"]
SMALL = ["corpus.pairs=400", "tokenizer=characters", "model.width=8", "model.heads=2", "model.feed_forward=8"]


def run(quick: bool, args: list[str]) -> Result:
    """`--quick`: a network and a corpus that show the way and measure nothing, and no training on one node."""
    steps = 2000 if quick else 700
    settings = [*SETTINGS, f"train.max_steps={steps}", *(SMALL if quick else []), "loader.lanes=2"]
    why = no_namespaces()
    print(f"nodes: {why or 'each in a network namespace of its own'}", flush=True)
    with tempfile.TemporaryDirectory() as name, s3_server("bucket") as s3:
        folder = Path(name)
        with ray_nodes(folder / "nodes", {}, not why) as cluster, proxy_before(s3.behind, cluster.host) as bucket:
            cluster.environment = {**cluster.environment, **bucket.environment, "DRAGOMAN_HOME": HOME}
            cluster.environment = {**cluster.environment, "OMP_NUM_THREADS": "1"}
            cluster.start("head", 0)
            done(cluster, "shard", *settings, "cluster.backend=local")
            found = {}
            if not quick:
                both = cluster.start("both", 2)
                found["one node"] = train(cluster, settings, "together", workers="2")
                cluster.kill(both.name)
                time.sleep(NOTICED)
            cluster.start("a")
            cluster.start("b")
            found["two nodes"] = train(cluster, settings, "apart", workers="2")
            said: dict[str, float] = {}
            found["one lost, one joined"] = train(
                cluster, settings, "disturbed", workers="1..2", disturb=lambda run: disturb(cluster, run, steps, said)
            )
            for what, facts in found.items():
                print(f"{what:<22}{facts['rate']:10,.0f} target tokens/s  BLEU {facts['bleu']:.2f}  {facts['verify']}")
            print(f"gradients: {BYTES * found['two nodes']['parameters'] / 1e6:,.2f} MB a step and worker")
            for what, seconds in said.items():
                print(f"{what}: {seconds:.1f} s")
            if not quick:
                print(f"two nodes against one: {found['two nodes']['rate'] / found['one node']['rate']:.3f}")
            return Result(
                "nodes",
                found["one lost, one joined"]["rate"],
                found["two nodes"]["rate"],
                "target tokens/s, a node lost and one joined against an undisturbed run",
                "baseline",
            )


def train(
    cluster: Cluster, settings: list[str], name: str, workers: str, disturb: Callable[[Path], None] = lambda _: None
) -> dict[str, Any]:
    """Train a run to its end, with what `disturb` does to it meanwhile; what came of it.

    The rate is of all target tokens over the time from the first step to the last, whatever came between.
    """
    words = [*settings, f"name={name}", f"cluster.address={cluster.address}", f"cluster.workers={workers}"]
    words += ["cluster.resize_every=15", "cluster.start_timeout=240"]
    run = cluster.nodes["head"].cache / "dragoman-mirror" / HOME.replace("://", "/") / "runs" / name
    process = cluster.call("train", *words)
    try:
        wait_for_step(process, run, 1)
        began = time.monotonic()
        wait_for_step(process, run, 3)
        disturb(run)
        steps = last_step(settings)
        wait_for_step(process, run, steps)
        seconds = time.monotonic() - began
        out, _ = process.communicate(timeout=600)
    finally:
        process.kill()
    if process.returncode:
        raise RuntimeError(out)
    facts = json.loads((run / "bundle" / "config.json").read_text(encoding="utf-8"))
    items = sum(line["tokens"] for line in journal.lines(run / paths.STEPS) if "tokens" in line)
    verified = done(cluster, "verify", f"name={name}").strip().splitlines()[-1]
    scores = facts["scores"]["test"]
    return {
        "rate": items / seconds,
        "bleu": float(scores["bleu"]),
        "verify": verified,
        "parameters": sum(tensors(path)["parameters"] for path in (run / "bundle").glob("*.safetensors")),
    }


def disturb(cluster: Cluster, run: Path, steps: int, said: dict[str, float]) -> None:
    """Kill node b after a third of the steps, have it join again after half of them."""
    wait_until(lambda: newest(run) >= steps // 3, "a third of the steps")
    reached, began = newest(run), time.monotonic()
    cluster.kill("b")
    wait_until(lambda: workers(run) == 1 and newest(run) > reached, "the run goes on with one node")
    said["recovery, from the kill to a step not reached before"] = time.monotonic() - began
    wait_until(lambda: newest(run) >= steps // 2, "half of the steps")
    began = time.monotonic()
    cluster.start("b")
    wait_until(lambda: workers(run) == 2, "the run goes on with two nodes")
    said["from the start of a node until the run uses it"] = time.monotonic() - began


def newest(run: Path) -> int:
    """The last step in the journal as it has come to the command's machine."""
    return max((int(line["step"]) for line in journal.lines(run / paths.STEPS)), default=0)


def workers(run: Path) -> int:
    """How many workers the run's last start has."""
    return max(((line["attempt"], line["workers"]) for line in journal.lines(run / paths.STARTS)), default=(0, 0))[1]


def last_step(settings: list[str]) -> int:
    """`train.max_steps`."""
    return next(int(word.partition("=")[2]) for word in settings if word.startswith("train.max_steps="))


def wait_for_step(process: "subprocess.Popen[str]", run: Path, step: int) -> None:
    """Until the run has come so far."""
    wait_until(lambda: newest(run) >= step or process.poll() is not None, f"step {step}")
    if process.poll() not in (None, 0):
        raise RuntimeError(process.communicate()[0])


def wait_until(holds: Callable[[], bool], what: str, seconds: float = 600.0) -> None:
    """Until something is so."""
    ends = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > ends:
            raise RuntimeError(f"not within {seconds:.0f} s: {what}")
        time.sleep(0.1)


def done(cluster: Cluster, *words: str) -> str:
    """What a verb prints that ends well."""
    process = cluster.call(*words)
    out, _ = process.communicate(timeout=600)
    if process.returncode:
        raise RuntimeError(out)
    return out
