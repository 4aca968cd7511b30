"""The warnings and counts that a sharding prints."""

import pytest

from dragoman.model.shards.manifest import Manifest
from dragoman.pipelines.corpus.pack.report import changes
from dragoman.pipelines.corpus.sharded import missing


def test_what_cleaning_cut_is_told_once_a_split_whatever_the_corpus() -> None:
    def source(name: str, split: str, **changed: int) -> dict[str, object]:
        return {"source": name, "split": split, "changed": {"control": 9, **changed}}

    manifest = Manifest("toy", ["en", "de"], {}, "<u2", {})
    assert changes(manifest) == []
    # a source of two files has an entry each
    manifest.sources = [source("a", "train", cut=2), source("a", "train", cut=2), source("b", "train", cut=1, nul=0)]
    manifest.sources += [source("c", "valid", nul=4, other_encoding=1)]
    assert [one.partition(":")[2].split(" ")[1:3] for one in changes(manifest)] == [
        *(["train:", "3"], ["valid:", "4"], ["valid:", "1"])
    ]
    assert "corpus.clean.max_words" in changes(manifest)[0]


@pytest.mark.parametrize(
    ("form", "keys"), [("moses", "corpus.valid.source and .target"), ("tsv", "corpus.valid.file"), ("jsonl", ".file")]
)
def test_the_keys_that_give_a_held_out_split_are_those_of_the_corpus_format(form: str, keys: str) -> None:
    manifest = Manifest("toy", ["en", "de"], {}, "<u2", {}, config={"corpus": {"format": form}})
    assert f"{keys}, or corpus.cut.valid=0.02, gives one" in missing(manifest, "valid")
