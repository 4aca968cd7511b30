"""`dragoman up`: starts everything, waits, and ends everything."""

import contextlib
import json
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from dragoman.conf import compose
from dragoman.conf.interrupts import handled_by
from dragoman.model import landlock
from dragoman.model.confinement import RAY_FOLDER
from dragoman.model.errors import ServiceError, UserError
from dragoman.model.files import atomic_write, exclusive, read_secret
from dragoman.model.storage.places import is_loopback
from dragoman.services.http.listening import bind
from dragoman.services.jobs.executor import Executor, Head, RayExecutor
from dragoman.services.jobs.http.guard import Proxy
from dragoman.services.jobs.http.listening import serving
from dragoman.services.jobs.http.parts import ServiceParts
from dragoman.services.jobs.ledger.access import Access
from dragoman.services.jobs.ledger.database import SETTING, Database
from dragoman.services.jobs.ledger.ledger import Ledger
from dragoman.services.jobs.planning.planner import Planner
from dragoman.services.jobs.service.intake import Intake
from dragoman.services.jobs.service.loop import Loop
from dragoman.services.jobs.service.outbox import Outbox
from dragoman.services.jobs.service.tracking import Tracking
from dragoman.services.jobs.service.webhook import Webhook, read_key
from dragoman.services.jobs.settings import ServiceConfig, UpRoot
from dragoman.services.jobs.up import subprocesses
from dragoman.services.jobs.up.app import create_app
from dragoman.services.jobs.up.children import Child, Children, answers, end_left_behind
from dragoman.services.jobs.up.mlflow import ADMIN, FILES, keep_admitting, logins, server_variables
from dragoman.services.jobs.up.secret_files import close_to_others, enter_tokens, secrets_of
from dragoman.services.repeating import SteadyClock
from dragoman.services.store.database import answering

READY = 120.0  # seconds after which a missing answer is reported
logger = logging.getLogger(__name__)


def up(root: UpRoot, overrides: Sequence[str]) -> int:
    """Starts everything, waits for a signal, ends everything. `overrides` are passed on to the endpoint."""
    root.service.check()
    if root.service.webhook.url is not None:
        read_key(str(root.service.webhook.secret))
    home = Path(root.paths["root"]).absolute()
    with contextlib.ExitStack() as stack:
        stack.callback(os.umask, os.umask(0o077))  # for everything started here, and so for every job
        (home / "service").mkdir(parents=True, exist_ok=True)
        mine = stack.enter_context(exclusive(home / "service" / "lock"))
        if not mine:
            raise UserError(f"paths.root={home}: a job service runs on this folder already")
        close_to_others(home)  # an earlier version left its files open to others
        signalled = threading.Event()
        stack.enter_context(handled_by(lambda *_: signalled.set(), signal.SIGINT, signal.SIGTERM))
        _serve(root, home, overrides, signalled, stack)
    return compose.OK


def _serve(
    root: UpRoot, home: Path, overrides: Sequence[str], signalled: threading.Event, stack: contextlib.ExitStack
) -> None:
    config = root.service
    listening = stack.enter_context(contextlib.closing(bind(config.host, config.port, "service")))
    left = end_left_behind(home / "service" / "children.json")
    if left:
        logger.info("ended %d processes that an earlier start had left behind", left)
    children = Children(home / "service" / "children.json")
    stack.callback(children.stop)
    layout = subprocesses.choose_layout(home, config, children.folder)
    subprocesses.write_token(layout)
    variables = subprocesses.environment(layout, config, config.tracking)
    if config.tracking:
        _, of_jobs = logins(layout.service)
        variables |= of_jobs.variables()  # a server without a login ignores it
    own = ("DRAGOMAN_HOME", "MLFLOW_TRACKING_URI", "MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD")
    os.environ.update({key: variables[key] for key in own if key in variables})
    keys = not is_loopback(config.host) or config.proxy.header is not None
    access = _open_ledger(config, keys, stack)
    ledger = access.ledger
    closed = keys or access.issued
    port = listening.getsockname()[1]
    host = f"[{config.host}]" if ":" in config.host else config.host
    address = f"http://{host}:{port}"
    make_tracking = partial(_tracking, root, layout, variables, address)
    expected = _start_children(children, root, layout, overrides, variables, partial(make_tracking, closed))
    if config.tracking:
        ending = threading.Event()
        stack.callback(ending.set)
        admitted = partial(keep_admitting, f"http://127.0.0.1:{layout.tracking}", *logins(layout.service), ending)
        if closed:
            admitted()

        def ask_for_login() -> None:  # because the first token was issued
            children.replace(make_tracking(True))
            admitted()

        access.first = ask_for_login
    planner = Planner([home, *(Path(root_folder).absolute() for root_folder in config.roots)], secrets_of(root))
    stack.callback(planner.close)
    planner.prepare()
    if not landlock.version():
        logger.warning("this kernel has no Landlock: files are kept from jobs by the check of their settings alone")
    executor = _executor(root, layout, home, config.url or address)
    where = {"jobs": address, **{name: f"http://127.0.0.1:{number}" for name, number in expected.items()}}
    neighbours = _neighbours(config, where)
    tracking = Tracking(neighbours["tracking"], neighbours["tracking_pages"])
    loop = Loop(ledger, access, executor, Intake(ledger, planner, config.address or "here", tracking), config, home)
    if "ray" in expected:
        loop.rest = partial(children.rest, "Ray")
    url = config.url or address
    who = {"url": url, "proxy": _proxy(config, access), "children": partial(children.states, expected)}
    parts = ServiceParts(ledger, access, loop, config, home, keys, **neighbours, **who)  # type: ignore[arg-type]
    _run(parts, listening, where, signalled)


def _run(parts: ServiceParts, listening: socket.socket, where: dict[str, str], signalled: threading.Event) -> None:
    """Answers requests, and starts jobs, until a signal comes; then lets the jobs make room."""
    config, loop, record = parts.config, parts.loop, parts.home / "service" / "address.json"
    with contextlib.ExitStack() as stack:
        stack.enter_context(serving(create_app(parts), listening, config))
        if parts.tracking:
            outbox = Outbox(parts.ledger, parts.tracking)
            outbox.repeating.start()
            stack.callback(outbox.stop)
        if config.webhook.url is not None:
            webhook = Webhook(parts.ledger, config.webhook, config.url or where["jobs"])
            webhook.repeating.start()
            stack.callback(webhook.stop)
        loop.start()
        stack.callback(loop.stop)
        atomic_write(record, json.dumps(where))
        stack.callback(record.unlink, missing_ok=True)
        _tell(where, parts.children, signalled)
        signalled.wait()
        signalled.clear()
        try:
            with answering(SETTING):
                counts = parts.ledger.counts()
                if active := sum(counts.get(state, 0) for state in ("starting", "running", "yielding", "stopping")):
                    how = "each with a checkpoint; Ctrl-C again ends them as they are"
                    logger.info("%d jobs make room first, %s", active, how)
                loop.quiesce(config.stop_timeout, signalled)
        except ServiceError as problem:
            logger.warning("%s; jobs end as they are", problem)


def _open_ledger(config: ServiceConfig, keys: bool, stack: contextlib.ExitStack) -> Access:
    """Returns the ledger's access control; prints an admin's token if tokens are needed and no admin has one."""
    secret = config.ledger_password
    password = None if secret is None else read_secret("service.ledger_password", secret)
    database = Database(config.ledger, password)
    stack.callback(database.close)
    with answering(SETTING):
        access = Access(Ledger(database, SteadyClock()))
        enter_tokens(access, config.tokens)
    if (keys or access.issued) and not access.valid("admin"):
        name = f"admin-{len(access.tokens()) + 1}"
        print(f"token {name}, told this once: {access.issue(name, 'admin', 'admin', 'up')}", flush=True)
    return access


def _proxy(config: ServiceConfig, access: Access) -> Proxy | None:
    """Returns the proxy that lets people in; None if none is set."""
    if config.proxy.header is None or config.proxy.secret is None:
        return None
    return Proxy(config.proxy, read_secret("service.proxy.secret", config.proxy.secret), access)


def _neighbours(config: ServiceConfig, where: dict[str, str]) -> dict[str, str]:
    """Returns the addresses that pages use: of the processes started here, or as configured."""
    elsewhere = os.environ.get("MLFLOW_TRACKING_URI", "")
    tracking = where.get("mlflow") or (elsewhere if elsewhere.startswith(("http://", "https://")) else "")
    dashboard = config.address or where.get("ray", "")
    return {"tracking": tracking, "tracking_pages": config.tracking_url or tracking, "dashboard": dashboard}


def _start_children(
    children: Children,
    root: UpRoot,
    layout: subprocesses.Layout,
    overrides: Sequence[str],
    variables: dict[str, str],
    make_tracking: Callable[[], Child],
) -> dict[str, int]:
    """Starts the processes and returns name -> port."""
    config = root.service
    makers: dict[str, tuple[int, Callable[[], Child]]] = {}
    if config.address is None:
        makers["ray"] = layout.ray, partial(subprocesses.ray_head, layout, config, variables)
    if config.tracking:
        makers["mlflow"] = layout.tracking, make_tracking
    if config.endpoint:
        makers["endpoint"] = layout.endpoint, partial(subprocesses.endpoint, layout, overrides, variables)
    for name, (port, _) in makers.items():
        if answers(port):
            raise UserError(
                f"service.ports={config.ports}: {port}, for {name}, is in use; service.ports=0 takes free ones"
            )
    for _, make in makers.values():
        children.start(make())
    return {name: port for name, (port, _) in makers.items()}


def _tracking(
    root: UpRoot, layout: subprocesses.Layout, variables: dict[str, str], address: str, closed: bool
) -> Child:
    """Returns MLflow; `closed`: it asks for a login, of the service at `address`."""
    admin = logins(layout.service)[0]
    login = server_variables(layout.service, admin, address, root.service) if closed else None
    if closed:
        logger.info("MLflow asks for a login: the admin's is in %s", layout.service / FILES[ADMIN])
    return subprocesses.tracking(layout, Path(root.paths["mlflow"]).absolute(), variables, login)


def _executor(root: UpRoot, layout: subprocesses.Layout, home: Path, pages: str) -> Executor:
    """Returns the executor; `pages` is the service's own address, to which its jobs' runs link back."""
    config = root.service
    environment = {"DRAGOMAN_SERVICE": pages, **config.environment}
    if config.address is None:  # known without asking its dashboard
        environment[RAY_FOLDER] = str(layout.ray_folder)
    if config.address is None:
        head, python = Head(f"http://127.0.0.1:{layout.ray}", token_file=str(layout.token)), sys.executable
    else:
        head, python = Head(config.address, config.auth, config.token_file), config.python
    return RayExecutor(head, home, config.drivers, python, environment)


def _tell(where: dict[str, str], states: Callable[[], dict[str, str]], signalled: threading.Event) -> None:
    """Prints a line for each part as soon as it answers, then `ready`; reports trouble and slow parts once."""
    print(f"jobs      {where['jobs']}", flush=True)
    waiting = dict.fromkeys(states(), "starting")
    deadline = time.monotonic() + READY
    while waiting and not signalled.is_set():
        for name, state in states().items():
            if state == "ready" and waiting.pop(name, ""):
                print(f"{name:<9} {where[name]}", flush=True)
            elif name in waiting and waiting[name] != state:
                waiting[name] = state
                logger.warning("%s: %s", name, state)
        if waiting and time.monotonic() > deadline:
            logger.warning("%s: no answer in %g s; its log lies beside the ledger", ", ".join(waiting), READY)
            deadline = float("inf")
        signalled.wait(0.2)
    if not waiting:
        print("ready", flush=True)
