"""The services' sections, typed together."""

from conf import compose
from services.config import Config


def test_the_composed_configuration_is_typed() -> None:
    config = compose.typed(Config, compose.values(["serve.port=7", "cluster.workers=3", "registry.alias=best"]))
    assert config.serve.port == 7
    assert config.jobs.workers == 3
    assert config.serve.model == config.translate.model == "models:/phrasebook-en-de@best"
