"""What is shown of an address."""

from pathlib import Path

import pytest

from dragoman.model.addresses import mask_address, mask_credentials, mask_secrets, mlflow_login


def test_an_address_is_shown_without_its_secrets() -> None:
    assert (
        mask_address("https://ann:p%40ss@mlflow.example:5000/base?token=abc") == "https://***@mlflow.example:5000/base"
    )
    assert mask_address("postgresql://ann:p@ss@db/x") == "postgresql://***@db/x"
    assert mask_address("sqlite:////a?b@c.db") == "sqlite:////a?b@c.db"


def test_every_password_in_a_text_is_masked_to_its_last_sign() -> None:
    assert mask_credentials("no http://a:b@c/d, nor ftp://e:f@g@h") == "no http://***@c/d, nor ftp://***@h"
    assert mask_credentials("write to a@b, see http://c/d@e") == "write to a@b, see http://c/d@e"


def test_secrets_are_masked_wherever_they_stand(monkeypatch: pytest.MonkeyPatch) -> None:
    uri = "https://ann:p%40ss@mlflow.example:5000/base?token=abc"
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", "t0ken")
    text = mask_secrets(f"cannot reach {uri} with p@ss, bearer t0ken", uri)
    assert text == "cannot reach https://***@mlflow.example:5000/base with ***, bearer ***"


def test_mlflows_login_is_read_from_variables_first_and_from_the_file_of_its_clients(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("USERNAME", "PASSWORD", "TOKEN"):
        monkeypatch.delenv(f"MLFLOW_TRACKING_{name}", raising=False)
    assert mlflow_login() == {}
    file = tmp_path / ".mlflow" / "credentials"
    file.parent.mkdir()
    file.write_text("[mlflow]\nmlflow_tracking_username = ann\nmlflow_tracking_password = fr0m%file\n")
    assert mlflow_login() == {"username": "ann", "password": "fr0m%file"}
    assert mask_secrets("refused: fr0m%file", "http://mlflow:5000") == "refused: ***"
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", "newer")
    assert mlflow_login() == {"username": "ann", "password": "newer"}
    monkeypatch.delenv("MLFLOW_TRACKING_PASSWORD")
    for damaged in ("no section", "[mlflow\n", "[another]\nx = 1\n"):
        file.write_text(damaged)
        assert mlflow_login() == {}
    file.write_bytes(b"[mlflow]\nmlflow_tracking_username = \xff\xfe\n")
    assert mlflow_login() == {}
