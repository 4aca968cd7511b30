"""`dragoman up` on a machine that is busy: what answers late is waited for."""

import json
import logging
import socket
import threading
from contextlib import closing
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from sqlalchemy.exc import OperationalError

from dragoman.model.ports import free_ports
from dragoman.services.http.listening import bind
from dragoman.services.jobs.http.parts import ServiceParts
from dragoman.services.jobs.service.loop import Loop
from dragoman.services.jobs.up import serving
from dragoman.services.jobs.up.children import answers
from dragoman.services.jobs.up.mlflow import keep_admitting, logins


def test_a_child_that_answers_late_is_told_and_waited_for(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    (port,) = free_ports(1)
    where = {"jobs": "http://jobs", "mlflow": "http://mlflow"}
    monkeypatch.setattr(serving, "READY", 0.0)
    with socket.socket() as listening, caplog.at_level(logging.WARNING):

        class Late(logging.Handler):
            """Has the child answer once its delay was told."""

            def emit(self, record: logging.LogRecord) -> None:
                listening.bind(("127.0.0.1", port))
                listening.listen()

        late = Late()
        serving.logger.addHandler(late)
        try:
            states = lambda: {"mlflow": "ready" if answers(port) else "starting"}  # noqa: E731
            serving._tell(where, states, threading.Event())
        finally:
            serving.logger.removeHandler(late)
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == ["mlflow"]
    assert capsys.readouterr().out.split() == ["jobs", "http://jobs", "mlflow", "http://mlflow", "ready"]


def test_jobs_are_let_into_the_mlflow_that_asks_for_a_login_and_not_into_the_one_that_ends(tmp_path: Path) -> None:
    """The MLflow of before still answers for a moment, and knows no users."""
    answers = [404, 404, *2 * [404, 200], 200, 200]  # two of the old one; of the new one, which knows neither user, six
    asked: list[str] = []
    done, ending = threading.Event(), threading.Event()

    class MLflow(BaseHTTPRequestHandler):
        def answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            asked.append(self.path.partition("?")[0].rpartition("/")[2])
            body = json.dumps({}).encode()
            self.send_response(answers[len(asked) - 1])
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
            if asked.count("grant") == 2:
                done.set()

        do_GET = do_POST = answer  # noqa: N815  # the names that the server asks for

        def log_message(self, *_: object) -> None: ...

    server = HTTPServer(("127.0.0.1", 0), MLflow)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        keep_admitting(f"http://127.0.0.1:{server.server_address[1]}", *logins(tmp_path), ending)
        assert done.wait(30), asked
    finally:
        ending.set()
        server.shutdown()
        server.server_close()
    assert asked == [*3 * ["get", "create"], "grant", "grant"]


def test_a_full_disk_under_the_ledger_does_not_keep_the_service_from_ending(
    loop: Loop, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: object) -> bool:
        raise OperationalError("COMMIT", None, Exception("database or disk is full"))

    monkeypatch.setattr(loop, "quiesce", full)
    signalled = threading.Event()
    signalled.set()
    parts = ServiceParts(loop.ledger, loop.scheduler.access, loop, loop.config, loop.home, False)
    (loop.home / "service").mkdir()
    with closing(bind("127.0.0.1", 0, "service")) as listening:
        serving._run(parts, listening, {"jobs": "http://jobs"}, signalled)
    assert "disk is full); jobs end as they are" in caplog.text
