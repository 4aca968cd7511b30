"""The services' sections, typed together."""

import pytest

from conf import compose
from services.config import Config


def test_the_composed_configuration_is_typed() -> None:
    config = compose.typed(Config, compose.values(["serve.port=7", "cluster.workers=3", "registry.alias=best"]))
    assert config.serve.port == 7
    assert config.jobs.workers == 3
    assert config.serve.model == config.translate.model == "models:/phrasebook-en-de@best"


@pytest.mark.parametrize(
    ("given", "code"), [(compose.Interrupted("interrupted; step 400 is kept", 75), 75), (KeyboardInterrupt(), 130)]
)
def test_a_signal_while_a_compiled_module_is_imported_is_an_interrupt(
    given: KeyboardInterrupt, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """Python makes an ImportError of what a signal's handler raises there."""

    def work(_: Config) -> int:
        raise ImportError("initialization failed") from given

    assert compose.run(work, Config, [], "train") == code
    assert capsys.readouterr().err.splitlines() == [f"dragoman train: {str(given) or 'interrupted'}"]
