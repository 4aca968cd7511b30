"""Denoising as a training of encoder-decoders: batches, exact resume, proof, and a translation that begins with it."""

import json
from pathlib import Path

import pytest

from dragoman.model.bundles.directory import read_facts
from dragoman.model.errors import UserError
from dragoman.model.shards.reader import ShardReader
from dragoman.model.text.tokenizer import EOS, MASK, PAD
from dragoman.pipelines import entries, evaluate, train
from dragoman.pipelines.config import Config
from dragoman.pipelines.loaders.denoising import DenoisingLoader, held_out_noised
from dragoman.pipelines.shard import shard
from dragoman.pipelines.tasks import launch
from tests.pipelines.tasks.test_warm_start import config, corpus, same, weights

NOISED = ["loader.denoise=infilling", "loader.batch_tokens=512"]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("home")
    shard(config(folder, *corpus(folder, "toy", 1), "tokenizer.sentinels=8"))
    assert train.task(config(folder, *NOISED, "name=whole")) == 0
    return folder


def reader_of(settings: Config) -> ShardReader:
    return ShardReader(settings.shard_dir, "train")


def texts(home: Path) -> dict[int, list[int]]:
    """2 x record + side -> the ids of that side."""
    found = {}
    for chunk in reader_of(config(home)):
        for number, (ids, bounds) in enumerate(
            ((chunk.source, chunk.source_offsets), (chunk.target, chunk.target_offsets))
        ):
            for place in range(chunk.records):
                row = ids[int(bounds[place]) : int(bounds[place + 1])].tolist()
                found[2 * (chunk.first_id + place) + number] = row
    return found


@pytest.mark.parametrize(("side", "expected"), [("null", {0, 1}), ("target", {1})])
def test_each_side_is_rewritten_once_an_epoch_with_other_noise_in_the_next(
    home: Path, side: str, expected: set[int]
) -> None:
    settings, known = config(home, *NOISED, f"loader.side={side}", "loader.lanes=1"), texts(home)
    loader = DenoisingLoader(reader_of(settings), settings.loader, seed=1)
    epochs: list[dict[int, list[int]]] = [{}, {}]
    while True:
        epoch = loader.state()["0"]["epoch"]
        batch = loader.step()[0]
        epoch = loader.state()["0"]["epoch"]
        if epoch == 2:
            break
        for number, source, target in zip(batch.ids.tolist(), batch.source, batch.target_out, strict=True):
            assert number not in epochs[epoch], "once an epoch"
            assert target[target != PAD].tolist() == known[number]
            epochs[epoch][number] = source[source != PAD].tolist()
    loader.close()
    assert epochs[0].keys() == epochs[1].keys() == {number for number in known if number % 2 in expected}
    assert epochs[0] != epochs[1]
    assert all(row[-1] == EOS for row in epochs[0].values())
    masked = sum(MASK in row for row in epochs[0].values())
    assert masked > 0.8 * len(epochs[0])


def test_any_number_of_ranks_reads_the_same_batches_and_a_digest_covers_the_noise(home: Path) -> None:
    settings = config(home, *NOISED, "loader.lanes=2")
    alone = DenoisingLoader(reader_of(settings), settings.loader, seed=1)
    pair = [DenoisingLoader(reader_of(settings), settings.loader, 1, rank, 2) for rank in range(2)]
    for _ in range(5):
        together = [loader.step()[0] for loader in pair]
        assert [batch.digest() for batch in alone.step()] == [batch.digest() for batch in together]
    batch = together[0]
    assert batch.padded_to(16).digest() == batch.digest()
    source = batch.source.clone()
    source[0, 0] = MASK + 3
    assert type(batch)(**{**vars(batch), "source": source}).digest() != batch.digest()
    for loader in (alone, *pair):
        loader.close()


def test_a_resumed_run_ends_with_the_same_weights_and_its_journal_is_proved(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = home / "artifacts" / "runs"
    assert train.task(config(home, *NOISED, "name=parts", "train.max_steps=2", "train.schedule_steps=4")) == 0
    assert train.task(config(home, *NOISED, "name=parts", "train.schedule_steps=4")) == 0
    assert same(weights(home, "parts"), weights(home, "whole"))
    places = [f"paths.root={home}/artifacts", f"paths.shards={config(home).shard_dir}"]
    assert entries.main(["verify", "parts", *places]) == 0
    told = capsys.readouterr().out
    assert "nothing differs" in told and "4 steps, as made again from the shards" in told
    journal = runs / "parts" / "steps.jsonl"
    batches = [[json.loads(line)["batch"] for line in path.read_text().splitlines() if '"batch"' in line]
               for path in (journal, runs / "whole" / "steps.jsonl")]  # fmt: skip
    assert batches[0] == batches[1] and len(set(batches[0])) == 4


def test_held_out_noise_is_the_same_each_time_and_for_every_seed(home: Path) -> None:
    settings = config(home, *NOISED)
    reader = ShardReader(settings.shard_dir, "valid")
    first, again = ([batch.source.tolist() for batch in held_out_noised(reader, settings.loader)] for _ in range(2))
    ranks = [[batch.source.tolist() for batch in held_out_noised(reader, settings.loader, r, 2)] for r in range(2)]
    assert first == again
    assert sorted(ranks[0] + ranks[1]) == sorted(first)


def test_a_translation_begins_with_a_denoised_network(home: Path) -> None:
    still = ["train.max_steps=1", "train.optimizer.lr=1e-30", "train.evaluate_every=1", "train.checkpoint_every=1"]
    assert train.task(config(home, "name=begun", "train.init_from=whole", *still)) == 0
    assert same(weights(home, "begun"), weights(home, "whole"))
    assert read_facts(home / "artifacts" / "runs" / "begun" / "bundle")["init"]["reference"] == "whole"


def test_spans_are_learned_too_and_losses_under_other_noise_are_not_compared(home: Path) -> None:
    spans = ["loader.denoise=spans", "loader.noise_share=0.15", "name=spans"]
    assert train.task(config(home, *spans)) == 0
    with pytest.raises(UserError, match="are compared under equal noise and tokenizers"):
        evaluate.task(config(home, "name=spans", "evaluate.against=whole"))


def test_a_release_measures_what_was_learned_and_no_translation(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = home / "artifacts" / "runs" / "whole"
    assert train.task(config(home, *NOISED, "name=again", "seed=2")) == 0
    capsys.readouterr()
    facts = read_facts(run / "bundle")
    assert facts["noise"] == {
        "denoise": "infilling", "noise_share": 0.3, "span_length": 3.0, "side": None
    }  # fmt: skip
    assert facts["scores"]["test"].keys() == {"nats", "perplexity", "accuracy", "tokens"}
    assert "length_penalty" not in facts and "int8" not in facts and not list(run.glob("hypotheses.*"))
    compared = config(home, "name=whole", "evaluate.split=valid", "evaluate.against=again", "evaluate.samples=1")
    assert evaluate.task(compared) == 0
    said = capsys.readouterr().out
    assert "40 noised texts" in said and "it translates nothing" in said and "nats a token" in said
    record = json.loads((run / "evaluation.valid.json").read_text())
    lines = [json.loads(line) for line in (run / "steps.jsonl").read_text().splitlines()]
    measured = next(line["valid_loss"] for line in reversed(lines) if "valid_loss" in line)
    assert record["scores"]["nats"] == pytest.approx(measured, rel=1e-5), "of the training's own validation"
    assert record["texts"] == 40 and "<mask>" in record["samples"][0]["prompt"]
    evaluate.task(config(home, "name=whole", "evaluate.split=valid", "evaluate.sentences=5"))
    assert "10 noised texts" in capsys.readouterr().out
    with pytest.raises(UserError, match="one network denoises, the other translates"):
        evaluate.task(config(home, "name=whole", "evaluate.against=begun"))


def test_one_text_is_denoised_as_both_sides_and_shards_of_one_side_say_so(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [
        f"paths.root={home}/artifacts",
        "tokenizer.vocabulary=90",
        "cluster.backend=local",
        "tracking.offline=true",
    ]
    text = ["corpus=text", "pair=en", "corpus.name=alone", f"corpus.train.file={home}/toy.train.en", *words]
    assert entries.main(["shard", *text, "corpus.cut.valid=0.1", "corpus.cut.run=4"]) == 0
    capsys.readouterr()
    assert entries.main(["train", *text, "model=transformer_tiny", *NOISED]) == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert "loader.denoise=infilling: needs shards of two sides, and those in" in last
    assert "dragoman shard corpus=moses pair=en-en corpus.train.source=FILE corpus.train.target=FILE;" in last
    sides = [f"corpus.{split}.{side}={home}/toy.{split}.en" for split in ("train", "valid", "test")
             for side in ("source", "target")]  # fmt: skip
    both = ["pair=en-en", "corpus.name=rewritten", "corpus.clean.copies=false", *sides]
    shard(config(home, *both))
    assert train.task(config(home, *both, *NOISED, "loader.side=source", "name=one")) == 0


def test_a_comparison_refuses_networks_that_translate_nothing(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [
        "compare",
        f"paths.root={home}/artifacts",
        f"paths.shards={config(home).shard_dir}",
        "tracking.offline=true",
    ]
    for more, told in (
        (
            ["models=[transformer]", "loader.denoise=infilling"],
            "loader.denoise=infilling: a comparison measures transl",
        ),
        (["models=[whole,transformer]"], "models: 'whole' was pre-trained to undo noise and translates nothing"),
    ):
        assert entries.main([*words, *more]) == 2
        assert told in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize(
    ("overrides", "told"),
    [
        (["train.bleu_every=4"], "train.bleu_every=4: loader.denoise=infilling translates nothing"),
        (["train.early_stopping.metric=bleu"], "early_stopping.metric=bleu: loader.denoise=infilling translates"),
        (["loader.both_directions=1"], "loader.both_directions=1: not with loader.denoise"),
        (["loader.noise_share=0"], "loader.noise_share=0: leaves the text as it is"),
        (["model=gpt_tiny", "loader.side=source"], "loader.denoise=infilling: only encoder-decoders"),
    ],
)
def test_settings_that_do_not_fit_are_refused(home: Path, overrides: list[str], told: str) -> None:
    sizes = [] if "model=gpt_tiny" in overrides else None
    settings = config(home, *NOISED, "name=refused", *overrides, **({} if sizes is None else {"sizes": sizes}))
    with pytest.raises(UserError, match=told):
        launch.check(settings)
    assert not (home / "artifacts" / "runs" / "refused").exists()


def test_two_vocabularies_are_refused(home: Path, tmp_path: Path) -> None:
    apart = [*corpus(home, "apart", 4), "tokenizer.joint=false", f"paths.shards={tmp_path}/apart", "model.tie=none"]
    shard(config(home, *apart))
    with pytest.raises(UserError, match=r"loader.denoise=infilling: .* one vocabulary for both sides. Choices: token"):
        launch.check(config(home, *apart, *NOISED, "name=refused"))
