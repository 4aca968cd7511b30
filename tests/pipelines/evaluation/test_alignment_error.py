"""Alignment error rate: by hand, and of small networks on a small phrasebook from the verb on."""

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest
import torch

from dragoman.model.alignment.attention_map import AlignmentConfig, Head, Link, links
from dragoman.model.bundles.network import save_bundle
from dragoman.model.bundles.translation import load_bundle
from dragoman.model.inference.aligner import Aligner
from dragoman.model.networks.rnnenc import EncoderDecoder, EncoderDecoderConfig
from dragoman.model.networks.rnnsearch import RNNSearch, RNNSearchConfig
from dragoman.model.networks.transformer import Transformer, TransformerConfig
from dragoman.model.text.tokenizer import TokenizerConfig, TokenizerPair
from dragoman.model.text.tokenizers import train_pair
from dragoman.pipelines import entries
from dragoman.pipelines.config import Config, PathsConfig
from dragoman.pipelines.corpus.gold import gold_words
from dragoman.pipelines.corpus.read.built_in import Pair, phrasebook
from dragoman.pipelines.evaluation.alignment_error import (
    AlignmentEvaluation,
    AlignmentScore,
    candidates,
    evaluate_alignment,
    measure,
    report,
    stack_heads,
    table_of,
    word_maps,
)
from dragoman.pipelines.tasks.alignment_report import crossings, record_alignment
from dragoman.pipelines.tracking.run import TrackedRun
from dragoman.pipelines.tracking.server import TrackingConfig
from tests.held_out import keep_texts

SEED, PAIRS = 7, 60


# ---------------------------------------------------------------------------------------------------------- by hand


def alignment_score(
    sentences: Iterable[tuple[Iterable[Link], Iterable[Link], Iterable[Link]]],
) -> AlignmentScore:
    """Scores sentences, each given as (links found, sure links, possible links); sure ones always count as possible."""
    totals = np.zeros(4, np.int64)
    for found, sure, possible in sentences:
        a, s = set(found), set(sure)
        totals += [len(a), len(s), len(a & s), len(a & (s | set(possible)))]
    return AlignmentScore(*totals.tolist())


def test_error_rate_precision_and_recall_by_hand() -> None:
    # sentence 1: found a-a, b-c, c-c; sure a-a, c-b; possible also b-c  ->  |A| 3, |S| 2, A and S 1, A and P 2
    # sentence 2: found a-a; sure a-a                                    ->  |A| 1, |S| 1, A and S 1, A and P 1
    score = alignment_score([([(0, 0), (1, 2), (2, 2)], [(0, 0), (2, 1)], [(1, 2)]), ([(0, 0)], [(0, 0)], [])])
    assert score == AlignmentScore(found=4, sure=3, found_sure=2, found_possible=3)
    assert score.precision == pytest.approx(3 / 4)
    assert score.recall == pytest.approx(2 / 3)
    assert score.aer == pytest.approx(1 - (2 + 3) / (4 + 3))
    assert score.record() == {"aer": 0.28571, "precision": 0.75, "recall": 0.66667}


def test_a_perfect_alignment_has_no_error_and_none_at_all_is_all_error() -> None:
    gold = [(0, 0), (1, 0), (2, 1)]
    assert alignment_score([(gold, gold, gold)]).aer == 0.0
    nothing = alignment_score([([], gold, gold)])
    assert (nothing.aer, nothing.precision, nothing.recall) == (1.0, 0.0, 0.0)
    assert alignment_score([]).aer == 1.0


def test_with_sure_links_alone_the_error_is_one_minus_f1() -> None:
    score = AlignmentScore(found=10, sure=14, found_sure=6, found_possible=6)
    f1 = 2 * score.precision * score.recall / (score.precision + score.recall)
    assert score.aer == pytest.approx(1 - f1)


def test_candidates_are_heads_layers_and_all_in_the_order_of_their_weights() -> None:
    weights = np.random.default_rng(0).random((2, 3, 4, 5)).astype(np.float32)
    every = stack_heads(weights)
    heads = candidates(2, 3)
    assert len(every) == len(heads) == 9
    for head, found in zip(heads, every, strict=True):
        np.testing.assert_allclose(found, head.select(weights), rtol=1e-6)
    assert candidates(1, 1) == [Head(0, 0)]
    assert stack_heads(weights[:1, :1]).shape == (1, 4, 5)


def test_crossing_links_are_counted() -> None:
    assert crossings(frozenset({(0, 0), (1, 1)})) == 0
    assert crossings(frozenset({(0, 2), (1, 0), (2, 1)})) == 2


# ------------------------------------------------------------------------------------------------------ of networks


@pytest.fixture(scope="module")
def lines() -> Mapping[str, list[Pair]]:
    return phrasebook(PAIRS)


@pytest.fixture(scope="module")
def tokenizers(lines: Mapping[str, list[Pair]]) -> TokenizerPair:
    texts = [[getattr(line, side) for line in lines["train"]] for side in ("english", "german")]
    return train_pair(TokenizerConfig(type="bpe", vocabulary=150), *texts)


@pytest.fixture(scope="module")
def home(lines: Mapping[str, list[Pair]], tokenizers: TokenizerPair, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`shards` with held-out texts, and three runs of random networks."""
    root = tmp_path_factory.mktemp("home")
    texts = {
        split: {
            code: [getattr(line, side) for line in lines[split]] for code, side in (("en", "english"), ("de", "german"))
        }
        for split in ("valid", "test")
    }
    config = {"corpus": {"format": "phrasebook", "pairs": PAIRS}}
    keep_texts(root / "shards", texts, corpus="phrasebook", tokenizer=tokenizers.describe(), seed=SEED, config=config)
    size = tokenizers.source.vocabulary
    torch.manual_seed(2)
    transformer = TransformerConfig(
        width=16, heads=2, feed_forward=16, encoder_layers=1, decoder_layers=2, max_positions=80
    )
    search = RNNSearchConfig(embedding=8, width=8, encoder_width=4, attention_width=4, max_positions=80)
    fixed = EncoderDecoderConfig(embedding=8, width=8, max_positions=80)
    for name, network, own in (
        ("transformer", Transformer(transformer, size, size), transformer),
        ("rnnsearch", RNNSearch(search, size, size), search),
        ("rnnenc", EncoderDecoder(fixed, size, size), fixed),
    ):
        facts = {"pair": "en-de", "decode": {"beam": 1, "max_ratio": 0.0, "max_extra": 4}}
        save_bundle(
            root / "runs" / name / "bundle", network=network, config=own, tokenizers=tokenizers, facts=facts, exports=[]
        )
    return root


@pytest.fixture(scope="module")
def evaluation(home: Path) -> AlignmentEvaluation:
    return evaluate_alignment(load_bundle(home / "runs" / "transformer" / "bundle"), home / "shards")


def test_every_head_is_measured_as_one_by_one(
    home: Path, tokenizers: TokenizerPair, lines: Mapping[str, list[Pair]]
) -> None:
    """The sums over all heads at once against maps, links and counts of a single one."""
    bundle = load_bundle(home / "runs" / "transformer" / "bundle")
    aligner = Aligner(bundle.network, tokenizers)
    sources, targets = ([getattr(line, side) for line in lines["test"]] for side in ("english", "german"))
    gold = [frozenset(line.alignment) for line in lines["test"]]
    for threshold in (0.0, 0.2):
        table = measure(aligner, sources, targets, gold, threshold)
        assert len(table) == 2 * (4 + 2 + 1)
        for candidate in (("output", Head(1, 0)), ("input", Head(0, 1)), ("input", Head(1)), ("output", Head())):
            maps = word_maps(aligner, sources, targets, candidate)  # type: ignore[arg-type]  # literals
            found = [
                [(int(i), int(j)) for j, i in np.argwhere(links(one.weights[:-1, :-1], threshold))] for one in maps
            ]
            for one, source, target in zip(maps, sources, targets, strict=True):
                assert one.source_tokens[:-1] == tuple(source[begin:end] for begin, end in gold_words(source))
                assert one.target_tokens[:-1] == tuple(target[begin:end] for begin, end in gold_words(target))
            expected = alignment_score(zip(found, gold, gold, strict=True))
            assert table[candidate] == expected  # type: ignore[index]  # the same


def test_the_head_is_chosen_on_validation_and_reported_on_test(evaluation: AlignmentEvaluation) -> None:
    valid, test = evaluation.tables["valid"], evaluation.tables["test"]
    every = {candidate: score.aer for candidate, score in valid.items()}
    assert every[evaluation.candidate] == min(every.values())
    assert every[evaluation.single] == min(aer for one, aer in every.items() if one[1].head is not None)
    assert (evaluation.score, evaluation.single_score) == (test[evaluation.candidate], test[evaluation.single])
    assert evaluation.chosen_on == "valid"
    assert len(evaluation.pharaoh) == len(evaluation.sources) == len(evaluation.gold)
    again = alignment_score(zip(evaluation.pharaoh, evaluation.gold, evaluation.gold, strict=True))
    assert again == evaluation.score


def test_the_report_has_a_table_of_each_reading(evaluation: AlignmentEvaluation) -> None:
    text = report(evaluation)
    first, second, *_ = text.splitlines()
    assert first.startswith("alignment of en-de test: 6 sentences, ")
    assert f", read by {evaluation.candidate[0]}: AER {evaluation.score.aer:.3f}, precision " in second
    assert [text.count(word) for word in ("read by output  ", "read by input  ", "mean of all")] == [1, 1, 2]
    assert f"{evaluation.tables['test']['input', Head(1, 1)].aer:.3f}" in text


def test_a_head_and_a_reading_that_are_named_are_taken(home: Path) -> None:
    bundle = load_bundle(home / "runs" / "transformer" / "bundle")
    found = evaluate_alignment(bundle, home / "shards", "valid", AlignmentConfig(head="l1", reading="input"), 2)
    assert found.candidate == ("input", Head(1))
    assert (found.chosen_on, found.split, len(found.pharaoh)) == ("alignment.head", "valid", 2)
    assert list(found.tables) == ["valid"]


def overrides(home: Path, name: str) -> list[str]:
    return [f"name={name}", f"paths.root={home}", f"paths.shards={home}/shards", "tracking.offline=true",
            "tracking.system_metrics=false", "evaluate.engine=torch", "evaluate.samples=0",
            "evaluate.alignment=true"]  # fmt: skip


def test_the_verb_prints_and_keeps_what_it_measured(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert entries.main(["evaluate", *overrides(home, "rnnsearch")]) == 0
    assert "best: l0h0, read by " in capsys.readouterr().out
    run = home / "runs" / "rnnsearch"
    record = json.loads((run / "alignment.test.json").read_text())
    assert (record["head"], record["chosen_on"]) == ("l0h0", "valid")
    assert {row["split"] for row in record["heads"]} == {"valid", "test"}
    assert len((run / "alignment.test.txt").read_text().splitlines()) == record["sentences"]
    assert {path.name for path in (run / "pictures").iterdir()} == {
        f"alignment_{name}.png" for name in ("errors", "maps", "heads")
    }
    spooled = [json.loads(line) for line in (run / "spool" / "records.jsonl").read_text().splitlines()]
    values = {key: value for one in spooled if one["kind"] == "metrics" for key, value in one["values"].items()}
    assert values["test_aer"] == values["test_aer/l0h0"] == pytest.approx(record["aer"], abs=1e-4)
    assert {"valid_aer", "test_aer_head", "test_alignment_precision", "test_alignment_recall"} <= set(values)
    artifacts = {Path(one["path"]).name for one in spooled if one["kind"] == "artifact"}
    assert {"heads.json", "heads.png", "maps.png", "errors.png", "alignment.test.txt"} <= artifacts
    assert "alignment" not in load_bundle(run / "bundle").facts  # it may be registered already


def test_the_verb_names_what_has_no_attention_or_no_gold(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert entries.main(["evaluate", *overrides(home, "rnnenc")]) == 2
    assert "rnnenc: this network has no attention" in capsys.readouterr().err


@pytest.fixture
def tracked(tmp_path: Path) -> Iterator[TrackedRun]:
    run = TrackedRun(TrackingConfig(offline=True, system_metrics=False), tmp_path / "run", "run", system=False)
    yield run
    run.finish("FINISHED")


def test_a_bundle_learns_at_its_release_which_head_to_show(home: Path, tmp_path: Path, tracked: TrackedRun) -> None:
    made = load_bundle(home / "runs" / "transformer" / "bundle")
    save_bundle(
        tmp_path / "runs" / "new" / "bundle",
        network=made.network,
        config=made.config,
        tokenizers=made.tokenizers,
        facts={"pair": "en-de"},
        exports=[],
    )
    paths = PathsConfig(str(tmp_path), str(home / "shards"), str(tmp_path / "runs"), str(tmp_path / "mlflow"))
    config = Config(name="new", paths=paths)
    record_alignment(config, load_bundle(config.run_dir / "bundle"), tracked, 10)
    facts = load_bundle(config.run_dir / "bundle").facts["alignment"]
    assert set(facts) == {"head", "reading", "split", "aer", "precision", "recall", "single"}
    assert str(Aligner(made.network, made.tokenizers, known=facts).head) == facts["head"]


def test_a_release_without_attention_goes_on(home: Path, tracked: TrackedRun, caplog: pytest.LogCaptureFixture) -> None:
    paths = PathsConfig(str(home), str(home / "shards"), str(home / "runs"), str(home / "mlflow"))
    record_alignment(Config(name="rnnenc", paths=paths), load_bundle(home / "runs" / "rnnenc" / "bundle"), tracked, 10)
    assert "the alignment is not measured: rnnenc: this network has no attention" in caplog.text


def test_the_gold_table_is_target_by_source() -> None:
    np.testing.assert_array_equal(table_of([(2, 0), (0, 1)], 2, 3), [[False, False, True], [True, False, False]])
