"""The warnings and counts that a sharding prints."""

from model.shards.manifest import Manifest
from pipelines.corpus.pack.report import changes


def test_what_cleaning_cut_is_told_once_a_split_whatever_the_corpus() -> None:
    def source(name: str, split: str, **changed: int) -> dict[str, object]:
        return {"source": name, "split": split, "changed": {"control": 9, **changed}}

    manifest = Manifest("toy", ["en", "de"], {}, "<u2", {})
    assert changes(manifest) == []
    # a source of two files has an entry each
    manifest.sources = [source("a", "train", cut=2), source("a", "train", cut=2), source("b", "train", cut=1, nul=0)]
    manifest.sources += [source("c", "valid", nul=4, other_encoding=1)]
    assert [one.partition(":")[2].split(" ")[1:3] for one in changes(manifest)] == [
        *(["train:", "3"], ["valid:", "4"], ["valid:", "1"]),
    ]
    assert "corpus.clean.max_words" in changes(manifest)[0]
