"""The job commands before they talk to a service: what a rehearsal checks, and what options do."""

import pytest

from dragoman.conf import compose
from dragoman.model.errors import UserError
from dragoman.services.jobs.client import entries
from dragoman.services.jobs.settings import JobsConfig


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["train", "cluster.workers=2..8", "loader.lanes=2"], "loader.lanes=2: 8 ranks"),
        (["train", "train.max_steps=soon"], "train.max_steps: expected a whole number"),
        (["compare", "models=[rnnenc,rnnlm_lstm]"], "'rnnlm_lstm' is a language model; compare"),
        (["serve"], "submit: verb: 'serve' is not known"),
        ([], "say which verb"),
    ],
)
def test_a_rehearsed_submission_is_refused_for_what_its_command_would_refuse(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with compose.rehearsal():
        assert entries.main(["submit", *words]) == 2
        assert entries.main(["submit", "train", "paths.root=out-of-sight", "jobs.priority=high"]) == 0
    assert message in capsys.readouterr().err


def test_options_show_the_configuration_of_the_job_and_submit_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["submit", "train", "seed=7", "--cfg", "job"], ["logs", "a-job", "jobs.show=7", "--cfg", "job"]):
        assert entries.main(words) == 0
        assert ": 7" in capsys.readouterr().out
    assert entries.main(["submit", "train", "seed=7,8", "-m"]) == 2
    assert "-m: no such option; settings are key=value" in capsys.readouterr().err


def test_a_service_that_is_not_there_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert entries.main(["stop", "a-job", "paths.root=nowhere"]) == 2
    assert "jobs.service: none is named, and no job service runs here" in capsys.readouterr().err
    root = entries.Root(JobsConfig(service="here:8300"), {})
    with pytest.raises(UserError, match="give its address as http://HOST:8300"):
        entries.address(root)
