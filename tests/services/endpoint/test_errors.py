"""Every refusal has the form of its path's dialect, whoever refuses."""

from pathlib import Path

import pytest

from dragoman.services.endpoint import libretranslate
from tests.services.endpoint.conftest import Stage


def test_pages_of_other_origins_may_ask_but_not_delete(stage: Stage) -> None:
    def preflight(method: str) -> int:
        headers = {
            "Origin": "https://example.org",
            "Access-Control-Request-Method": method,
            "Access-Control-Request-Headers": "content-type, x-stainless-os",
        }
        return stage.client.request("OPTIONS", "/translate", headers=headers).status_code

    assert (preflight("POST"), preflight("DELETE")) == (200, 400)
    answer = stage.client.request("GET", "/languages", headers={"Origin": "https://example.org"})
    assert answer.headers["Access-Control-Allow-Origin"] == "*"


def test_what_libretranslate_can_be_without_is_disabled_as_there(stage: Stage) -> None:
    for path, more in (("/suggest", {}), ("/translate_file", {"files": {"file": ("a.txt", b"a")}})):
        answer = stage.client.post(path, data={"source": "en", "target": "de"}, **more)
        assert answer.status_code == 403
        assert "disabled on this server" in answer.json()["error"]


def test_a_full_file_of_suggestions_takes_no_more(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(libretranslate, "MOST", 60)
    stage.endpoint.suggestions = tmp_path / "suggestions.jsonl"
    body = {"q": "see", "s": "LOOK", "source": "en", "target": "de"}
    assert [stage.client.post("/suggest", json=body).status_code for _ in range(2)] == [200, 503]
    assert len(stage.endpoint.suggestions.read_text().splitlines()) == 1
