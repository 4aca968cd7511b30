"""A bundle as a model that answers: its facts, its settings, what it must prove first."""

from pathlib import Path
from typing import Any

import pytest

from model.errors import UserError
from model.inference.translator import Translation
from model.settings import DecodeConfig
from services.models.loaded_model import LoadedModel, check_answers, chosen_decode, load_model
from services.models.origin import Origin
from services.models.registry import ModelVersion


def test_a_bundle_answers_with_its_own_facts(bundle: Path) -> None:
    served = load_model(bundle)
    assert (served.origin.name, served.source, served.target) == ("small", "en", "de")
    assert served.origin.headers() == {
        "X-Model-Name": "small",
        "X-Model-Version": served.origin.version,
        "X-Run-Id": "r" * 32,
        "X-Manifest-Hash": "ab" * 32,
    }
    answers = served.translate(["the dog", ""], 2)
    assert [len(answer.nbest) for answer in answers] == [2, 0]
    assert served.most_alternatives == 2


def test_the_registrys_facts_go_before_the_bundles(bundle: Path) -> None:
    served = load_model(bundle, version=ModelVersion("modèle\n", "7", "run"))
    assert served.origin.headers()["X-Model-Version"] == "7"
    assert served.origin.headers()["X-Model-Name"] == "mod?le?"


def test_settings_are_the_bundles_but_for_what_the_command_line_sets() -> None:
    stored = DecodeConfig(beam=3, length_penalty=0.7)
    section = DecodeConfig(beam=1, length_penalty="auto", max_extra=9)
    assert chosen_decode(stored, section, ["serve.port=0"]) == stored
    assert chosen_decode(stored, section, ["decode.beam=1"]) == DecodeConfig(beam=1, length_penalty=0.7)
    everything = chosen_decode(stored, section, ["decode=other"])
    assert everything == DecodeConfig(beam=1, length_penalty=0.7, max_extra=9)
    assert chosen_decode(stored, None, ["decode.beam=1"]) == stored


@pytest.mark.parametrize(
    ("answer", "message"),
    [(Translation("", 0.0, error="boom"), "cannot translate .*: boom"), (Translation("", 0.0), "answers nothing")],
)
def test_a_model_that_fails_or_is_mute_is_refused(bundle: Path, answer: Translation, message: str) -> None:
    class Bad:
        def translate(self, lines: list[str], _decode: DecodeConfig, on_error: str) -> list[Translation]:
            return [answer] * len(lines)

    translator: Any = Bad()
    with pytest.raises(UserError, match=message):
        check_answers(LoadedModel(translator, DecodeConfig(), Origin("m", "1", "r", "h"), "en", "de"))
