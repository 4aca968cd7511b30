"""A command from its words to its end."""

import logging

import httpx
import pytest

from dragoman.conf import compose
from dragoman.conf.interrupts import Interrupted
from dragoman.services.jobs.settings import Root as Config


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


def test_no_verb_prints_the_lines_of_the_http_client(caplog: pytest.LogCaptureFixture) -> None:
    def work(_: Config) -> None:
        with httpx.Client(transport=httpx.MockTransport(lambda _: httpx.Response(204))) as client:
            logging.getLogger(compose.__name__).info("asked: %d", client.get("http://service/secret").status_code)

    logging.getLogger("httpx").setLevel(logging.INFO)
    with caplog.at_level(logging.INFO):
        assert compose.run(work, Config, [], "train") == 0
    assert "asked: 204" in caplog.text and "secret" not in caplog.text
