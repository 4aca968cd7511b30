"""The services' sections, typed together."""

import subprocess
import sys

import pytest

from dragoman.conf import compose
from dragoman.conf.interrupts import Interrupted
from dragoman.services.config import Config


def test_the_composed_configuration_is_typed() -> None:
    config = compose.typed(Config, compose.values(["serve.port=7", "tracking.uri=x", "registry.alias=best"]))
    assert config.serve.port == 7
    assert config.serve.tracking_uri == "x"
    assert config.serve.model == config.translate.model == "models:/phrasebook-en-de@best"


@pytest.mark.parametrize(
    ("given", "code"), [(Interrupted("interrupted; step 400 is kept", 75), 75), (KeyboardInterrupt(), 130)]
)
def test_a_signal_while_a_compiled_module_is_imported_is_an_interrupt(
    given: KeyboardInterrupt, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """Python makes an ImportError of what a signal's handler raises there."""

    def work(_: Config) -> int:
        raise ImportError("initialization failed") from given

    assert compose.run(work, Config, [], "train") == code
    assert capsys.readouterr().err.splitlines() == [f"dragoman train: {str(given) or 'interrupted'}"]


def test_no_verb_prints_the_lines_of_the_http_client(capfd: pytest.CaptureFixture[str]) -> None:
    program = """
import http.server, sys, threading
import httpx
from dragoman.conf import compose
from dragoman.conf.interrupts import Interrupted
from dragoman.services.config import Config

class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(204)
        self.end_headers()
    def log_message(self, *_):
        pass

def work(_):
    server = http.server.HTTPServer(("127.0.0.1", 0), Answer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    compose.logger.info("asked: %d", httpx.get(f"http://127.0.0.1:{server.server_address[1]}/secret").status_code)

sys.exit(compose.run(work, Config, [], "train"))
"""
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
    said = capfd.readouterr().err
    assert "asked: 204" in said and "secret" not in said and "HTTP Request" not in said
