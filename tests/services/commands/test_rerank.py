"""Another system's lists in, better ordered ones out."""

import gzip
import json
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sacrebleu.metrics.bleu import BLEU

from dragoman.model.bundles.translation import load_bundle
from dragoman.model.errors import UserError
from dragoman.model.inference.scoring import open_scorer
from dragoman.model.settings import DecodeConfig
from dragoman.services.commands.nbest import Weights, load_weights, read_nbest
from dragoman.services.commands.rerank import rerank
from dragoman.services.commands.translate import translate
from dragoman.services.settings import RerankConfig, TranslateConfig

REFERENCES = ["the dog sees the old man .", "a house is old and small .", "where is my good old friend ?"] * 4
SOURCES = ["der hund", "ein haus", "wo ist"] * 4


def constructed(count: int = 6, seed: int = 0, name: str = "Dragoman") -> str:
    """Lists whose own score misleads and whose feature `name` knows the quality."""
    rng = np.random.default_rng(seed)
    lines = []
    for number, reference in enumerate(REFERENCES):
        words = reference.split()
        for rank in range(count):
            broken = rng.permutation(len(words))[: count - 1 - rank]  # the last one is the reference itself
            text = " ".join("wrong" if place in broken else word for place, word in enumerate(words))
            noise = 0.1 * rng.random()
            lines.append(f"{number} ||| {text} ||| LM= {-rng.random():.4f} {name}= {rank + noise:.4f} ||| {-rank}\n")
    return "".join(lines)


def files(tmp_path: Path, content: str, /, **settings: Any) -> RerankConfig:
    (tmp_path / "lists").write_text(content, encoding="utf-8")
    (tmp_path / "src").write_text("".join(f"{line}\n" for line in SOURCES))
    (tmp_path / "ref").write_text("".join(f"{line}\n" for line in REFERENCES))
    paths = {key: str(tmp_path / name) for key, name in (("nbest", "lists"), ("source", "src"), ("output", "out"))}
    return RerankConfig(**{**paths, **settings})


def test_tuned_weights_improve_a_constructed_case(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    references, weights = str(tmp_path / "ref"), str(tmp_path / "w.json")
    assert rerank(files(tmp_path, constructed(), references=references, tune=weights, output=None)) == 0
    record = json.loads(Path(weights).read_text())
    assert record["bleu"]["after"] == pytest.approx(100)
    assert record["bleu"]["before"] < 40
    assert record["weights"].keys() == {"Score", "Dragoman", "Length"}
    assert sum(map(abs, record["weights"].values())) == pytest.approx(1)
    metric = BLEU()
    metric.corpus_score(REFERENCES, [REFERENCES])
    assert record["bleu"]["signature"] == str(metric.get_signature())

    other = constructed(seed=5)  # lists that were not tuned on
    assert rerank(files(tmp_path, other, references=references, weights=weights)) == 0
    chosen = (tmp_path / "out").read_text().splitlines()
    first = [each.entries[0].text for each in read_nbest(other.splitlines(), "x")]
    before, after = (BLEU().corpus_score(texts, [REFERENCES]).score for texts in (first, chosen))
    assert after > before + 30
    assert f"BLEU {before:.2f} before, {after:.2f} after" in caplog.text


@pytest.mark.parametrize(("words", "tokenizer"), [("我今天早上去公园散步了", "zh"), ("ฉันรักภาษาไทยมาก", "char")])
def test_lists_with_our_feature_are_scored_by_their_language(
    words: str, tokenizer: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """No model is loaded where the feature is there already: the texts tell how they are written."""
    caplog.set_level(logging.INFO)
    lists = "".join(
        f"{number} ||| {words[:-2]}不 ||| Dragoman= -2 ||| -1\n{number} ||| {words} ||| Dragoman= -1 ||| -1\n"
        for number in range(len(SOURCES))
    )
    config = files(tmp_path, lists, references=str(tmp_path / "ref"))
    (tmp_path / "ref").write_text(f"{words}\n" * len(SOURCES), encoding="utf-8")
    assert rerank(config) == 0
    assert "100.00 after: " in caplog.text and f"|tok:{tokenizer}|" in caplog.text


def test_tuning_again_gives_the_same_file(tmp_path: Path) -> None:
    texts = []
    for name in ("a", "b"):
        config = files(tmp_path, constructed(), references=str(tmp_path / "ref"), tune=str(tmp_path / name))
        assert rerank(config) == 0
        texts.append((tmp_path / name).read_bytes())
    assert texts[0] == texts[1]
    assert (tmp_path / "out").read_text().splitlines() == REFERENCES


def test_our_score_is_added_as_a_feature(tmp_path: Path, bundle: Path) -> None:
    lists = "0 ||| ein hund ||| F= 1 ||| -2\n0 ||| der mann ||| F= 2 ||| -3\n3 ||| ja ||| F= 0 ||| -1 ||| 0-0\n"
    config = files(tmp_path, lists, bundle=str(bundle), format="scored", lists=1)
    assert rerank(config) == 0
    scorer = open_scorer(load_bundle(bundle))
    pairs = [("der hund", "ein hund"), ("der hund", "der mann"), ("der hund", "ja")]
    found = [scorer.score([source], [target])[0].log_probability for source, target in pairs]
    rows = (tmp_path / "out").read_text().splitlines()
    read = ["0 ||| ein hund ||| F= 1", "0 ||| der mann ||| F= 2", "3 ||| ja ||| F= 0"]
    assert [row.split(" Dragoman= ")[0] for row in rows] == read
    assert [float(row.split("Dragoman= ")[1].split()[0]) for row in rows] == pytest.approx(found, abs=1e-4)
    assert rows[2].endswith(" ||| -1.000000 ||| 0-0")

    assert rerank(files(tmp_path, lists, bundle=str(bundle), format="nbest")) == 0
    first, second = (tmp_path / "out").read_text().splitlines()[:2]
    totals = [float(row.split(" ||| ")[3]) for row in (first, second)]
    assert totals == pytest.approx(sorted([(found[0] - 2) / 2, (found[1] - 3) / 2], reverse=True), abs=1e-4)


def test_a_sentence_is_a_line_even_without_a_list(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    lists = "2 ||| ja ||| Dragoman= 1 ||| 1\n4 ||| nein ||| Dragoman= 1 ||| 1\n4 ||| gut ||| Dragoman= 3 ||| 0\n"
    assert rerank(files(tmp_path, lists)) == 0
    assert (tmp_path / "out").read_text().split("\n") == ["", "", "ja", "", "gut", *[""] * 8]
    assert "10 sentences have no list" in caplog.text


def test_our_own_translations_are_such_lists(tmp_path: Path, bundle: Path) -> None:
    """What the search ranks by log-probability keeps its order under the score of the same model."""
    (tmp_path / "in").write_text("the dog\na house\nja\n")
    settings = TranslateConfig(
        bundle=str(bundle), input=str(tmp_path / "in"), output=str(tmp_path / "l.gz"), format="nbest", nbest=3
    )
    assert translate(settings, DecodeConfig(length_penalty=0.0), ["decode.length_penalty=0"]) == 0
    lines = gzip.decompress((tmp_path / "l.gz").read_bytes()).decode().splitlines()
    config = files(tmp_path, "", bundle=str(bundle), nbest=str(tmp_path / "l.gz"), format="scored")
    config.source = str(tmp_path / "in")
    assert rerank(config) == 0
    entries = [entry for each in read_nbest((tmp_path / "out").read_text().splitlines(), "x") for entry in each.entries]
    assert len(entries) == len(lines) == 9
    assert all(entry.features["Dragoman"] < 0 for entry in entries)


@pytest.mark.parametrize(
    ("lists", "settings", "message"),
    [
        ("0 ||| a ||| Dragoman= 1 ||| x\n", {}, r"lists, line 1: the score is 'x'"),
        ("12 ||| a ||| Dragoman= 1 ||| 1\n", {}, r"lists, line 1: sentence 12, but .*src has 12 lines"),
        ("0 ||| a ||| Dragoman= 1 ||| 1\n0 ||| a ||| F= 1 ||| 1\n", {}, r"line 2: no feature Dragoman, which others"),
        ("", {"source": None}, r"rerank\.source"),
        ("", {"tune": "w"}, r"rerank\.references: weights are tuned against"),
        ("", {"feature": "a b"}, r"rerank\.feature: 'a b'"),
        ("", {"tune": "w", "references": "REF"}, r"lists: no lists to tune on"),
        ("", {"tune": "w", "references": "REF", "weights": "w"}, "not both"),
        (constructed(), {"references": "REF2"}, r"REF2 has 1 line, .*src 12"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, lists: str, settings: dict[str, Any], message: str) -> None:
    (tmp_path / "REF2").write_text("one\n")
    places = {"REF": str(tmp_path / "ref"), "REF2": str(tmp_path / "REF2")}
    settings = {key: places.get(str(value), value) for key, value in settings.items()}
    with pytest.raises(UserError, match=message):
        rerank(files(tmp_path, lists, **settings))
    assert not (tmp_path / "out").exists()


def test_a_hypothesis_too_long_is_named_or_cut(tmp_path: Path, bundle: Path) -> None:
    lists = "0 ||| ja ||| F= 1 ||| 1\n0 ||| " + "gut " * 30 + "||| F= 1 ||| 1\n"
    with pytest.raises(UserError, match=r"lists, line 2: the target has 120 tokens, more than the model's 64"):
        rerank(files(tmp_path, lists, bundle=str(bundle)))
    assert rerank(files(tmp_path, lists, bundle=str(bundle), too_long="truncate")) == 0


def test_a_model_of_the_other_direction_scores_the_source(tmp_path: Path, bundle: Path) -> None:
    lists = "0 ||| ein hund ||| F= 1 ||| -2\n0 ||| der mann ||| F= 2 ||| -3\n"
    weights = str(tmp_path / "w")
    settings = {"bundle": str(bundle), "reverse": True}
    assert rerank(files(tmp_path, lists, format="scored", **settings)) == 0
    rows = (tmp_path / "out").read_text().splitlines()
    scorer = open_scorer(load_bundle(bundle))
    found = [scorer.score([target], ["der hund"])[0].log_probability for target in ("ein hund", "der mann")]
    assert [float(row.split("Dragoman= ")[1].split()[0]) for row in rows] == pytest.approx(found, abs=1e-4)
    there = scorer.score(["der hund"], ["ein hund"])[0].log_probability
    assert found[0] != pytest.approx(there, abs=1e-2)

    assert rerank(files(tmp_path, lists, references=str(tmp_path / "ref"), tune=weights, **settings)) == 0
    assert rerank(files(tmp_path, lists, weights=weights, **settings)) == 0
    with pytest.raises(UserError, match=r"was tuned with rerank.reverse=true; set it so"):
        rerank(files(tmp_path, lists, weights=weights, bundle=str(bundle)))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is not JSON"),
        ('{"kind": "rerank-weights", "format_version": 9, "weights": {"a": 1}}', "format version 9; known: 2"),
        ('{"kind": "rerank-weights", "format_version": 2, "weights": {}}', "holds no weights"),
        ('{"kind": "rerank-weights", "format_version": 2, "weights": {"a": NaN}}', "the weight of 'a' is nan"),
    ],
)
def test_a_file_of_weights_is_checked(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "w").write_text(content)
    with pytest.raises(UserError, match=message):
        load_weights(str(tmp_path / "w"))


def test_weights_come_back_as_they_were(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    weights = Weights({"Score": 0.25, "Gone": -0.75}, {"feature": "Other"})
    weights.save(tmp_path / "w")
    assert load_weights(str(tmp_path / "w")) == weights
    with pytest.raises(UserError, match="weighs 'Other' and not 'Dragoman'"):
        rerank(files(tmp_path, constructed(), weights=str(tmp_path / "w")))
    assert rerank(files(tmp_path, constructed(name="Other"), weights=str(tmp_path / "w"), feature="Other")) == 0
    assert "no hypothesis has: Gone" in caplog.text
