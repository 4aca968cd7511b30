"""Words that are refused as they are written: code, the environment, servers, more than fits; files: test_attacks."""

from pathlib import Path

import pytest

from dragoman.model.errors import UserError
from dragoman.services.jobs.planning.plan import make_plan
from dragoman.services.jobs.planning.refusals import check_words, shipped_words

ATTACKS = [
    ("name=${oc.env:RAY_AUTH_TOKEN}", "resolved on the service"),
    ("name='$\\{oc.env:HOME}'", "resolved on the service"),
    ("name=$\\{oc.env:HOME\\}", "resolved on the service"),
    ("+model._target_=os.system", "names no code"),
    ("+model={_target_: os.system}", "names no code"),
    ("++corpus._partial_=true", "names no code"),
    ("hydra.run.dir=/tmp", "Hydra"),
    ("hydra/launcher=basic", "Hydra|key=value"),
    ("+hydra.job.env_set.X=1", "Hydra"),
    ("--config-dir=/etc", "key=value"),
    ("--multirun", "key=value"),
    ("-m", "key=value"),
    ("cluster.address=ray://evil:10001", "says where a job runs"),
    ("++cluster.address=auto", "says where a job runs"),
    ("tracking.uri=http://evil", "says where runs are recorded"),
    ("jobs.environment={LD_PRELOAD: x}", "beside its overrides"),
    ("name=a\nname=b", "control characters"),
    ("name=a\x00", "control characters"),
    ("name=\u202eabc", "control characters"),
    ("name=" + "a" * 3000, "at most 2000"),
    ("; rm -rf /", "key=value"),
    ("$(id)", "key=value"),
    ("name", "key=value"),
]


@pytest.mark.parametrize(("word", "reason"), ATTACKS)
def test_words_that_would_run_or_lead_elsewhere_are_refused(word: str, reason: str) -> None:
    with pytest.raises(UserError, match=reason):
        check_words("train", [word])


@pytest.mark.parametrize("verb", ["serve", "submit", "up", "clean", "rm -rf", "", "translate"])
def test_verbs_that_make_nothing_are_refused(verb: str) -> None:
    with pytest.raises(UserError, match="verb"):
        check_words(verb, [])


def test_what_follows_from_another_key_is_no_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAGOMAN_HOME", str(tmp_path))
    plan = make_plan("train", ["pair=de-en", "seed=3", "train.max_steps=70"], [tmp_path], 0, True)
    assert plan["changed"] == {
        "pair": "de-en",
        "seed": 3,
        "train.max_steps": 70,
    }  # no name, no folder, no model of these
    plan = make_plan("train", ["seed=3", "name=mine"], [tmp_path], 0, True)
    assert plan["changed"] == {"seed": 3, "name": "mine"}


def test_a_plan_says_what_a_training_comes_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAGOMAN_HOME", str(tmp_path))
    plan = make_plan("train", ["model=transformer_tiny", "cluster.workers=1..3", "loader.lanes=4"], [tmp_path], 0, True)
    assert plan["choices"] == [1, 2]  # 3 does not divide the lanes
    assert plan["tokens"] == plan["steps"] * 4 * 4096
    assert plan["flops"] == 6.0 * plan["parameters"] * plan["tokens"]
    assert plan["changed"]["loader.lanes"] == 4
    with pytest.raises(UserError, match="none of them divides"):
        make_plan("train", ["cluster.workers=3..3", "loader.lanes=4"], [tmp_path], 0, True)
    with pytest.raises(UserError, match="train: unknown key: 'max_stps'"):
        make_plan("train", ["train.max_stps=1"], [tmp_path], 0)


def test_a_key_of_the_model_may_be_left_out_and_no_other_changes_what_ships() -> None:
    words = ["experiment=demo", "model=rnnenc", "~model.norm", "~paths.runs", "name=a"]
    assert shipped_words(words) == ("experiment=demo", "model=rnnenc", "~model.norm")
