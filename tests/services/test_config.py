"""The services' sections: every key stands in its file, and every file fits its schema."""

import dataclasses
from typing import Any

import pytest
import yaml

from conf import compose
from services.config import Config

SECTIONS = ("serve", "translate", "query", "export", "inspect", "jobs", "clean")


@pytest.mark.parametrize("section", SECTIONS)
def test_every_key_of_the_schema_stands_in_the_file(section: str) -> None:
    values = yaml.safe_load((compose.FOLDER / section / "default.yaml").read_text(encoding="utf-8"))
    schema = {field.name: field for field in dataclasses.fields(getattr(Config(), section))}
    assert values.keys() == schema.keys()


def test_the_composed_configuration_is_typed() -> None:
    config = compose.typed(Config, compose.values(["serve.port=7", "cluster.workers=3", "registry.alias=best"]))
    assert config.serve.port == 7
    assert config.jobs.workers == 3
    assert config.serve.model == config.translate.model == "models:/phrasebook-en-de@best"


@pytest.mark.parametrize("section", SECTIONS)
def test_the_files_values_are_the_schemas_defaults(section: str) -> None:
    def plain(value: Any) -> dict[str, Any]:
        return {key: entry for key, entry in dataclasses.asdict(value).items() if key not in INTERPOLATED}

    config = compose.typed(Config, compose.values([]))
    assert plain(getattr(config, section)) == plain(getattr(Config(), section))


# Keys that other sections or the environment decide.
INTERPOLATED = {"tracking_uri", "cache", "caches", "runs", "output", "name", "workers", "exclude", "auth", "token_file"}
