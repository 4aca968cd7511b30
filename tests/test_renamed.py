"""Old names of keys: read on the command line, in a run's record and in a bundle, and named once."""

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from dragoman.conf import compose
from dragoman.model import renamed
from dragoman.model.errors import UserError
from dragoman.model.networks.architectures import model_config
from dragoman.pipelines.config import Config, PathsConfig
from dragoman.pipelines.settings import LoaderConfig
from dragoman.pipelines.tasks.identity import claim_run_dir


@pytest.fixture(autouse=True)
def not_warned_yet() -> Iterator[None]:
    renamed.current.cache_clear()
    yield
    renamed.current.cache_clear()


def test_old_keys_of_a_command_line_are_read_and_named_once(caplog: pytest.LogCaptureFixture) -> None:
    words = [
        *("train.final=last", "loader.length=64", "++loader.mask=0.3", "evaluate.tokenise=char", "rerank.tokenise=13a"),
        *("model=cbow", "model.form=skipgram", "loader.length=32"),
        *("jobs.auth=disabled", "jobs.python=python3", "jobs.token_file=token"),
    ]
    values = compose.values(words)
    assert values["train"]["final_weights"] == "last"
    assert (values["loader"]["context_length"], values["loader"]["mlm_probability"]) == (32, 0.3)
    assert (values["evaluate"]["tokenize"], values["rerank"]["tokenize"]) == ("char", "13a")
    assert values["model"]["algorithm"] == "skipgram"
    assert [values["service"][key] for key in ("auth", "python", "token_file")] == ["disabled", "python3", "token"]
    compose.typed(Config, values)
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert warnings.count("loader.length is called loader.context_length now; the old name was read") == 1
    assert len(warnings) == len(renamed.RENAMED)


def test_old_keys_are_read_before_hydras_options_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert compose.run(lambda _: 1, Config, ["--cfg", "job", "train.final=ema"], "x") == 0
    assert "final_weights: ema" in capsys.readouterr().out


def test_every_new_name_is_a_key() -> None:
    values = compose.values(["model=skipgram"])
    for old, new in renamed.RENAMED.items():
        section, key = new.split(".")
        assert key in values[section]
        section, key = old.split(".")
        assert key not in values[section]
        assert renamed.former(new) == old


def test_a_bundles_configuration_of_before_is_read() -> None:
    assert model_config({"architecture": "word2vec", "name": "cbow", "form": "cbow"}).algorithm == "cbow"


def test_a_run_begun_under_the_old_names_goes_on(tmp_path: Path) -> None:
    config = Config(name="before", paths=PathsConfig(runs=str(tmp_path)), loader=LoaderConfig(lanes=2))
    config.run_dir.mkdir(parents=True)
    before = {"seed": 1, "loader": {"lanes": 2, "length": 64, "mask": 0.15}, "model": {"form": "cbow"}}
    (config.run_dir / "run.json").write_text(json.dumps(before), encoding="utf-8")
    now = {
        "seed": 1,
        "loader": {"lanes": 2, "context_length": 64, "mlm_probability": 0.15},
        "model": {"algorithm": "cbow"},
    }
    claim_run_dir(config, now)
    with pytest.raises(UserError, match=r"loader\.context_length was 64, is 65"):
        claim_run_dir(config, now | {"loader": now["loader"] | {"context_length": 65}})  # type: ignore[operator]
