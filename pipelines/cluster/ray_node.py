"""The processes of a Ray of our own, kept by one that does nothing else: `python -m ...ray_node SETTINGS` (JSON).

It starts while the command that asked for it imports torch, and it ends them when that command says so or is gone.
"""

import atexit
import json
import logging
import shutil
import sys
from pathlib import Path
from typing import Any

from model.files import socket_folder
from pipelines.cluster import ray_agent


def main(settings: dict[str, Any]) -> None:
    """Keeps a node until the standard input ends; its address is the one line of the output.

    `settings`: arguments of Ray's `RayParams`. `ray.init` has none for the node's address, nor for a node without the
    processes that nobody asks here: the autoscaler, the reader of the workers' logs, the dashboard, and the agent's
    HTTP server. That one would take port 52365, without which a cluster of the user's on this machine accepts no jobs.
    """
    from ray._private import node, parameter, services, utils

    logging.getLogger("ray").setLevel(logging.ERROR)
    services.start_api_server = lambda *_, **__: (None, None)  # what it gives where it cannot start
    utils.get_dashboard_dependency_error = lambda: ImportError("not wanted")  # the agent alone, without HTTP
    services._build_python_executable_command_memory_profileable = _agent
    folder = socket_folder("dragoman-ray-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)  # after Ray's own, which end its processes
    started = node.Node(
        parameter.RayParams(
            node_ip_address="127.0.0.1",
            no_monitor=True,
            include_log_monitor=False,
            include_dashboard=False,
            temp_dir=str(folder / "r"),  # one in ours: Ray opens its own to everybody
            **settings,
        ),
        head=True,
        shutdown_at_exit=True,
        spawn_reaper=True,  # its processes end with this one, however that comes
    )
    print(started.gcs_address, flush=True)
    sys.stdin.read()


def _agent(component: str, *_: Any) -> list[str]:
    """What stands before the path of a program of Ray's: its agent is started by ours."""
    ours = {"dashboard_agent": [str(Path(ray_agent.__file__))]}
    return [sys.executable, "-u", *ours.get(component, [])]


def read_environment() -> None:
    """Ray reads the variables of its authentication when it is imported, and they may have changed since."""
    from ray._raylet import AuthenticationTokenLoader, Config  # type: ignore[attr-defined]  # compiled, without stubs

    Config.initialize("")
    AuthenticationTokenLoader.instance().reset_cache()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
