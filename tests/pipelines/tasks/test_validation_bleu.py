"""BLEU in mid-training, which early stopping trusts, is on the scale of the final evaluation."""

from dataclasses import dataclass
from typing import Any

import pytest
import torch

from dragoman.model.shards.manifest import Manifest
from dragoman.pipelines.cluster.ranks import Ranks
from dragoman.pipelines.config import Config
from dragoman.pipelines.evaluation.metrics import score
from dragoman.pipelines.settings import EvaluateConfig
from dragoman.pipelines.tasks import validation_bleu

LINES = {
    "ja": (["猫が好きです。", "私は毎日電車で会社に行きます。"], ["犬が好きです。", "私は毎日電車で会社に行きます。"]),
    "zh": (["你好吗,朋友。", "我每天坐火车去公司。"], ["你好吗,先生。", "我每天坐火车去公司。"]),
    "de": (["Ein Hund rennt.", "Das ist ein kleines Haus."], ["Ein Hund läuft.", "Das ist ein kleines Haus."]),
}


@dataclass
class Answer:
    text: str


class Parrot:
    """A translator that says what it was given to say."""

    def __init__(self, lines: list[str]) -> None:
        self.lines = lines

    def translate(self, sources: list[str]) -> list[Answer]:
        return [Answer(self.lines[int(source)]) for source in sources]


class Second(Ranks):
    """Rank 1 of two; rank 0 has 42 to say."""

    def gather(self, value: Any) -> list[Any]:
        return [["x"], value]

    def from_first(self, value: Any) -> Any:
        return 42.0


def measured(monkeypatch: pytest.MonkeyPatch, language: str, tokenize: str, ranks: Ranks) -> float:
    hypotheses, references = LINES[language]
    forms: list[str] = []
    manifest = Manifest("mine", ["en", language], {"files": []}, "<u2", {}, normalisation="NFKC")
    monkeypatch.setattr(validation_bleu, "read_manifest", lambda _: manifest)
    monkeypatch.setattr(
        validation_bleu, "network_translator", lambda *given: forms.append(given[-1]) or Parrot(hypotheses)
    )
    monkeypatch.setattr(validation_bleu, "held_out", lambda *_: (["0", "1"], references))
    config = Config(pair=f"en-{language}", evaluate=EvaluateConfig(tokenize=tokenize))
    anything: Any = torch.nn.Linear(1, 1)
    bleu = validation_bleu.validation_bleu(config, anything, anything, ranks)
    assert forms == ["NFKC"]  # sources are read as the shards' were
    return bleu


@pytest.mark.parametrize(("language", "tokenize"), [("ja", "auto"), ("zh", "auto"), ("de", "auto"), ("de", "char")])
def test_it_is_the_final_evaluations(language: str, tokenize: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = measured(monkeypatch, language, tokenize, Ranks(0, 1, torch.device("cpu")))
    assert found == pytest.approx(score(*LINES[language], language, tokenize).bleu)
    assert 0 < found < 100


def test_every_rank_has_what_rank_0_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """One machine may have MeCab and another not: no rank stops by a score of its own."""
    assert measured(monkeypatch, "de", "auto", Second(1, 2, torch.device("cpu"))) == 42.0
