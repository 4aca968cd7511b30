"""Word vectors written for other programs."""

from pathlib import Path

import numpy as np
import pytest

from dragoman.model.bundles.vectors import load_vectors
from dragoman.model.errors import UserError
from dragoman.model.word_vectors import formats
from dragoman.services.commands.export import FORMATS, ExportConfig, export, main
from tests import vector_files


def test_every_format_comes_back_as_it_was(vectors: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert export(ExportConfig(vectors=str(vectors), output=str(tmp_path / "out"))) == 0
    kept = load_vectors(vectors).embeddings
    out = tmp_path / "out"
    for words, found in (
        vector_files.text(out / formats.FORMATS["text"].file),
        vector_files.binary(out / formats.FORMATS["binary"].file),
    ):
        assert words == kept.words
        assert np.array_equal(found, kept.vectors)
    printed = capsys.readouterr().out
    assert "vectors.bin" in printed
    assert {path.name for path in out.iterdir()} == {row.file for row in formats.FORMATS.values()}
    assert FORMATS.keys() == formats.FORMATS.keys()


def test_the_formats_named_are_written_and_other_files_stay(vectors: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("x")
    assert main(["text", f"export.vectors={vectors}", f"output={tmp_path}", "export.restrict=3"]) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine.txt", formats.FORMATS["text"].file]
    assert vector_files.text(tmp_path / formats.FORMATS["text"].file)[0] == ["man", "woman", "king"]


def test_mistakes_are_named(vectors: Path, tmp_path: Path) -> None:
    config = ExportConfig(vectors=str(vectors), output=str(tmp_path / "file"))
    with pytest.raises(UserError, match=r"'txt' is not known.*Did you mean 'text'"):
        export(config, ["txt"])
    (tmp_path / "file").write_text("x")
    with pytest.raises(UserError, match=r"output: .* is not a folder"):
        export(config)
