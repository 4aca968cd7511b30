"""`conf/usual.py` composes what Hydra composes, and leaves to Hydra what is not usual."""

import copy
from typing import Any

import pytest
from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from omegaconf import OmegaConf

from dragoman.conf import compose, groups, usual
from dragoman.services.jobs.planning import plan

# Texts of values in every form that is usual.
VALUES = [
    *("1", "1.5", "-3", "+4", "1e5", "1e-3", "1_000", "007", "0.5.1", "true", "False", "NULL", "a/b", "08:00", ".5"),
    *("5.", "5.e3", "1_0.5", "08.5", "0x10", "-", "a@b", "*", "50%", "1__0", "-0", "00", "a.b", "s3://x/y", "T", "on"),
    *("2020-01-01", "1:30", "+a", "..", "'null'", "'a b'", "''", "1E+5", "-.5e-1", "truer"),
]


def by_hydra(words: list[str]) -> str:
    with initialize_config_dir(config_dir=str(groups.FOLDER), version_base="1.3"):
        return OmegaConf.to_yaml(hydra_compose("config", overrides=words))


def as_usual(words: list[str]) -> str:
    return OmegaConf.to_yaml(OmegaConf.create(compose._as_typed(usual.compose(words), None)))


@pytest.mark.parametrize("experiment", groups.choices("experiment"))
def test_an_experiment_is_composed_as_by_hydra(experiment: str) -> None:
    words = ["model=rnnenc", f"experiment={experiment}", "train.max_steps=3", "corpus=tsv", "name=mine", "name=ours"]
    assert as_usual(words) == by_hydra(words)


@pytest.mark.parametrize("group", sorted(groups.default_choices().keys() - {"experiment"}))
def test_a_choice_is_read_as_by_hydra(group: str) -> None:
    with initialize_config_dir(config_dir=str(groups.FOLDER), version_base="1.3"):
        for choice in groups.choices(group):
            composed = OmegaConf.to_container(hydra_compose(f"{group}/{choice}"))
            assert composed == {group: groups.merge_choice(group, choice)}, choice


def test_values_are_read_as_by_hydra() -> None:
    words = [
        f"models=[{','.join(VALUES)}]",
        "seed=-3",
        "name=",
        "pair=[]",
        "train.optimizer=adam",
        "decode.beam=5",
    ]
    words += ["corpus.root='a b'", "corpus.encoding=NULL", "train.init_from=1e-3", "corpus.columns=[1,'x']"]
    assert as_usual(words) == by_hydra(words)


@pytest.mark.parametrize(
    "word",
    [
        *("+seed=1", "~seed", "seed", "nothing=1", "train.nothing=1", "train.max_steps.x=1", "model=nothing", "=1"),
        *("seed=${pair}", "seed=???", "seed=a,b", "seed=[a,]", "seed=a b", "seed={a:1}", 'seed="a"', "seed='a\\'b'"),
        *("seed=nan", "seed=-inf", "seed=файл", "seed=range(1,3)", "hydra.run.dir=x", "seed=[[1],[2,3]]", "seed=a#b"),
    ],
)
def test_other_words_are_left_to_hydra(word: str) -> None:
    with pytest.raises(usual.UnusualError):
        usual.compose([word])


def test_a_choice_that_is_given_twice_is_left_to_hydra() -> None:
    with pytest.raises(usual.UnusualError):
        usual.compose(["model=rnnenc", "model=cbow"])


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"DRAGOMAN_HOME": "/tmp/a,b \"c}'{d:$", "MLFLOW_TRACKING_URI": "", "DRAGOMAN_CACHE": "~/x"},
        {"DRAGOMAN_HOME": "s3://bucket/home", "DRAGOMAN_KEY_FILE": "null", "MLFLOW_TRACKING_URI": "http://host:1"},
    ],
)
def test_references_are_resolved_as_by_omegaconf(variables: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    tree = usual.compose(["cluster=ray", "experiment=word2vec"])
    before = copy.deepcopy(tree)
    assert repr(usual.resolve(tree, compose.FUNCTIONS)) == repr(compose._resolve_by_omegaconf(tree))
    assert tree == before


def test_a_plan_composes_without_hydra(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("composed by Hydra")

    monkeypatch.setattr(compose, "_compose_by_hydra", refuse)
    monkeypatch.setenv("DRAGOMAN_HOME", str(tmp_path))
    planned = plan.make_plan("shard", ["corpus=everyday", "corpus.pairs=200", "name=mine"], [tmp_path], 0.0)
    assert planned["changed"]["corpus.pairs"] == 200
