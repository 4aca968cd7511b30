"""Texts in, vectors out."""

import gzip
import io
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dragoman.model.errors import UserError
from dragoman.model.inference.kinds import open_bundle
from dragoman.model.inference.sentence_vectors import network_vectors, sentence_vectors
from dragoman.services.commands.embed import embed
from dragoman.services.commands.lines import check_files
from dragoman.services.settings import EmbedConfig

TEXTS = b"the dog sees the man .\n\nwhere is z ?\n"


def run(tmp_path: Path, bundle: Path, content: bytes = TEXTS, **settings: Any) -> Path:
    (tmp_path / "in.txt").write_bytes(content)
    config = EmbedConfig(
        **{"bundle": str(bundle), "input": str(tmp_path / "in.txt"), "output": str(tmp_path / "out"), **settings}
    )
    assert embed(config) == 0
    return Path(str(config.output))


def rows(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_line_in_is_a_vector_out_in_order(tmp_path: Path, bundle: Path) -> None:
    expected = sentence_vectors(open_bundle(bundle))(TEXTS.decode().splitlines())
    found = rows(run(tmp_path, bundle))
    assert [record["line"] for record in found] == [0, 1, 2]
    assert np.array_equal(np.array([record["vector"] for record in found], np.float32), expected)
    assert not expected[1].any()
    np.testing.assert_allclose(
        [record["vector"] for record in rows(run(tmp_path, bundle, lines=1, batch_tokens=1))], expected, atol=1e-5
    )


def test_a_matrix_is_the_same_numbers(tmp_path: Path, bundle: Path) -> None:
    matrix = np.load(run(tmp_path, bundle, format="npy", output=str(tmp_path / "v.npy"), lines=2), allow_pickle=False)
    assert (matrix.shape, matrix.dtype) == ((3, 16), np.float32)
    np.testing.assert_allclose(matrix, [record["vector"] for record in rows(run(tmp_path, bundle))], atol=1e-5)
    assert np.load(run(tmp_path, bundle, b"", format="npy", output=str(tmp_path / "none.npy"))).shape == (0, 16)


def test_unit_vectors_have_cosines_for_products(tmp_path: Path, bundle: Path) -> None:
    lengths = [np.linalg.norm(record["vector"]) for record in rows(run(tmp_path, bundle, unit=True))]
    np.testing.assert_allclose(lengths, [1.0, 0.0, 1.0], atol=1e-5)


def test_each_token_of_a_line_has_a_vector(tmp_path: Path, bundle: Path) -> None:
    vectors = network_vectors(open_bundle(bundle), layer=1)
    found = rows(run(tmp_path, bundle, level="token", layer=1, lines=1))
    assert [record["line"] for record in found] == [0, 1, 2]
    assert found[1] == {"line": 1, "tokens": [], "vectors": []}
    for record, expected in zip(found, vectors.tokens(TEXTS.decode().splitlines()), strict=True):
        assert record["tokens"] == expected.pieces
        vectors_found = np.array(record["vectors"], np.float32).reshape(-1, 16)
        np.testing.assert_allclose(vectors_found, expected.vectors, atol=1e-5)  # of a batch of another size
    unit = rows(run(tmp_path, bundle, level="token", unit=True))
    np.testing.assert_allclose(np.linalg.norm(unit[0]["vectors"], axis=1), 1.0, atol=1e-5)
    assert rows(run(tmp_path, bundle, b"\xff\n", level="token", on_error="skip")) == [{"line": 0, "error": "not UTF-8"}]


def test_the_bytes_do_not_depend_on_the_lines_at_a_time(tmp_path: Path, bundle: Path) -> None:
    content = b"".join(b"the dog sees the man ."[: 4 + 3 * number % 19] + b"\n" for number in range(66))
    for level in ("sentence", "token"):
        first = run(tmp_path, bundle, content, level=level, lines=1).read_bytes()
        assert all(run(tmp_path, bundle, content, level=level, lines=lines).read_bytes() == first for lines in (7, 64))


def test_mistakes_are_named(tmp_path: Path, bundle: Path, vectors: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    matrix = {"format": "npy", "output": str(tmp_path / "v.npy")}
    mistakes: list[tuple[Path, dict[str, Any], str]] = [
        (bundle, {"layer": 9}, r"embed\.layer=9: the network has the layers 0 .* to \d"),
        (vectors, {"level": "token"}, "word vectors have no layers"),
        (vectors, {"layer": 0}, "word vectors have no layers"),
        (bundle, {"level": "token", **matrix}, r"embed\.level=token: .* choose format=json"),
        (bundle, {"format": "npy", "output": None}, r"format=npy: a matrix needs a file"),
        (bundle, {"input": "none"}, r"input: none cannot be read"),
        (bundle, {**matrix, "output": str(tmp_path / "nowhere" / "v.npy")}, r"nowhere/v\.npy cannot be written"),
    ]
    for model, settings, message in mistakes:
        with pytest.raises(UserError, match=message):
            run(tmp_path, model, **settings)
    monkeypatch.chdir(tmp_path)  # the checkout may have a home with a model
    with pytest.raises(UserError, match=r"no model in .* nor in the registry"):
        embed(EmbedConfig(input=str(tmp_path / "in.txt")))


def test_the_ending_of_the_output_says_what_is_written(tmp_path: Path, vectors: Path) -> None:
    assert np.load(run(tmp_path, vectors, b"the dog\n", output=str(tmp_path / "v.npy"))).shape == (1, 4)
    with pytest.raises(UserError, match=r"output: .*v\.npy: lines of text are written, which no \.npy file has"):
        run(tmp_path, vectors, format="json", output=str(tmp_path / "v.npy"))
    same = EmbedConfig(input=str(tmp_path / "in.txt"), output=str(tmp_path / "." / "in.txt"))
    with pytest.raises(UserError, match=r"output=.*: is input too; name another file"):
        check_files("embed", same)


def test_a_line_that_is_no_utf_8_is_named_or_has_an_error(tmp_path: Path, bundle: Path) -> None:
    content = b"ja\n\xff\ngut\n"
    with pytest.raises(UserError, match=r"in\.txt, line 2: not UTF-8.*on_error=skip"):
        run(tmp_path, bundle, content)
    assert not (tmp_path / "out").exists()
    found = rows(run(tmp_path, bundle, content, on_error="skip"))
    assert found[1] == {"line": 1, "error": "not UTF-8"}
    matrix = np.load(
        run(tmp_path, bundle, content, on_error="skip", format="npy", output=str(tmp_path / "v.npy")),
        allow_pickle=False,
    )
    assert matrix.any(1).tolist() == [True, False, True]


def test_what_is_too_long_is_cut_or_named(tmp_path: Path, bundle: Path) -> None:
    content = b"gut\n" + b"gut " * 40 + b"\n"
    assert len(rows(run(tmp_path, bundle, content))) == 2
    with pytest.raises(UserError, match=r"in\.txt, line 2: the text has 160 tokens, more than the model's 64"):
        run(tmp_path, bundle, content, too_long="error")
    assert not list(tmp_path.glob(".*part"))


def test_files_may_be_compressed_and_standard_input_goes_to_standard_output(
    tmp_path: Path, bundle: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "in.gz").write_bytes(gzip.compress(TEXTS))
    packed = run(tmp_path, bundle, input=str(tmp_path / "in.gz"), output=str(tmp_path / "out.gz"))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(TEXTS)))
    assert embed(EmbedConfig(bundle=str(bundle))) == 0
    assert gzip.decompress(packed.read_bytes()).decode() == capsys.readouterr().out
