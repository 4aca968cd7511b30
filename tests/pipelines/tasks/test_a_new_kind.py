"""A new kind of model is a row in each table and its functions: the ordinary verbs and the endpoint take it."""

from collections.abc import Iterator
from itertools import product

import pytest

from dragoman.conf import compose
from dragoman.model.inference.kinds import KINDS, open_bundle
from dragoman.model.inference.translator import Translation
from dragoman.model.networks.architectures import ARCHITECTURES
from dragoman.pipelines import evaluate, promote, shard, train
from dragoman.pipelines.config import Config
from dragoman.pipelines.tasks.base import TASKS
from dragoman.pipelines.tracking.registry import Registry
from dragoman.services.endpoint.app import create_app
from dragoman.services.endpoint.batcher import Batcher
from dragoman.services.endpoint.endpoint import Endpoint
from dragoman.services.endpoint.inference_queue import InferenceQueue
from dragoman.services.models.home import Home
from dragoman.services.models.loaded_model import LoadedModel
from dragoman.services.models.source import Loader
from dragoman.services.settings import ModelSource
from tests.pipelines.tasks import unigram_kind
from tests.services.endpoint.conftest import Client, only_model

BEASTS = {"dogs": "Hunde", "cats": "Katzen", "birds": "Vögel", "cows": "Kühe"}
DEEDS = {"see": "sehen", "hear": "hören", "like": "mögen", "call": "rufen"}
TIMES = {"now": "jetzt", "often": "oft"}
PAIRS = [
    (f"{who} {do} {whom} {when} .", f"{BEASTS[who]} {DEEDS[do]} {BEASTS[whom]} {TIMES[when]} .")
    for who, do, whom, when in product(BEASTS, DEEDS, BEASTS, TIMES)
]
SPLITS = {"test": PAIRS[::8], "valid": PAIRS[1::8], "train": [pair for n, pair in enumerate(PAIRS) if n % 8 > 1]}


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """Of a run that is trained."""
    tmp_path = tmp_path_factory.mktemp("new")
    for split, pairs in SPLITS.items():
        for side, language in enumerate(("en", "de")):
            text = "".join(f"{pair[side]}\n" for pair in pairs)
            (tmp_path / f"{split}.{language}").write_text(text, encoding="utf-8")
    files = [
        f"corpus.{split}.{name}={tmp_path}/{split}.{language}"
        for split in SPLITS
        for name, language in (("source", "en"), ("target", "de"))
    ]
    words = [
        *("corpus=moses", "corpus.name=toy", *files, "tokenizer=words"),
        *(f"paths.root={tmp_path}/home", "name=words", "cluster.backend=local", "tracking.system_metrics=false"),
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(ARCHITECTURES, "unigram", unigram_kind.ARCHITECTURE)
        patch.setitem(KINDS, "unigram", unigram_kind.KIND)
        patch.setitem(TASKS, "unigram", unigram_kind.TASK)
        made = config(words)
        assert shard.task(made) == 0
        assert train.task(made) == 0
        yield words


def config(settings: list[str], **model: object) -> Config:
    typed = compose.typed(Config, compose.values(settings))
    typed.model = {"architecture": "unigram", "name": "unigram", **model}
    return typed


def test_it_is_trained_and_evaluated_by_the_ordinary_verbs(
    settings: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    made = config(settings)
    assert open_bundle(made.run_dir / "bundle").facts["scores"]["bleu"] > 90
    assert evaluate.task(made) == 0
    assert "BLEU" in capsys.readouterr().out


def test_one_with_test_sets_of_its_own_counts_no_held_out_set(
    settings: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = config(settings)
    with monkeypatch.context() as patch:
        patch.setattr(unigram_kind.Counting, "held_out", False)
        assert evaluate.task(made) == 0
        assert "(set " not in capsys.readouterr().out
    assert evaluate.task(made) == 0
    assert "(set " in capsys.readouterr().out


def test_it_is_promoted_and_served(settings: list[str]) -> None:
    made = config(settings)
    assert promote.task(made) == 0
    worse = config([*settings, "name=worse"], least=1000)
    assert train.task(worse) == 0
    assert promote.task(worse) == 1, "a table without entries is not better"
    champion = Registry(made.tracking, made.registry).champion()
    assert champion is not None and champion.number == "1"

    source = ModelSource(
        bundle=f"models:/{made.registry.name}@champion",
        home=Home(tracking=made.tracking.uri, cache=f"{made.paths.root}/cache"),
    )
    model = Loader(source).load()
    batcher: Batcher[LoadedModel, str, Translation] = Batcher(LoadedModel.translate)
    batcher.start()
    queue = InferenceQueue(batcher, lambda: model)
    question = {"q": "cats call cows often .", "source": "en", "target": "de"}
    answer = Client(create_app(Endpoint(only_model(queue), queue))).post("/translate", json=question)
    batcher.stop(60)
    assert answer.json()["translatedText"] == "Katzen rufen Kühe oft."
    assert answer.headers["X-Model-Version"] == "1"
