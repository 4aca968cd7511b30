"""The executor places and runs the processes of attempts, on Ray; the service decides and records."""

import contextlib
import os
import shlex
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, Protocol

import httpx

from dragoman.model.confinement import RAY_FOLDER
from dragoman.model.confinement import VARIABLE as GRANT
from dragoman.model.errors import ServiceError, UserError
from dragoman.services.jobs.records import Request, attempt_of
from dragoman.services.jobs.scheduling.entries import Capacity
from dragoman.services.jobs.scheduling.room import Node

WAIT_VARIABLE = "RAY_JOB_STOP_WAIT_TIME_S"  # seconds that Ray waits between SIGTERM and SIGKILL; by default three


@dataclass(frozen=True)
class Start:
    """An attempt as it is submitted. `id` is JOB-aNUMBER, the same whenever it is submitted again."""

    job: str
    number: int
    verb: str
    words: tuple[str, ...]
    owner: str
    priority: int
    workers: int
    cpus: float  # per worker
    gpus: float
    spreads: bool  # True: the workers are separate processes; False: the command itself is the only worker
    model_owner: str = ""  # owner of the model that it registers or promotes; empty: none
    grant: str = ""  # files that its processes may open, for `dragoman.model.confinement`; empty: all that the user may

    @property
    def id(self) -> str:
        return f"{self.job}-a{self.number}"

    def entrypoint(self, python: str, home: Path) -> str:
        """Returns the shell command of its runner, with `exec` so that a signal reaches that."""
        runner = (python, "-m", "dragoman.services.jobs.runner", str(home), self.job, str(self.number), self.verb)
        return f"exec {shlex.join([*runner, *self.words, *(['cluster.address=auto'] if self.spreads else [])])}"

    def variables(self) -> dict[str, str]:
        """Returns its processes' variables that identify the job and its owner; no others may replace them."""
        values = {"DRAGOMAN_JOB": self.job, "DRAGOMAN_ATTEMPT": str(self.number), "DRAGOMAN_OWNER": self.owner}
        values["DRAGOMAN_MODEL_OWNER"] = self.model_owner
        return {**values, **({GRANT: self.grant} if self.grant else {})}


State = Literal["absent", "pending", "running", "ended"]


@dataclass(frozen=True)
class Observation:
    """The executor's knowledge of an attempt."""

    state: State
    code: int | None = None  # exit code of an ended one, if known
    message: str = ""


class Executor(Protocol):
    """Every method may raise ServiceError: the executor is not reachable, which says nothing about the attempts."""

    def submit(self, start: Start) -> None:
        """Starts an attempt; one that was submitted before is unchanged."""

    def observe(self, starts: Sequence[Start]) -> dict[str, Observation]:
        """Returns id -> what is known of each attempt."""

    def stop(self, start: Start, request: Request) -> None:
        """Asks an attempt to end gracefully; asking again changes nothing."""

    def kill(self, start: Start) -> None:
        """Ends an attempt that did not end gracefully."""

    def capacity(self) -> Capacity:
        """Returns the resources that jobs may use."""

    def incarnation(self) -> str:
        """Returns an id that changes whenever the cluster restarts; processes of an earlier one have ended."""

    def logs(self, start: Start, offset: int, limit: int) -> bytes:
        """Returns an attempt's output from byte `offset` on."""


TIMEOUT = 30.0  # seconds for an answer of a head
SAID = 2000  # last characters of an error of it: those of a traceback
AGENT_PORT = 52365  # where `ray start` lets a node's agent listen; a head without an agent accepts no jobs


class RefusedError(ServiceError):
    """The head answers, and does not do what it was asked."""


@dataclass(frozen=True)
class Head:
    """The head of a Ray cluster: the address of its dashboard, and the token."""

    address: str  # http://host:8265
    auth: Literal["token", "disabled"] = "token"
    token_file: str | None = None

    @contextlib.contextmanager
    def talking(self) -> Iterator[httpx.Client]:
        """Yields a client of the head's REST interface, which waits at most TIMEOUT for an answer.

        Ray's own client waits for ever: a head that stands still would halt all that the service does.
        """
        try:
            with httpx.Client(base_url=self.address, headers=self._headers(), timeout=TIMEOUT) as client:
                yield client
        except (httpx.HTTPError, OSError, ValueError) as problem:  # the last: what answers is no Ray
            reason = (str(problem).strip() or type(problem).__name__).splitlines()[0][:300]
            raise ServiceError(
                f"the head at {self.address} has gone or failed ({reason}). Jobs go on as long as the cluster lives"
            ) from None

    def ask(self, client: httpx.Client, method: str, path: str, content: Any = None) -> httpx.Response:
        """Returns the answer to a request; one that asks for a job may say that there is none (404).

        Raises ServiceError: the head refuses us, or cannot do it now. Raises RefusedError: it does not do it.
        """
        answer = client.request(method, path, json=content)
        if answer.is_success or (answer.status_code == 404 and method == "GET"):
            return answer
        said = " ".join(answer.text.split())
        if answer.status_code in (401, 403):
            raise ServiceError(
                f"service.auth={self.auth}: the cluster at {self.address} refuses us ({said[:300]}). Its token is "
                f"expected in the variable RAY_AUTH_TOKEN or in the file service.token_file={self.token_file}"
            )
        if "No available agent" in said:
            raise ServiceError(
                f"the cluster at {self.address} accepts no jobs: no agent of its nodes answers. A head that has just "
                f"started may need a moment. Where another Ray holds port {AGENT_PORT} on the head's machine, start "
                f"the head with --dashboard-agent-listen-port=0"
            )
        raise RefusedError(f"the head at {self.address} answers {answer.status_code}: {said[-SAID:]}")

    def nodes(self) -> list[Any]:
        """Returns Ray's records of the cluster's nodes."""
        os.environ["RAY_AUTH_MODE"] = self.auth
        os.environ["RAY_API_SERVER_ADDRESS"] = self.address  # otherwise RAY_ADDRESS would win silently
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        from ray.util.state import StateApiClient
        from ray.util.state.common import ListApiOptions, StateResource
        from ray.util.state.exception import RayStateApiException

        headers = {"Content-Type": "application/json", **(self._headers() or {})}
        state_client = StateApiClient(self.address, headers=headers)
        try:
            return list(
                state_client.list(StateResource.NODES, ListApiOptions(limit=10_000), raise_on_missing_output=True)
            )
        except (RayStateApiException, RuntimeError) as problem:
            reason = str(problem).partition(". ")[0]  # the rest is advice on starting Ray by hand
            raise ServiceError(f"the cluster at {self.address} does not say what it has ({reason})") from None

    def _headers(self) -> dict[str, str] | None:
        """Returns the header with the cluster's token, which is neither shown nor logged.

        Ray reads its variables only once, when it is imported.
        """
        return {"Authorization": f"Bearer {self._read_token()}"} if self.auth == "token" else None

    def _read_token(self) -> str:
        """Returns the token from the place that Ray itself looks at first: the variable, the named file, Ray's own."""
        if self.token_file is not None:
            if not Path(self.token_file).is_file():
                raise UserError(f"service.token_file: {self.token_file} is not a file")
            os.environ["RAY_AUTH_TOKEN_PATH"] = self.token_file  # for an address that Ray has to look up first
        if token := os.environ.get("RAY_AUTH_TOKEN"):
            return token.strip()
        file = Path(self.token_file) if self.token_file is not None else Path.home() / ".ray" / "auth_token"
        if not file.is_file():
            raise UserError(
                "service.auth=token: there is no token. Put it into the variable RAY_AUTH_TOKEN or into a file named "
                "by service.token_file (service.auth=disabled is for clusters that ask for none)"
            )
        return file.read_text(encoding="utf-8").strip()


Ask = Callable[..., httpx.Response]
STATES: dict[str, State] = {
    "PENDING": "pending",
    "RUNNING": "running",
    "STOPPED": "ended",
    "SUCCEEDED": "ended",
    "FAILED": "ended",
}
STOP_WAIT = "30"  # seconds from SIGTERM to SIGKILL, for a job that did not end on request


class RayExecutor:
    """The executor for the cluster with this head."""

    def __init__(self, head: Head, home: Path, drivers: int, python: str, environment: Mapping[str, str]) -> None:
        """`home` is the folder that all nodes see; `drivers` the number of jobs started at once, for which the head
        keeps a CPU; `python` the nodes' interpreter; `environment` the variables of every job."""
        self.head, self.home, self.drivers, self.python, self.environment = head, home, drivers, python, environment
        self._hosts: dict[str, str] = {}  # node id -> host name, as far as known
        self._folders: list[str] = []  # where the nodes keep their sockets and logs (`ray start --temp-dir`)

    @contextlib.contextmanager
    def _asking(self) -> Iterator[Ask]:
        """Yields what asks the head: `ask(method, path, content)`."""
        try:
            with self.head.talking() as client:
                yield partial(self.head.ask, client)
        except UserError as problem:  # no command of the user can fix it: the cluster is away, or refuses us
            raise ServiceError(str(problem)) from None

    def submit(self, start: Start) -> None:
        folder = {RAY_FOLDER: os.pathsep.join(self._folders)} if self._folders else {}
        variables = {WAIT_VARIABLE: STOP_WAIT, **folder, **self.environment, **start.variables()}
        job = {
            "entrypoint": start.entrypoint(self.python, self.home),
            "submission_id": start.id,
            "runtime_env": {"env_vars": variables},
            "metadata": {"verb": start.verb, "owner": start.owner, "job": start.job},
            "entrypoint_num_cpus": 1 / self.drivers if start.spreads else start.cpus,
            "entrypoint_num_gpus": 0 if start.spreads else start.gpus,
        }
        with self._asking() as ask:
            try:
                ask("POST", "/api/jobs/", job)
            except RefusedError as problem:
                if "already exists" not in str(problem):  # it was submitted before a crash: fine
                    raise

    def observe(self, starts: Sequence[Start]) -> dict[str, Observation]:
        with self._asking() as ask:
            return {start.id: _observed(ask("GET", f"/api/jobs/{start.id}")) for start in starts}

    def stop(self, start: Start, request: Request) -> None:
        attempt_of(self.home, start.job, start.number).ask(request)

    def kill(self, start: Start) -> None:
        with self._asking() as ask, contextlib.suppress(RefusedError):
            ask("POST", f"/api/jobs/{start.id}/stop")

    def capacity(self) -> Capacity:
        with self._asking() as ask:
            ask("GET", "/api/version")  # says by itself if the head is away or refuses us
            nodes = self.head.nodes()
            names = self._host_names(ask, [node for node in nodes if node.state == "ALIVE"])
        alive = []
        for node in nodes:
            if node.state == "ALIVE":
                total = node.resources_total or {}
                kept = 1.0 if node.is_head_node else 0.0
                cpus = max(0.0, total.get("CPU", 0.0) - kept)
                alive.append(Node(names[node.node_id], cpus, total.get("GPU", 0.0)))
        return Capacity(tuple(sorted(alive, key=lambda node: node.name)), self.drivers)

    def _host_names(self, ask: Ask, nodes: Sequence[Any]) -> dict[str, str]:
        """Returns node id -> its machine's name, unique: a machine's second node also gets the end of its id.

        Ray's state interface has addresses and no host names, so the dashboard is asked, once for each new node. If it
        does not tell, the name is Ray's own for the node, which is usually its address. The same answer has the nodes'
        folders.
        """
        if any(node.node_id not in self._hosts for node in nodes):
            with contextlib.suppress(httpx.HTTPError, RefusedError, ValueError, KeyError, TypeError):
                summary = ask("GET", "/nodes?view=summary").json()["data"]["summary"]
                self._hosts = {str(node["raylet"]["nodeId"]): str(node["hostname"]) for node in summary}
                self._folders = sorted({_folder_of(node["raylet"]) for node in summary} - {""})
        named = {node.node_id: self._hosts.get(node.node_id) or node.node_name or node.node_ip for node in nodes}
        often = Counter(named.values())
        return {key: name if often[name] == 1 else f"{name} ({key[-6:]})" for key, name in named.items()}

    def incarnation(self) -> str:
        with self._asking() as ask:
            version = ask("GET", "/api/version").json()
        return str(version.get("session_name") or version.get("ray_version"))

    def logs(self, start: Start, offset: int, limit: int) -> bytes:
        attempt = attempt_of(self.home, start.job, start.number)
        if attempt.log.exists():
            return attempt.read_log(offset, limit)
        with self._asking() as ask:
            try:
                answer = ask("GET", f"/api/jobs/{start.id}/logs")
            except RefusedError:
                return b""
        text = str(answer.json()["logs"]) if answer.is_success else ""
        return text.encode()[offset : offset + limit]


def _folder_of(raylet: Mapping[str, Any]) -> str:
    """Returns the folder of a node's sessions; empty if Ray does not tell it."""
    socket = Path(str(raylet.get("objectStoreSocketName", "")))  # FOLDER/session_NAME/sockets/plasma_store
    return str(raylet.get("tempDir") or (socket.parents[2] if socket.parent.name == "sockets" else ""))


def _observed(answer: httpx.Response) -> Observation:
    if answer.status_code == 404:
        return Observation("absent")
    job = answer.json()
    state = STATES[job["status"]]
    return Observation(state, job.get("driver_exit_code") if state == "ended" else None, job.get("message") or "")
