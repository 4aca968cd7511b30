"""The job service's server beside clients that open connections and say nothing."""

import subprocess
import sys

import httpx

from dragoman.services.jobs.service.loop import Loop
from tests.services.jobs.at_work import at_work
from tests.services.jobs.processes import REPOSITORY

HALF_OPEN = """
import resource, socket, sys

resource.setrlimit(resource.RLIMIT_NOFILE, (4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
opened = []
for _ in range(1100):
    opened.append(socket.create_connection(("127.0.0.1", int(sys.argv[1])), 10))
    opened[-1].sendall(b"GET /status HTTP/1.1\\r\\n")
print("open", flush=True)
sys.stdin.read()
"""


def test_half_open_connections_do_not_stop_the_job_service(loop: Loop) -> None:
    with at_work(loop) as port:
        command = [sys.executable, "-c", HALF_OPEN, str(port)]
        with subprocess.Popen(
            command, cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as many:
            try:
                assert many.stdout is not None and many.stdout.readline() == "open\n"
                for _ in range(3):
                    assert httpx.get(f"http://127.0.0.1:{port}/status", timeout=10).status_code == 200
            finally:
                many.communicate()
