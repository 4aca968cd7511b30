"""The verb evaluate and what it is made of, on a small bundle with made-up weights."""

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dragoman.model.bundles.network import save_bundle
from dragoman.model.bundles.translation import TranslationBundle, load_bundle
from dragoman.model.errors import UserError
from dragoman.model.inference.engines import runs_int8
from dragoman.model.inference.translator import network_translator, open_translator
from dragoman.model.networks.transformer import Transformer, TransformerConfig
from dragoman.model.settings import DecodeConfig
from dragoman.model.shards.manifest import manifest_hash
from dragoman.model.text.tokenizer import TokenizerConfig
from dragoman.model.text.tokenizers import train_pair
from dragoman.pipelines import entries
from dragoman.pipelines.evaluation import tuning
from dragoman.pipelines.evaluation.held_out import held_out
from dragoman.pipelines.evaluation.metrics import quick_bleu, quick_chrf
from dragoman.pipelines.evaluation.translation import TranslationEvaluation, evaluate_bundle
from dragoman.pipelines.evaluation.tuning import gate_int8, tune_length_penalty
from tests.held_out import keep_texts


def lines(count: int, seed: int) -> list[str]:
    rng = random.Random(seed)
    words = ["".join(rng.choices("aeioubdfgklmnrst", k=rng.randint(2, 6))) for _ in range(60)]
    return [" ".join(rng.choices(words, k=rng.randint(2, 12))) for _ in range(count)]


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> TranslationBundle:
    """In `home/runs/small/bundle`."""
    pair = train_pair(TokenizerConfig(type="bpe", vocabulary=150), lines(200, 1), lines(200, 2))
    config = TransformerConfig(
        width=32, heads=4, feed_forward=48, encoder_layers=1, decoder_layers=2, max_positions=64, norm="pre"
    )
    torch.manual_seed(3)
    network = Transformer(config, pair.source.vocabulary, pair.target.vocabulary)
    with torch.no_grad():
        network.output.weight.mul_(2)
    directory = tmp_path_factory.mktemp("home") / "runs" / "small" / "bundle"
    facts = {"pair": "en-de", "decode": {"beam": 2, "length_penalty": 0.9, "max_ratio": 1.0, "max_extra": 4}}
    save_bundle(directory, network=network, config=config, tokenizers=pair, facts=facts)
    return load_bundle(directory)


@pytest.fixture(scope="module")
def shards(bundle: TranslationBundle) -> Path:
    """A shard directory with held-out texts; the references are what the bundle itself says, twice damaged."""
    texts: dict[str, dict[str, list[str]]] = {}
    for split, count in (("valid", 30), ("test", 40)):
        sources = lines(count, count)
        sources[3] = ""
        said = [answer.text for answer in open_translator(bundle).translate(sources)]
        references = [f"{text} mehr" if row % 2 else text or "leer" for row, text in enumerate(said)]
        texts[split] = {"en": sources, "de": references}
    return keep_texts(bundle.directory.parents[2] / "shards", texts, tokenizer=bundle.tokenizers.describe())


@pytest.fixture(scope="module")
def found(bundle: TranslationBundle, shards: Path) -> TranslationEvaluation:
    return evaluate_bundle(bundle, shards, samples=4, engine="ctranslate2")


def test_an_evaluation_holds_scores_texts_and_origins(
    found: TranslationEvaluation, bundle: TranslationBundle, shards: Path
) -> None:
    assert len(found.hypotheses) == len(found.references) == found.scores.sentences == 40
    assert found.hypotheses[3] == ""
    assert 20 < found.scores.bleu < 100
    assert found.decode == bundle.decode
    assert (found.bundle, found.manifest_hash) == (bundle.digest, manifest_hash(shards))
    assert len(found.samples) == 4
    assert found.engine == "ctranslate2 (ct2)"
    text = found.report()
    for expected in ("BLEU|nrefs:1|case:mixed", "case:lc", "sacremoses.de.lc", "chrF2|", "TER|", "1-5", "hypothesis"):
        assert expected in text


def test_the_record_and_the_hypotheses_are_kept(found: TranslationEvaluation, tmp_path: Path) -> None:
    record, texts = found.write(tmp_path)
    assert (record.name, texts.name) == ("evaluation.test.json", "hypotheses.test.de.txt")
    assert json.loads(record.read_text())["scores"]["bleu"] == found.scores.bleu
    assert texts.read_text().split("\n") == [*found.hypotheses, ""]
    assert len(list(tmp_path.iterdir())) == 2


def test_both_engines_score_the_same(found: TranslationEvaluation, bundle: TranslationBundle, shards: Path) -> None:
    other = evaluate_bundle(bundle, shards, engine="torch")
    assert found.hypotheses == other.hypotheses
    assert found.scores == other.scores


def test_an_automatic_penalty_is_the_bundles_own_or_tuned_on_validation(
    bundle: TranslationBundle, shards: Path
) -> None:
    automatic = DecodeConfig(beam=3, length_penalty="auto")
    assert evaluate_bundle(bundle, shards, decode=automatic).decode.length_penalty == 0.9
    unsettled = replace(bundle, decode=replace(bundle.decode, length_penalty="auto"))
    expected = tune_length_penalty(
        bundle.network, bundle.tokenizers, *held_out(shards, "valid", ("en", "de")), automatic, language="de"
    )
    assert evaluate_bundle(unsettled, shards, decode=automatic).decode.length_penalty == expected.penalty
    assert evaluate_bundle(unsettled, shards, "valid", decode=automatic).decode.length_penalty == 1.0


def test_ranking_anew_equals_searching_again(bundle: TranslationBundle, shards: Path) -> None:
    sources, references = held_out(shards, "valid", ("en", "de"))
    config = DecodeConfig(beam=4, max_ratio=1.0, max_extra=4)
    penalties = (0.3, 1.0, 2.5)
    choice = tune_length_penalty(bundle.network, bundle.tokenizers, sources, references, config, penalties, "de")
    for penalty in penalties:
        again = network_translator(bundle.network, bundle.tokenizers, replace(config, length_penalty=penalty), "NFC")
        texts = [answer.text for answer in again.translate(sources)]
        assert choice.tried[penalty] == pytest.approx(quick_bleu(texts, references))
    assert choice.tried[choice.best] == max(choice.tried.values())
    assert choice.tried[choice.penalty] == choice.bleu


def test_of_equal_penalties_the_one_nearest_to_the_mean_per_token_is_chosen(
    bundle: TranslationBundle, shards: Path
) -> None:
    sources, _ = held_out(shards, "valid", ("en", "de"))
    references = ["nothing alike"] * len(sources)
    choice = tune_length_penalty(
        bundle.network, bundle.tokenizers, sources, references, DecodeConfig(beam=1), (2.0, 1.2, 0.0)
    )
    assert choice.penalty == 1.2


def test_a_lead_within_a_standard_error_does_not_move_the_penalty(
    bundle: TranslationBundle, shards: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources, references = held_out(shards, "valid", ("en", "de"))

    def resampled(lead: float) -> Any:
        """0 leads by so much; its difference to the others has a standard error of 1."""
        scores = np.array([30.0 + lead, 30.0, 30.0])
        return lambda systems, *_: (scores, scores + np.array([[1.0, 0.0, 0.0], [-1.0, 0.0, 0.0]]))

    for lead, wanted in ((0.9, 1.2), (1.1, 0.0)):
        monkeypatch.setattr(tuning, "score_resampled", resampled(lead))
        choice = tune_length_penalty(
            bundle.network, bundle.tokenizers, sources, references, DecodeConfig(beam=1), (0.0, 2.0, 1.2)
        )
        assert (choice.penalty, choice.best) == (wanted, 0.0)
        assert choice.bleu == choice.tried[wanted]


def test_int8_is_accepted_within_the_tolerance_and_refused_beyond(
    bundle: TranslationBundle, shards: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tuning, "int8_instructions", lambda: ["avx512_vnni"])
    sources, references = held_out(shards, "valid", ("en", "de"))
    made = gate_int8(bundle, sources, references, tolerance=100.0)
    generous = bundle.facts["int8"]
    assert generous["accepted"] and generous["instructions"] == ["avx512_vnni"]
    assert generous["chrf_int8"] == quick_chrf(made["ctranslate2 (ct2-int8)"], references)
    assert open_translator(bundle.directory).engine.name == "ctranslate2 (ct2-int8)"
    gate_int8(bundle, sources, references, tolerance=-100.0)
    strict = bundle.facts["int8"]
    assert not strict["accepted"]
    assert open_translator(bundle.directory).engine.name == "ctranslate2 (ct2)"
    assert load_bundle(bundle.directory).facts["int8"] == strict


def test_int8_does_not_serve_where_the_processor_has_no_instructions_for_it(
    bundle: TranslationBundle, shards: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tuning, "int8_instructions", list)
    gate_int8(bundle, *held_out(shards, "valid", ("en", "de")), tolerance=100.0)
    verdict = bundle.facts["int8"]
    assert not verdict["accepted"] and verdict["instructions"] == []


def test_scores_by_int8_have_float32s_beside_them(
    found: TranslationEvaluation, bundle: TranslationBundle, shards: Path
) -> None:
    if not runs_int8("cpu"):
        pytest.skip("this machine multiplies no int8")
    served = evaluate_bundle(bundle, shards, "test", engine="ctranslate2-int8")
    assert served.engine == "ctranslate2 (ct2-int8)" and found.float32 is None
    assert served.float32 == {"bleu": found.scores.bleu, "chrf": found.scores.chrf}
    assert served.record()["float32"] == served.float32 and "float32: BLEU" in served.report()


def test_held_out_texts_are_checked(bundle: TranslationBundle, shards: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"evaluate.split: 'tset' is not known. Did you mean 'test'"):
        held_out(shards, "tset", ("en", "de"))
    with pytest.raises(UserError, match="the bundle needs 'fr'"):
        held_out(shards, "test", ("en", "fr"))
    for path in shards.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "test.de.txt").write_text("changed\n")
    with pytest.raises(UserError, match=r"test\.de\.txt: not the file that was written"):
        held_out(tmp_path, "test", ("en", "de"))
    (tmp_path / "test.de.txt").unlink()
    with pytest.raises(UserError, match=r"test\.de\.txt: missing"):
        held_out(tmp_path, "test", ("en", "de"))


def test_the_verb_prints_the_scores_and_keeps_them_beside_the_bundle(
    bundle: TranslationBundle, shards: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home = bundle.directory.parents[2]
    places = [f"paths.root={home}", f"paths.shards={shards}", "decode.beam=2"]
    assert entries.main(["evaluate", "name=small", *places, "evaluate.against=small", "evaluate.samples=1"]) == 0
    printed = capsys.readouterr().out
    assert "BLEU|nrefs:1" in printed
    assert "p = 1.0000" in printed
    assert (bundle.directory.parent / "evaluation.test.json").is_file()
    assert entries.main(["evaluate", f"bundle={bundle.directory}", *places, "evaluate.sentences=5"]) == 0
    assert "5 sentences" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["bundle=nowhere"], "neither a bundle's directory nor a run"),
        (["name=untrained"], "has no bundle yet"),
        (["evaluate.split=dev"], "'dev' is not known"),
        (["evaluate.tokenize=x"], "evaluate.tokenize: 'x'"),
        (["decode.beam=0"], "decode.beam=0"),
        (["engine=gpu"], "engine: 'gpu'"),
    ],
)
def test_a_users_mistake_ends_with_two_and_is_named(
    words: list[str], message: str, bundle: TranslationBundle, shards: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home = bundle.directory.parents[2]
    assert entries.main(["evaluate", "name=small", f"paths.root={home}", f"paths.shards={shards}", *words]) == 2
    assert message in capsys.readouterr().err
