"""`corpus=labelled`: what each kind of file gives, what is refused and how it is told."""

import json
from pathlib import Path

import pytest

from dragoman.conf import compose
from dragoman.model.errors import UserError
from dragoman.model.shards.manifest import read_manifest
from dragoman.model.shards.reader import ShardReader
from dragoman.model.shards.verify import verify
from dragoman.model.text.labels import FIRST, GAP, LabelTokenizer
from dragoman.model.text.tokenizer_files import load_pair
from dragoman.pipelines import entries
from dragoman.pipelines.config import Config
from dragoman.pipelines.corpus.read.labelled import labelled_sources
from dragoman.pipelines.shard import shard

CONLLU = """# text = Dogs bark
1\tDogs\tdog\tNOUN\tNNS\t_\t2\tnsubj\t_\t_
2-3\tbarkit\t_\t_\t_\t_\t_\t_\t_\t_
2\tbark\tbark\tVERB\tVBP\t_\t0\troot\t_\t_

1\tStop\tstop\tVERB\tVB\t_\t0\troot\t_\t_
"""
CONLL = """-DOCSTART- -X- -X- O

EU NNP B-NP B-ORG
rejects VBZ B-VP O

Peter NNP B-NP B-PER
Blackburn NNP I-NP I-PER
"""


def corpus(folder: Path, name: str, text: str, *overrides: str) -> Config:
    (folder / name).write_text(text, encoding="utf-8")
    values = compose.values(
        [
            "corpus=labelled", "pair=en", f"corpus.train.file={folder / name}", "tokenizer.vocabulary=60",
            f"paths.root={folder}/home", "cluster.backend=local", "tracking.offline=true", *overrides,
        ]
    )  # fmt: skip
    return compose.typed(Config, values)


def read(folder: Path, name: str, text: str, *overrides: str) -> list[tuple[str, str]]:
    config = corpus(folder, name, text, *overrides)
    (source,) = labelled_sources(config.corpus, config.pair, folder / "samples")
    return list(zip(*(file.read_text().split("\n")[:-1] for file in source.files), strict=True))


def test_each_kind_of_file_gives_texts_and_labels(tmp_path: Path) -> None:
    assert read(tmp_path, "a.tsv", "Good  film.\tpos\nBad.\tvery neg\n") == [
        ("Good film.", "pos"),
        ("Bad.", "very neg"),
    ]
    assert read(tmp_path, "b.tsv", "1\tneg\tBad.\n", "corpus.columns=[-,label,text]") == [("Bad.", "neg")]
    rows = [{"text": "Dogs bark", "meta": {"pos": ["NOUN", "VERB"]}}, {"text": ["Stop"], "meta": {"pos": "VERB"}}]
    lines = "".join(f"{json.dumps(row)}\n" for row in rows)
    fields = ("corpus.labels=tags", "corpus.fields.target=meta.pos")
    tagged = [("Dogs bark", "NOUN VERB"), ("Stop", "VERB")]
    assert read(tmp_path, "c.jsonl", lines, *fields) == tagged
    assert read(tmp_path, "d.conllu", CONLLU, "corpus.labels=tags") == tagged
    finer = read(tmp_path, "d.conllu", CONLLU, "corpus.labels=tags", "corpus.columns=[-,text,-,-,label]")
    assert finer[0] == ("Dogs bark", "NNS VBP")
    names = read(tmp_path, "e.conll", CONLL, "corpus.labels=tags")
    assert names == [("EU rejects", "B-ORG O"), ("Peter Blackburn", "B-PER I-PER")]


@pytest.mark.parametrize(
    ("name", "text", "labels", "message"),
    [
        ("a.tsv", "Good.\tpos\nBad.\t\n", "classes", "line 2: no label"),
        ("a.tsv", "Good.\n", "classes", r"line 1: 1 column, and corpus.columns=\[text, label\] needs 2"),
        ("a.tsv", "the dog\tDET\n", "tags", "line 1: 2 words and 1 tag; each word has one tag"),
        ("a.tsv", "Good.\t \u200b\n", "classes", "line 1: no label"),
        ("a.tsv", "\ufefftext\tlabel\nGood.\tpos\n", "classes", "line 1: holds the names of the columns"),
        ("a.jsonl", '{"text": ["the", "dog"], "label": ["DET"]}\n', "tags", "line 1: 2 words and 1 tag"),
        ("a.jsonl", '{"text": "Good."}\n', "classes", "line 1: no field 'label'"),
        ("a.jsonl", '{"text": "Good.", "label": ["a", "b"]}\n', "classes", "corpus.labels=tags takes it"),
        ("a.jsonl", "Good.\n", "classes", "line 1: not JSON"),
        ("a.conllu", CONLLU, "classes", "has tags; corpus.labels=tags"),
        ("a.conll", "EU\n", "tags", "line 1: 1 column; a word and its tag"),
        ("a.conll", "EU B-ORG\n" * 1001, "tags", "one sentence of 1,001 words, more than corpus.clean.max_words=1000"),
        ("a.conllu", CONLLU.replace("\n\n", "\n"), "tags", "line 5: a sentence begins without a blank line before it"),
    ],
)
def test_bad_records_are_named(tmp_path: Path, name: str, text: str, labels: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        read(tmp_path, name, text, f"corpus.labels={labels}")


@pytest.mark.parametrize(("name", "text"), [("d.conllu", CONLLU), ("e.conll", CONLL)])
def test_lines_may_end_as_on_windows(tmp_path: Path, name: str, text: str) -> None:
    unix = read(tmp_path, name, text, "corpus.labels=tags")
    assert read(tmp_path, name, text.replace("\n", "\r\n"), "corpus.labels=tags") == unix and len(unix) == 2


@pytest.mark.parametrize(
    ("text", "words", "told"),
    [
        ("Good.\tpos\nBad.\t\n", [], "a.tsv: line 2: no label (corpus.on_error=skip leaves such records out)"),
        ("Good.\tpos\nWell.\tpos\n", [], "corpus.labels=classes: the training texts have one label only, 'pos'"),
        ("A.\tpos\nB.\t<unk>\n", [], "corpus.labels=classes: '<unk>' is reserved; give the label another name"),
        ("A.\tpos\nB.\tneg\n", ["corpus.columns=[text,tag]"], "corpus.columns=[text, tag]: name the columns in order"),
    ],
)
def test_the_command_answers_bad_files_in_a_line(
    tmp_path: Path, text: str, words: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.tsv").write_text(text, encoding="utf-8")
    places = [f"corpus.train.file={tmp_path}/a.tsv", f"paths.root={tmp_path}/home", "cluster.backend=local"]
    uncut = ["corpus.cut.valid=0", "corpus.cut.test=0", "tracking.offline=true"]
    assert entries.main(["shard", "corpus=labelled", "pair=en", *places, *uncut, *words]) == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("dragoman shard: ") and told in last
    assert not list(tmp_path.glob("home/shards/*/manifest.json"))


def test_labels_that_look_alike_or_lose_their_texts_are_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    long, more = " ".join(["long"] * 1001), "Good.\tpos\nBad.\tneg\nWell.\tPos\nSo.\tｎｅｇ\n"
    config = corpus(
        tmp_path, "a.tsv", f"{more}{long}\trare\n", "corpus.cut.valid=0", "corpus.cut.test=0", "tokenizer=words"
    )
    warnings = read_manifest(shard(config).directory).warnings
    assert warnings == [
        "corpus.train: no text is left of the labels rare (1); corpus.clean dropped them",
        "corpus.train: labels that look alike count as different ones: Pos and pos, neg and ｎｅｇ",
    ]
    assert all(warning in caplog.text for warning in warnings)


def test_unicode_forms_of_a_label_are_one_and_bad_records_may_be_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    found = read(tmp_path, "a.tsv", "Gut.\tschön\nBesser.\tscho\u0308n\n")
    assert {label for _, label in found} == {"schön"}
    found = read(tmp_path, "a.tsv", "Good.\tpos\nBad.\t\n", "corpus.on_error=skip")
    assert found == [("Good.", "pos")] and "line 2 (no label)" in caplog.text


def test_tags_are_in_the_shards_where_words_begin_and_verify_holds(tmp_path: Path) -> None:
    lines = "".join(f"the dogs bark{'ed' * (n % 2)} {n}\tDET NOUN VERB NUM\n" for n in range(60))
    config = corpus(tmp_path, "a.tsv", lines, "corpus.labels=tags", "corpus.cut.valid=0.1", "corpus.cut.test=0.1")
    made = shard(config)
    manifest = read_manifest(made.directory)
    assert manifest.kind == "labelled" and manifest.languages == ["en"] and verify(made.directory) > 3
    assert set(manifest.texts["test"]) == {"en", "labels"}
    labels = load_pair(made.directory, manifest.tokenizer).target
    assert isinstance(labels, LabelTokenizer)
    for chunk in ShardReader(made.directory, "train"):
        for source, target in chunk.rows():
            assert len(source) == len(target)
            found = [labels.written[tag] for tag in target if tag >= FIRST]
            assert found == ["DET", "NOUN", "VERB", "NUM"] and set(target[target < FIRST].tolist()) <= {GAP, 3}
    assert shard(config).found, "the same command finds them"


def test_a_label_that_training_lacks_is_refused_and_leaves_no_shards(tmp_path: Path) -> None:
    (tmp_path / "test.tsv").write_text("Fine.\tgreat\n")
    given = f"corpus.test.file={tmp_path}/test.tsv"
    config = corpus(tmp_path, "a.tsv", "Good.\tpos\nBad.\tneg\nWell.\tpos\n", given)
    with pytest.raises(UserError, match=r"corpus.test: has labels that no training text has: great \(1\)"):
        shard(config)
    assert not config.shard_dir.exists()


def test_two_languages_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="pair=en-de: a labelled corpus has one language"):
        shard(corpus(tmp_path, "a.tsv", "Good.\tpos\n", "pair=en-de"))
