import gzip
import json
from pathlib import Path

import pytest

from dragoman.model.errors import UserError
from dragoman.model.shards.manifest import MixedPart
from dragoman.pipelines.evaluation.sets.read import HeldOutSet, read_sets
from tests.held_out import keep_texts

LANGUAGES = ("en", "de")


def one(tmp_path: Path, *contents: str) -> HeldOutSet:
    names = [f"{number}.txt" for number in range(len(contents))]
    for name, content in zip(names, contents, strict=True):
        (tmp_path / name).write_bytes(content.encode())
    value = [str(tmp_path / name) for name in names]
    (found,) = read_sets({"news": value if len(value) > 1 else value[0]}, LANGUAGES, "test")
    return found


def test_plain_files_are_sources_and_one_or_more_references(tmp_path: Path) -> None:
    found = one(tmp_path, "\ufeffa\r\nb\r\n", "x\ny\n", "z\n\n")
    assert (found.name, found.sources, found.domains) == ("news", ["a", "b"], [])
    assert found.references == [("x", "z"), ("y",)]
    assert found.streams() == [["x", "y"], ["z", None]] and found.streams([1]) == [["y"]]
    assert (found.first, found.most) == (["x", "y"], 2)


def test_rows_hold_source_and_references_in_the_order_that_their_head_names(tmp_path: Path) -> None:
    plain = one(tmp_path, "a\tx\tz\n\nb\ty\t\n")
    headed = one(tmp_path, "domain\treference 2\ten\tid\tDE\nlaw\tz\ta\t7\tx\nsport\t\tb\t8\ty\n")
    assert plain.references == [("x", "z"), ("y",)] and plain.sources == headed.sources == ["a", "b"]
    assert headed.references == [("z", "x"), ("y",)]
    assert (plain.domains, headed.domains) == ([], ["law", "sport"])


def test_rows_of_json_name_what_they_hold(tmp_path: Path) -> None:
    rows = [
        {"source": "a", "references": ["x", "z"], "domain": "law"},
        {"en": "b\nc", "de": "y", "id": 7},
    ]
    found = one(tmp_path, "".join(json.dumps(row) + "\n" for row in rows))
    assert found.sources == ["a", "b c"] and found.references == [("x", "z"), ("y",)]
    assert found.domains == ["law", ""]


def test_compressed_and_container_files_are_read_as_everywhere(tmp_path: Path) -> None:
    (tmp_path / "a.gz").write_bytes(gzip.compress(b"a\tx\n"))
    unit = '<tu><tuv xml:lang="en"><seg>b</seg></tuv><tuv xml:lang="de"><seg>y</seg></tuv></tu>'
    (tmp_path / "m.tmx").write_text(f'<tmx version="1.4"><body>{unit}</body></tmx>')
    packed, memory = read_sets({"p": str(tmp_path / "a.gz"), "m": str(tmp_path / "m.tmx")}, LANGUAGES, "test")
    assert (packed.sources, packed.references) == (["a"], [("x",)])
    assert (memory.sources, memory.references) == (["b"], [("y",)])


def test_a_mix_of_shards_has_a_domain_for_each_corpus(tmp_path: Path) -> None:
    texts = {"test": {code: [f"{code}{number}" for number in range(3)] for code in LANGUAGES}}
    parts = [MixedPart("law", "en-de", [], {"test": 2}), MixedPart("talks", "en-de", [], {"test": 1})]
    keep_texts(tmp_path, texts, parts=parts)
    (found,) = read_sets({"mixed": str(tmp_path)}, LANGUAGES, "test", most=2)
    assert (found.sources, found.domains, found.split) == (["en0", "en1"], ["law", "law"], "test")
    with pytest.raises(UserError, match=r"evaluate.split: 'gate' is not known"):
        read_sets({"mixed": str(tmp_path)}, LANGUAGES, "gate")


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        (("a\nb\n", "x\n"), r"evaluate.sets.news: .*0.txt has 2 lines, .*1.txt has 1"),
        (("",), r"evaluate.sets.news: .*0.txt: has no lines"),
        (("a\tx\nb\n",), r"0.txt: line 2: has 1 column\(s\), expected 2 with tabs between"),
        (('{"source": "a"}\n',), r"0.txt: line 1: has no source and reference; its keys are source"),
        (('{"source": 7, "reference": "x"}\n',), r"0.txt: line 1: 7 is no text"),
        (('{"source"\n',), r"0.txt: line 1: "),
    ],
)
def test_a_file_that_does_not_fit_is_named(contents: tuple[str, ...], message: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=message):
        one(tmp_path, *contents)


def test_what_is_no_set_is_named(tmp_path: Path) -> None:
    (tmp_path / "latin").write_bytes(b"a\tx\n\xe4\tx\n")
    for value, message in {
        str(tmp_path / "none"): "no such file or folder",
        str(tmp_path): "a folder without finished shards",
        str(tmp_path / "latin"): "line 2: is no UTF-8",
    }.items():
        with pytest.raises(UserError, match=message):
            read_sets({"news": value}, LANGUAGES, "test")
    with pytest.raises(UserError, match="cannot be a name"):
        read_sets({"../up": str(tmp_path / "latin")}, LANGUAGES, "test")


def test_the_digest_is_of_the_texts_alone() -> None:
    some = HeldOutSet("a", ["s"], [("x", "y")])
    assert some.digest == HeldOutSet("b", ["s"], [("x", "y")], ["law"]).digest
    assert some.digest != HeldOutSet("a", ["s"], [("x",)]).digest
