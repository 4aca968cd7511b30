"""Word vectors written for other programs."""

from pathlib import Path

import numpy as np
import pytest

from model.errors import UserError
from model.word_vectors.formats import PLACES, read_binary, read_numpy, read_text
from services.commands.export import FORMATS, ExportConfig, export, main


def test_every_format_comes_back_as_it_was(vectors: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert export(ExportConfig(vectors=str(vectors), output=str(tmp_path / "out"))) == 0
    words = read_numpy(tmp_path / "out" / PLACES["numpy"])
    for found in (read_text(tmp_path / "out" / PLACES["text"]), read_binary(tmp_path / "out" / PLACES["binary"])):
        assert found.words == words.words
        assert np.array_equal(found.vectors, words.vectors)
    printed = capsys.readouterr().out
    assert "vectors.bin" in printed
    assert "TensorBoard" in printed
    assert not list((tmp_path / "out").glob(".*"))
    assert FORMATS.keys() == PLACES.keys()


def test_the_formats_named_are_written_and_other_files_stay(vectors: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("x")
    assert main(["text", f"export.vectors={vectors}", f"export.output={tmp_path}", "export.restrict=3"]) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine.txt", PLACES["text"]]
    assert read_text(tmp_path / PLACES["text"]).words == ["man", "woman", "king"]


def test_mistakes_are_named(vectors: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = ExportConfig(vectors=str(vectors), output=str(tmp_path / "file"))
    with pytest.raises(UserError, match=r"'txt' is not known.*Did you mean 'text'"):
        export(config, ["txt"])
    (tmp_path / "file").write_text("x")
    with pytest.raises(UserError, match=r"export\.output: .* is not a folder"):
        export(config)
    assert main(["export.formats=[gensim]", f"export.vectors={vectors}"]) == 2
    assert "gensim" in capsys.readouterr().err
