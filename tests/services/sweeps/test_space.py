"""What varies, read from Hydra's sweep syntax, and the command line of `dragoman sweep`."""

import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from dragoman.conf import compose
from dragoman.model.errors import UserError
from dragoman.services.sweeps import entries
from dragoman.services.sweeps.space import read_space


def test_every_form_of_a_sweep_becomes_a_distribution() -> None:
    numbers = [
        "model.layers=range(1,8,2)",
        "model.dropout=interval(0.1,0.5)",
        "train.label_smoothing=range(0,0.25,0.1)",
    ]
    words = ["corpus=everyday", "model=choice(rnnsearch_dot,transformer_tiny)", *numbers]
    space = read_space([*words, "train.lr=tag(log,interval(1e-4,1e-2))"])
    assert space.fixed == ("corpus=everyday",)
    assert space.varied == {
        "model": CategoricalDistribution(["rnnsearch_dot", "transformer_tiny"]),
        "model.layers": IntDistribution(1, 7, step=2),
        "model.dropout": FloatDistribution(0.1, 0.5),
        "train.lr": FloatDistribution(1e-4, 1e-2, log=True),
        "train.label_smoothing": CategoricalDistribution(["0", "0.1", "0.2"]),
    }
    assert space.example()[:3] == ["corpus=everyday", "model=rnnsearch_dot", "model.layers=1"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["a=1"], "nothing varies"),
        (["a=interval(3,1)"], "smaller to a larger"),
        (["a=tag(log,interval(0,1))"], "begins above 0"),
        (["a=choice(1,2)", "a=choice(3)"], "a is varied twice"),
        (["a=range(5,1)"], "a range goes up"),
        (["a=choice(1,"], "a=choice"),
    ],
)
def test_what_cannot_be_searched_is_named(words: list[str], said: str) -> None:
    with pytest.raises(UserError, match=said):
        read_space(words)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "say which verb"),
        (["shard", "a=choice(1,2)"], "'shard' is not known. Choices: train"),
        (["train", "model.dropuot=choice(1,2)"], "'dropuot' is not known. Did you mean 'dropout'"),
        (["train", "model.dropout=choice(0.1,0.2)", "sweep.trials=0"], "sweep.trials=0: must be at least 1"),
        (["train", "model.dropout=interval(0,1)", "sweep.sampler=grid"], "model.dropout: sweep.sampler=grid wants"),
        (["train", "model.dropout=choice(0.1,0.2)", "sweep.sampler=cmaes"], "cmaes"),
        (["train", "model.dropout=choice(0.1,0.2)", "name=../x"], "name"),
    ],
)
def test_a_mistake_ends_before_anything_starts(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert entries.main(words) == compose.USER_MISTAKE
    assert said in capsys.readouterr().err


def test_options_of_hydras_show_what_a_trial_is_made_of(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["train", "model.dropout=choice(0.1,0.2)", "sweep.trials=7"]
    assert entries.main([*words, "--cfg", "job"]) == compose.OK
    assert "trials: 7" in capsys.readouterr().out
