"""A Ray cluster of several nodes on one machine, each with a cache of its own and, where that can be had, a network
namespace of its own: what can be killed, drained, cut off and mended as a machine can.

Nothing is shared but what is given in the environment, such as a bucket. All nodes' namespaces hang on one bridge;
there this process is `host`.
"""

import contextlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import psutil

REPOSITORY = Path(__file__).resolve().parents[1]
STARTING = 120.0  # seconds that a node may take
OBJECTS = 100_000_000  # bytes of a node's object store; Ray wants 75 MB at least
HEALTH = {  # how soon Ray takes a silent node for dead: after some 12 seconds instead of some 50
    "RAY_health_check_initial_delay_ms": "5000",
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_timeout_ms": "4000",
    "RAY_health_check_failure_threshold": "3",
}

DRAIN = """
import sys, time
import ray
from ray.core.generated.autoscaler_pb2 import DRAIN_NODE_REASON_PREEMPTION

address, ip, seconds = sys.argv[1:]
ray.init(address, log_to_driver=False)
(node,) = (one["NodeID"] for one in ray.nodes() if one["Alive"] and one["NodeManagerAddress"] == ip)
ends = int((time.time() + int(seconds)) * 1000)
gcs = ray._raylet.GcsClient(address=address)
accepted, why = gcs.drain_node(node, DRAIN_NODE_REASON_PREEMPTION, "taken away", ends)
sys.exit(0 if accepted else why)
"""


def no_namespaces() -> str:
    """Why network namespaces cannot be had here; empty where they can."""
    if sys.platform != "linux" or os.geteuid() != 0 or shutil.which("ip") is None:
        return "network namespaces need Linux, root and the command ip"
    name = f"try{os.getpid()}"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True, check=False)
    if made.returncode:
        return f"no network namespace can be made here ({made.stderr.strip()})"
    subprocess.run(["ip", "netns", "delete", name], check=False)
    return ""


@dataclass
class Node:
    """A machine: its address and cache, and the processes of its Ray."""

    name: str
    ip: str
    folder: Path
    namespace: str = ""
    process: "subprocess.Popen[bytes] | None" = None

    @property
    def cache(self) -> Path:
        return self.folder / "cache"

    @property
    def log(self) -> Path:
        return self.folder / "ray.log"


@dataclass
class Cluster:
    """The head, where commands are given, and other nodes."""

    folder: Path
    environment: Mapping[str, str]
    namespaces: bool
    number: int
    nodes: dict[str, Node] = field(default_factory=dict)
    address: str = ""

    @property
    def host(self) -> str:
        """Where nodes reach what listens on this machine."""
        return f"10.77.{self.number}.1" if self.namespaces else "127.0.0.1"

    def start(self, name: str, cpus: int = 1) -> Node:
        """A node joins, the first as the head; one that was there before comes back with the cache that it had.

        Ray itself waits 30 s for a node to start; where the machine is busy that is not enough, and it is tried again.
        """
        node = self.nodes.get(name) or self._make(name)
        self.nodes[name] = node
        head = not self.address or name == "head"
        for last in (False, False, True):
            self._start(node, cpus, head)
            if self._wait(node, last):
                break
        return node

    def _start(self, node: Node, cpus: int, head: bool) -> None:
        name = node.name
        self.address = self.address or f"{node.ip}:{6379 if self.namespaces else free_port(node.ip)}"
        self._end_processes(node)
        shutil.rmtree(self._temp(name), ignore_errors=True)
        joins = [f"--address={self.address}"]
        if head:
            joins = ["--head", f"--port={self.address.partition(':')[2]}", "--include-dashboard=false"]
            joins += [f"--ray-client-server-port={free_port()}"]
        with node.log.open("ab") as log:
            node.process = subprocess.Popen(
                [
                    *self._inside(node),
                    *(sys.executable, "-W", "ignore", "-m", "ray.scripts.scripts", "start", "--block", *joins),
                    *(f"--node-ip-address={node.ip}", f"--num-cpus={cpus}", "--num-gpus=0"),
                    *(f"--object-store-memory={OBJECTS}", f"--temp-dir={self._temp(name)}", "--disable-usage-stats"),
                    *("--min-worker-port=0", "--max-worker-port=0", "--metrics-export-port=0"),
                    *("--dashboard-agent-listen-port=0", "--include-log-monitor=false"),
                ],
                cwd=node.folder,
                env=self.of(node),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def of(self, node: Node) -> dict[str, str]:
        """The environment of a node's processes."""
        return {
            **{key: value for key, value in os.environ.items() if not key.startswith(("RAY_", "DRAGOMAN_"))},
            **HEALTH,
            **self.environment,
            "DRAGOMAN_CACHE": str(node.cache),
        }

    def call(self, *words: str, node: str = "head") -> "subprocess.Popen[str]":
        """A verb as a user starts it on a node."""
        return subprocess.Popen(
            [*self._inside(self.nodes[node]), sys.executable, "-m", "dragoman.services.cli", *words],
            cwd=REPOSITORY,
            env=self.of(self.nodes[node]),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def kill(self, name: str) -> None:
        """All processes of a node at once, as a power cut does."""
        self._end_processes(self.nodes[name])

    def cut(self, name: str) -> None:
        """Nothing reaches the node any more, and nothing comes from it."""
        self._link(name, "down")

    def mend(self, name: str) -> None:
        """The link is back."""
        self._link(name, "up")

    def drain(self, name: str, seconds: int = 60) -> None:
        """The node is to go away in so many seconds, as a cloud says it."""
        node, head = self.nodes[name], self.nodes["head"]
        subprocess.run(
            [*self._inside(head), sys.executable, "-c", DRAIN, self.address, node.ip, str(seconds)],
            env=self.of(head),
            check=True,
            capture_output=True,
            timeout=60,
        )

    def processes(self, name: str, title: str = "") -> list[psutil.Process]:
        """The processes of a node whose command line holds `title`."""
        found = []
        process = self.nodes[name].process
        if process is None or process.poll() is not None:
            return []
        for one in psutil.Process(process.pid).children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                if title in " ".join(one.cmdline()):
                    found.append(one)
        return found

    def close(self) -> None:
        """End all, the head last."""
        for name, node in reversed(self.nodes.items()):
            self._end_processes(node)
            shutil.rmtree(self._temp(name), ignore_errors=True)
            if node.namespace:
                subprocess.run(["ip", "netns", "delete", node.namespace], check=False, capture_output=True)
        if self.namespaces:
            subprocess.run(["ip", "link", "delete", self._bridge], check=False, capture_output=True)

    @property
    def _bridge(self) -> str:
        return f"drb{self.number}"

    def _temp(self, name: str) -> str:
        return f"/tmp/drn-{os.getpid()}-{name}"  # Ray's sockets lie below it and may not have long names

    def _inside(self, node: Node) -> list[str]:
        return ["ip", "netns", "exec", node.namespace] if node.namespace else []

    def _link(self, name: str, state: str) -> None:
        _ip("link", "set", f"drv{self.number}n{list(self.nodes).index(name)}", state)

    def _make(self, name: str) -> Node:
        folder = self.folder / name
        folder.mkdir(parents=True)
        index = len(self.nodes)
        if not self.namespaces:
            return Node(name, f"127.0.0.{index + 2}", folder)
        node = Node(name, f"10.77.{self.number}.{index + 2}", folder, f"drn{self.number}n{index}")
        outer, inner = f"drv{self.number}n{index}", "uplink"
        _ip("netns", "add", node.namespace)
        _ip("link", "add", outer, "type", "veth", "peer", "name", inner, "netns", node.namespace)
        _ip("link", "set", outer, "master", self._bridge, "up")
        for words in (("link", "set", "lo", "up"), ("addr", "add", f"{node.ip}/24", "dev", inner)):
            _ip("-n", node.namespace, *words)
        _ip("-n", node.namespace, "link", "set", inner, "up")
        return node

    def _end_processes(self, node: Node) -> None:
        process, node.process = node.process, None
        if process is None:
            return
        family = [psutil.Process(process.pid)] if process.poll() is None else []
        for one in family[:1]:
            family += one.children(recursive=True)
        for one in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                one.send_signal(signal.SIGKILL)
        psutil.wait_procs(family, timeout=10)
        process.wait(10)

    def _wait(self, node: Node, last: bool) -> bool:
        """Until its Ray says that it has started; whether it did, `last` has it raised where it did not."""
        ends = time.monotonic() + STARTING
        began = node.log.read_text(errors="replace").count("Ray runtime started")
        while node.log.read_text(errors="replace").count("Ray runtime started") == began:
            if node.process is None or node.process.poll() is not None or time.monotonic() > ends:
                if not last:
                    return False
                raise RuntimeError(f"{node.name}: ray start failed:\n{node.log.read_text(errors='replace')[-2000:]}")
            time.sleep(0.1)
        return True


@contextlib.contextmanager
def ray_nodes(folder: Path, environment: Mapping[str, str], namespaces: bool = False) -> Iterator[Cluster]:
    """A cluster without nodes yet; at the end of the block nothing of it is left.

    `environment`: of all nodes and of the commands given there.
    """
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(16), "RAY_USAGE_STATS_ENABLED": "0"}
    cluster = Cluster(folder, {**token, **environment}, namespaces, 2 + os.getpid() % 250)
    try:
        if namespaces:
            _ip("link", "add", cluster._bridge, "type", "bridge")
            _ip("addr", "add", f"{cluster.host}/24", "dev", cluster._bridge)
            _ip("link", "set", cluster._bridge, "up")
        yield cluster
    finally:
        cluster.close()


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


def free_port(host: str = "127.0.0.1") -> int:
    """A port that nobody listens on at this moment."""
    with socket.socket() as one:
        one.bind((host, 0))
        return int(one.getsockname()[1])
