"""What bundles of every kind have in common: saved whole, opened as what they are, anything else refused by name."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dragoman.model.bundles.directory import Bundle, bundle_kind
from dragoman.model.bundles.language import load_text_bundle
from dragoman.model.bundles.translation import load_bundle
from dragoman.model.bundles.vectors import load_vectors
from dragoman.model.errors import UserError
from dragoman.model.inference.kinds import open_bundle
from tests.model.bundles import test_language, test_translation, test_vectors

SAVE: dict[str, Callable[..., object]] = {
    "translation": test_translation.save,
    "language": test_language.save,
    "vectors": test_vectors.save,
}
LOAD: dict[str, Callable[[Path], Bundle]] = {
    "translation": load_bundle,
    "language": load_text_bundle,
    "vectors": load_vectors,
}
FILES = {
    "translation": ["tokenizer.model", "ct2/model.bin", "ct2/config.json"],
    "language": ["tokenizer.json"],
    "vectors": ["words.json", "tokenizer.json"],
}
every = pytest.mark.parametrize("kind", SAVE)


def saved(kind: str, folder: Path) -> Path:
    SAVE[kind](folder / "bundle")
    return folder / "bundle"


@every
def test_the_same_bundle_has_the_same_digest(kind: str, tmp_path: Path) -> None:
    assert bundle_kind(saved(kind, tmp_path)) == kind
    assert LOAD[kind](saved(kind, tmp_path / "again")).digest == LOAD[kind](tmp_path / "bundle").digest


@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind in FILES for name in ("model.safetensors", *FILES[kind])]
)
def test_a_tampered_or_missing_file_is_named(kind: str, name: str, tmp_path: Path) -> None:
    file = saved(kind, tmp_path) / name
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    with pytest.raises(UserError, match=rf"{name}: not the file that was saved"):
        LOAD[kind](tmp_path / "bundle")
    file.unlink()
    with pytest.raises(UserError, match=rf"{name}: missing"):
        LOAD[kind](tmp_path / "bundle")


ANY: list[tuple[dict[str, Any], str]] = [
    ({"format_version": 1}, "format_version 1, and this program reads 2: train or import the model again"),
    ({"pair": None}, "pair is missing"),
    ({"files": {"../evil": {"sha256": "", "bytes": 0}}}, "outside the bundle"),
    ({"files": {}}, "model.safetensors is missing"),
]
OWN: dict[str, list[tuple[dict[str, Any], str]]] = {
    "translation": [
        ({"format_version": 0}, "format_version 0"),
        ({"architecture": "transfomer"}, r"'transfomer' is not known. Did you mean 'transformer'\? Choices"),
        ({"model": {"architecture": "transformer", "widht": 1}}, "widht"),
        ({"vocabulary": {"source": "many"}}, "vocabulary must give"),
    ],
    "language": [
        ({"vocabulary": 99}, "its tokenizer has"),
        ({"vocabulary": "many"}, "must be whole numbers"),
        ({"architecture": "transformer"}, "does not fit its model section"),
        ({"model": {**test_language.MODEL, "layers": 3}}, "for this configuration"),
    ],
    "vectors": [
        ({"kind": "pictures"}, "a bundle of the kind 'pictures'; one of the kind 'vectors' is needed here"),
        ({"architecture": "glovee"}, "'glovee' is not known"),
        ({"architecture": "glove"}, "does not fit its model section"),
        ({"model": {"architecture": "word2vec", "widht": 3}}, "widht"),
        ({"table": {"words": 5, "width": 3}}, "the 4 words of words.json"),
        ({"table": {"words": 4, "width": 4}}, r"vectors have the shape \(4, 3\), not \(4, 4\)"),
    ],
}


@pytest.mark.parametrize(
    ("kind", "change", "message"), [(kind, *row) for kind in SAVE for row in [*ANY, *OWN[kind]]], ids=str
)
def test_a_foreign_configuration_is_refused(kind: str, change: dict[str, Any], message: str, tmp_path: Path) -> None:
    config = saved(kind, tmp_path) / "config.json"
    record = json.loads(config.read_text()) | change
    config.write_text(json.dumps({key: value for key, value in record.items() if key != "pair" or value}))
    with pytest.raises(UserError, match=message):
        bundle: Any = LOAD[kind](tmp_path / "bundle")
        _ = bundle.embeddings if kind == "vectors" else bundle.network


@every
def test_facts_are_added_without_touching_the_files(kind: str, tmp_path: Path) -> None:
    before = LOAD[kind](saved(kind, tmp_path))
    open_bundle(tmp_path / "bundle").update_facts({"scores": {"valid": 12.5}})
    after = LOAD[kind](tmp_path / "bundle")
    assert after.facts == before.facts | {"scores": {"valid": 12.5}}
    assert after.files == before.files
    with pytest.raises(UserError, match="files cannot be facts"):
        open_bundle(tmp_path / "bundle").update_facts({"files": {}})


@every
def test_a_bundle_of_one_kind_is_no_other(kind: str, tmp_path: Path) -> None:
    saved(kind, tmp_path)
    for other in LOAD.keys() - {kind}:
        with pytest.raises(UserError, match=f"of the kind '{kind}'; one of the kind '{other}' is needed here"):
            LOAD[other](tmp_path / "bundle")


@every
def test_facts_need_a_language_and_no_name_of_the_bundles_own(kind: str, tmp_path: Path) -> None:
    needed = "pair must name two languages" if kind == "translation" else "pair must name the language"
    pair = "en-de" if kind == "translation" else "en"
    for facts, message in [({}, needed), ({"pair": pair, "files": {}}, "files cannot be facts")]:
        with pytest.raises(UserError, match=message):
            SAVE[kind](tmp_path / "bundle", facts=facts)
    assert not list(tmp_path.iterdir())


def test_what_is_not_a_bundle_is_said(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="not a bundle"):
        load_bundle(tmp_path / "nothing")
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(UserError, match="not JSON"):
        load_bundle(tmp_path)
    (tmp_path / "config.json").write_text("[]")
    with pytest.raises(UserError, match="no format_version"):
        load_bundle(tmp_path)
