"""Attention asked for on the command line and over HTTP, of small real bundles of several architectures."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import torch

from dragoman.model.alignment.attention_map import END
from dragoman.model.bundles.network import save_bundle
from dragoman.model.errors import UserError
from dragoman.model.networks.rnnenc import EncoderDecoder, EncoderDecoderConfig
from dragoman.model.networks.rnnsearch import RNNSearch, RNNSearchConfig
from dragoman.model.settings import AlignmentConfig, DecodeConfig
from dragoman.model.text.tokenizer import TokenizerPair
from dragoman.services.commands.documents import MOST_MAPS
from dragoman.services.commands.translate import translate
from dragoman.services.endpoint.app import create_app
from dragoman.services.endpoint.batcher import Batcher
from dragoman.services.endpoint.endpoint import Endpoint
from dragoman.services.endpoint.inference_queue import InferenceQueue
from dragoman.services.models.loaded_model import LoadedModel, load_model
from dragoman.services.settings import Limits, TranslateConfig
from tests.services.endpoint.conftest import Client as AppClient
from tests.services.endpoint.conftest import only_model

LINES = b"the dog sees\n\nja , gut !\n"


@pytest.fixture(scope="module")
def bundles(bundle: Path, tokenizers: TokenizerPair, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """By architecture; the Transformer is exported."""
    folder = tmp_path_factory.mktemp("architectures")
    size = tokenizers.source.vocabulary
    torch.manual_seed(1)
    search = RNNSearchConfig(embedding=8, width=8, encoder_width=4, attention_width=4, max_positions=64)
    fixed = EncoderDecoderConfig(embedding=8, width=8, max_positions=64)
    facts = {"pair": "en-de", "decode": {"beam": 2, "max_extra": 5, "max_ratio": 1.0}}
    for name, network, config in (
        ("rnnsearch", RNNSearch(search, size, size), search),
        ("rnnenc", EncoderDecoder(fixed, size, size), fixed),
    ):
        save_bundle(folder / name, network=network, config=config, tokenizers=tokenizers, facts=facts)
    return {"transformer": bundle, "rnnsearch": folder / "rnnsearch", "rnnenc": folder / "rnnenc"}


# ------------------------------------------------------------------------------------------------------ the command


def run(tmp_path: Path, bundle: Path, attention: str, content: bytes = LINES, **settings: Any) -> Path:
    (tmp_path / "in.txt").write_bytes(content)
    alignment = settings.pop("alignment", AlignmentConfig())
    config = TranslateConfig(
        bundle=str(bundle),
        input=str(tmp_path / "in.txt"),
        output=str(tmp_path / "out.txt"),
        attention=str(tmp_path / attention),
        protect=False,  # the lines as they are
        **settings,
    )
    assert translate(config, DecodeConfig(), (), alignment) == 0
    return tmp_path / attention


@pytest.mark.parametrize("architecture", ["transformer", "rnnsearch"])
def test_json_has_tokens_weights_and_alignment_of_every_line(
    tmp_path: Path, bundles: dict[str, Path], architecture: str
) -> None:
    records = json.loads(run(tmp_path, bundles[architecture], "out.json", lines=2).read_text(encoding="utf-8"))
    texts = (tmp_path / "out.txt").read_text(encoding="utf-8").splitlines()
    assert [(one["line"], one["text"]) for one in records] == list(enumerate(texts))
    assert [len(one["sentences"]) for one in records] == [1, 0, 1]
    (sentence,) = records[0]["sentences"]
    assert sentence["source_tokens"] == ["the", "dog", "sees", END]
    assert [len(sentence["weights"]), len(sentence["weights"][0])] == [len(sentence["target_tokens"]), 4]
    assert all(sum(row) == pytest.approx(1.0, abs=1e-3) for row in sentence["weights"])
    for source, target in sentence["alignment"]:
        assert source < 3
        assert target < len(sentence["target_tokens"])


def test_a_line_of_several_sentences_has_a_map_each(tmp_path: Path, bundles: dict[str, Path]) -> None:
    content = b"Old house. The dog.\n\n"
    found = json.loads(run(tmp_path, bundles["rnnsearch"], "out.json", content, split=True).read_text())
    assert [one["source_tokens"][-2] for one in found[0]["sentences"]] == [".", "."]
    assert found[1]["sentences"] == []


def test_head_units_and_threshold_are_the_configurations(tmp_path: Path, bundles: dict[str, Path]) -> None:
    alignment = AlignmentConfig(head="l0h1", units="tokens", reading="input", threshold=0.01)
    found = json.loads(run(tmp_path, bundles["transformer"], "out.json", b"a d\n", alignment=alignment).read_text())
    (sentence,) = found[0]["sentences"]
    assert (sentence["head"], sentence["reading"]) == ("l0h1", "input")
    assert sentence["source_tokens"] == ["a", " ", "d", END]
    assert len(sentence["alignment"]) > len(sentence["target_tokens"]) - 1


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_a_picture_shows_every_sentence(tmp_path: Path, bundles: dict[str, Path], suffix: str) -> None:
    path = run(tmp_path, bundles["transformer"], f"maps.{suffix}", b"the $dog$ sees\n\nja\n")
    head = path.read_bytes()[:200]
    assert head.startswith(b"\x89PNG") if suffix == "png" else b"<svg" in path.read_bytes()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["in.txt", f"maps.{suffix}", "out.txt"]


def test_a_picture_has_room_for_so_many_and_says_what_is_left_out(
    tmp_path: Path, bundles: dict[str, Path], caplog: pytest.LogCaptureFixture
) -> None:
    run(tmp_path, bundles["rnnsearch"], "maps.png", b"ja\n" * (MOST_MAPS + 3))
    assert f"the first {MOST_MAPS} sentences; 3 more" in caplog.text


def test_nothing_to_show_is_said(tmp_path: Path, bundles: dict[str, Path], caplog: pytest.LogCaptureFixture) -> None:
    path = run(tmp_path, bundles["rnnsearch"], "maps.png", b"\n \n")
    assert "no line had a translation" in caplog.text
    assert not path.exists()


@pytest.mark.parametrize(
    ("architecture", "attention", "head", "message"),
    [
        ("rnnenc", "out.json", "auto", "rnnenc: this network has no attention"),
        ("transformer", "out.gif", "auto", r"translate\.attention: .*out\.gif: unknown kind of file\. Choices: \.png"),
        ("transformer", "no/out.png", "auto", r"translate\.attention: .* cannot be written"),
        ("transformer", "out.json", "l1", r"alignment\.head: 'l1': the network has 1 decoder layers of 2 heads"),
        ("transformer", "out.json", "best", r"alignment\.head: 'best' is not known"),
    ],
)
def test_mistakes_are_named(
    tmp_path: Path, bundles: dict[str, Path], architecture: str, attention: str, head: str, message: str
) -> None:
    with pytest.raises(UserError, match=message):
        run(tmp_path, bundles[architecture], attention, alignment=AlignmentConfig(head=head))
    assert not (tmp_path / attention).exists()


# ----------------------------------------------------------------------------------------------------- the endpoint


class Client:
    """Asks an endpoint of one bundle, without a socket."""

    def __init__(self, served: LoadedModel) -> None:
        self.served = served
        self.batcher: Batcher[Any, str, Any] = Batcher(LoadedModel.translate, limit=64, capacity=16)
        self.batcher.start()
        queue = InferenceQueue(self.batcher, lambda: served)
        self.app = create_app(Endpoint(only_model(queue), queue, limits=Limits(alternatives=2)))

    def ask(self, **values: Any) -> httpx.Response:
        return AppClient(self.app).post("/translate", json={"source": "en", "target": "de", **values})


@pytest.fixture(scope="module", params=["transformer", "rnnsearch"])
def client(request: pytest.FixtureRequest, bundles: dict[str, Path]) -> Iterator[Client]:
    made = Client(load_model(bundles[request.param]))
    yield made
    made.batcher.stop(60)


def test_a_translation_comes_with_its_alignment_when_asked_for(client: Client) -> None:
    plain = client.ask(q="the dog sees").json()
    assert list(plain) == ["translatedText"]
    answer = client.ask(q="the dog sees", alignment=True)
    assert answer.status_code == 200
    assert answer.json()["translatedText"] == plain["translatedText"]
    (sentence,) = answer.json()["alignment"]
    assert sentence["source_tokens"] == ["the", "dog", "sees", ".", END]  # the model is asked a sentence
    assert all(sum(row) == pytest.approx(1.0, abs=1e-3) for row in sentence["weights"])
    assert all(target < len(sentence["target_tokens"]) for _, target in sentence["alignment"])
    assert client.served.translator.engine.name == ("torch" if sentence["head"] == "l0h0" else "ctranslate2 (ct2)")


def test_a_list_has_a_list_a_text_and_a_map_a_sentence(client: Client) -> None:
    answer = client.ask(q=["A b c d. A b c d.", " ", "ja"], alignment="true", alternatives=1).json()
    assert [len(maps) for maps in answer["alignment"]] == [2, 0, 1]
    assert len(answer["alternatives"]) == 3
    assert client.ask(q=["ja"], alignment="0").json().keys() <= {"translatedText", "losses"}


def test_odd_texts_are_answered(client: Client) -> None:
    for q in ("ΩΩ Ω", "a", "x " * 300):
        answer = client.ask(q=q, alignment=True)
        assert answer.status_code == 200
        copied = not set(q) & set("adehkos")  # no letter of the vocabulary
        assert bool(answer.json()["alignment"]) != copied
        assert not copied or answer.json()["translatedText"] == q


def test_what_is_neither_true_nor_false_is_a_400(client: Client) -> None:
    for value in ("maybe", 2, [True], {"a": 1}):
        answer = client.ask(q="ja", alignment=value)
        assert (answer.status_code, answer.json()["error"]) == (400, "Invalid request: alignment must be true or false")


def test_a_network_without_attention_is_a_400_and_still_translates(bundles: dict[str, Path]) -> None:
    client = Client(load_model(bundles["rnnenc"]))
    answer = client.ask(q="ja", alignment=True)
    assert answer.status_code == 400
    assert "alignment is not supported: rnnenc: this network has no attention" in answer.json()["error"]
    assert client.ask(q="ja").status_code == 200
    client.batcher.stop(60)
