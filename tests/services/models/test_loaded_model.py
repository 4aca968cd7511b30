"""A bundle as a model that answers: its facts, its settings, what it must prove first."""

import asyncio
import gc
import subprocess
import sys
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dragoman.model.errors import UserError
from dragoman.model.inference.translator import Translation
from dragoman.model.settings import DecodeConfig
from dragoman.services.endpoint.batcher import Batcher
from dragoman.services.endpoint.inference_queue import InferenceQueue
from dragoman.services.models.follower import Follower
from dragoman.services.models.loaded_model import LoadedModel, Origin, check_answers, chosen_decode, load_model
from dragoman.services.models.registry import ModelVersion

MakeBundle = Callable[..., Path]


def test_a_service_that_translates_by_ctranslate2_loads_nothing_that_trains(bundle: Path) -> None:
    program = (
        "import sys\nfrom pathlib import Path\nimport dragoman.services.endpoint.serve\n"
        "from dragoman.services.models.loaded_model import load_model\n"
        "served = load_model(Path(sys.argv[1]), engine='ctranslate2')\n"
        "assert served.translate(['the dog'], 1)[0].error is None\n"
        "print(*sorted({'torch', 'numba', 'mlflow', 'pandas', 'matplotlib', 'ray'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", program, bundle], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "\n"), done.stderr


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


def test_a_language_gets_its_test_lines_however_its_code_is_written() -> None:
    class Reading:
        def translate(self, lines: list[str], *_: object, **__: object) -> list[Translation]:
            self.lines = lines
            return [Translation("x", 0.0)] * len(lines)

    for code in ("en", "eng", "EN_us"):
        translator: Any = Reading()
        check_answers(LoadedModel(translator, DecodeConfig(), Origin("m", "1", "", ""), code, "deu"))
        assert translator.lines[0] == "The dog sees the man."


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
    [
        (Translation("", 0.0, error="boom"), "cannot translate .*: boom"),
        (Translation("", 0.0), "gives only empty answers"),
    ],
)
def test_a_model_that_fails_or_is_mute_is_refused(bundle: Path, answer: Translation, message: str) -> None:
    class Bad:
        def translate(self, lines: list[str], _decode: DecodeConfig, on_error: str) -> list[Translation]:
            return [answer] * len(lines)

    translator: Any = Bad()
    with pytest.raises(UserError, match=message):
        check_answers(LoadedModel(translator, DecodeConfig(), Origin("m", "1", "r", "h"), "en", "de"))


@pytest.mark.parametrize("engine", ["torch", "ctranslate2"])
def test_a_swapped_model_is_freed_with_its_engine_while_requests_come(bundle: Path, engine: Any) -> None:
    versions = iter("1234")

    class Moving:
        def resolve(self, reference: str) -> ModelVersion:
            return ModelVersion(reference, next(versions), "")

    def load(version: ModelVersion) -> LoadedModel:
        model = load_model(bundle, engine=engine, version=version)
        parts.append([weakref.ref(one) for one in (model, model.translator, model.translator.engine)])
        return model

    parts: list[list[weakref.ref[Any]]] = []
    follower: Follower[LoadedModel] = Follower(Moving(), "m", load)
    batcher: Batcher[LoadedModel, str, Translation] = Batcher(LoadedModel.translate)
    queue = InferenceQueue(batcher, lambda: follower.current)
    batcher.start()
    try:
        for _ in range(3):
            follower.poll()
            assert follower.current is not None and asyncio.run(queue.ask(follower.current, ["the dog"]))[0].text
        follower.poll()
        assert follower.error is None
        end = time.monotonic() + 60
        while any(one() is not None for each in parts[:3] for one in each):  # the thread is idle
            assert time.monotonic() < end
            gc.collect()  # an exception's traceback or the like may hold one in a circle
            time.sleep(0.01)
    finally:
        batcher.stop()
    assert all(one() is not None for one in parts[3])
