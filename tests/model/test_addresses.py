"""What is shown of an address."""

import pytest

from model.addresses import mask_address, mask_credentials, mask_secrets


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
