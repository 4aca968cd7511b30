"""Ray's agent of a node, without what only its dashboard would show: run as Ray's program is, with its arguments.

A raylet waits for its agent before it takes work, and ends with it. The agent imports its modules to begin with (jobs,
logs, samples of every process, profilers), nearly a third of the time that a node needs to start; nobody asks them on a
node of ours, whose workers report to MLflow.
"""

import runpy
import sys


def main(program: str) -> None:
    """Be Ray's `program` (`ray/dashboard/agent.py`); `sys.argv` is as that one expects it."""
    from ray.dashboard import utils

    utils.get_all_modules = lambda _: []
    runpy.run_path(program, run_name="__main__")


if __name__ == "__main__":
    del sys.argv[0]
    main(sys.argv[0])
