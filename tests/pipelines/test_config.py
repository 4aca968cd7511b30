"""The configuration of the pipelines: a name that would lead out of its folder is refused before anything is made."""

from pathlib import Path

import pytest

from dragoman.pipelines import entries

PATHS = [
    ("shard", "corpus.name", "../../x"),
    ("shard", "pair", "/etc/x-de"),
    ("shard", "tokenizer.name", "'a b'"),
    ("train", "name", "../../x"),
    ("train", "name", "/etc/x"),
    ("train", "name", '"a\\nb"'),
    ("train", "registry.name", "../x"),
    ("compare", "corpus.name", "' '"),
]


@pytest.mark.parametrize(("verb", "key", "value"), PATHS)
def test_a_name_that_is_a_path_is_refused_and_nothing_is_made(
    verb: str, key: str, value: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home = tmp_path / "deep" / "home"
    assert entries.main([verb, f"{key}={value}", f"paths.root={home}"]) == 2
    assert f"dragoman {verb}: {key}=" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_an_empty_name_is_refused_where_a_run_would_be_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    home = tmp_path / "home"
    places = [f"paths.root={home}", "cluster.backend=local", "corpus=everyday", "corpus.pairs=400"]
    places.append("tokenizer.vocabulary=300")
    assert entries.main(["shard", "name=", "tracking.offline=true", *places]) == 0
    assert entries.main(["train", "name=", "tracking.offline=true", *places]) == 2
    assert "name='': cannot be a name" in capsys.readouterr().err
    assert sorted(path.name for path in (home / "runs").iterdir() if not path.name.startswith("shard-")) == []
