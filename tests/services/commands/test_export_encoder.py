"""An encoder written for sentence-transformers and model2vec, read by these libraries."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dragoman.model.bundles.language import save_text_bundle
from dragoman.model.inference.sentence_vectors import load_any_bundle, sentence_vectors
from dragoman.model.networks.bert import EncoderOnly, EncoderOnlyConfig
from dragoman.model.text.tokenizer import TokenizerConfig
from dragoman.model.text.tokenizers import train
from dragoman.services.commands.export import main

LINES = [
    f"{name} {verb} {thing}"
    for name in ("Anna", "Peter", "the old king", "my sister")
    for verb in ("sees", "finds", "likes", "doesn't see")
    for thing in ("a house.", "the red car!", "two dogs, three cats.", "water; bread")
]
SWITCHES: list[dict[str, Any]] = [
    {},
    {"positions": "rotary"},
    {"positions": "sinusoidal", "kv_heads": 1},
    {"positions": "rotary", "kv_heads": 2},
]


def bundle(folder: Path, kind: str = "bpe", **switches: Any) -> Path:
    """A masked encoder with drawn weights."""
    torch.manual_seed(3)
    tokenizer = train(TokenizerConfig(name=kind, type=kind, vocabulary=120), LINES)  # type: ignore[arg-type]
    sizes: dict[str, Any] = {"width": 32, "heads": 4, "feed_forward": 64, "layers": 2, "max_positions": 24}
    config = EncoderOnlyConfig(**{**sizes, "norm": "pre", **switches})
    network = EncoderOnly(config, tokenizer.vocabulary).eval()
    for parameter in network.parameters():  # biases and norms too are not what they are at first
        parameter.data += 0.05 * torch.randn_like(parameter)
    save_text_bundle(folder, network=network, config=config, tokenizer=tokenizer, facts={"pair": "en"})
    return folder


@pytest.mark.filterwarnings("ignore")  # of the libraries
@pytest.mark.parametrize("switches", SWITCHES, ids=str)
def test_sentence_transformers_gives_our_vectors(switches: dict[str, Any], tmp_path: Path) -> None:
    library = pytest.importorskip("sentence_transformers", reason="requirements-dev.lock has it")
    source = bundle(tmp_path / "bundle", **switches)
    words = ["sentence-transformers", f"export.vectors={source}", f"export.output={tmp_path}"]
    assert main(["export", *words]) == 0
    ours = sentence_vectors(load_any_bundle(source))([*LINES, "Unknown: zebra ß", "long " * 40])
    model = library.SentenceTransformer(str(tmp_path / "sentence-transformers"), device="cpu")
    theirs = model.encode([*LINES, "Unknown: zebra ß", "long " * 40])
    np.testing.assert_allclose(theirs, ours, rtol=1e-4, atol=1e-5)


def test_model2vec_reads_the_static_table(tmp_path: Path) -> None:
    library = pytest.importorskip("model2vec", reason="requirements-dev.lock has it")
    source = bundle(tmp_path / "bundle")
    words = ["model2vec", f"export.vectors={source}", f"export.output={tmp_path}", "export.components=16"]
    assert main(["export", *words]) == 0
    model = library.StaticModel.from_pretrained(tmp_path / "model2vec")
    found = model.encode(LINES)
    assert found.shape == (len(LINES), 16)
    from dragoman.model.bundles.language import load_text_bundle
    from dragoman.model.bundles.static_table import static_table

    loaded = load_text_bundle(source)
    network = loaded.network
    assert isinstance(network, EncoderOnly)
    table = static_table(network, loaded.tokenizer.vocabulary, 16)
    means = np.stack([table[row].mean(0) for row in loaded.tokenizer.encode(LINES)])
    np.testing.assert_allclose(found, means / np.linalg.norm(means, axis=1, keepdims=True), atol=1e-5)


def test_an_encoder_is_distilled_as_it_is_exported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = bundle(tmp_path / "bundle")
    assert main(["export", "model2vec", f"export.vectors={source}", f"export.output={tmp_path / 'a'}"]) == 0
    assert main(["vectors", "distil", str(source), f"export.output={tmp_path / 'b'}"]) == 0
    exported, distilled = (sorted((tmp_path / name / "model2vec").iterdir()) for name in "ab")
    assert [path.name for path in exported] == ["config.json", "model.safetensors", "tokenizer.json"]
    assert [path.read_bytes() for path in exported] == [path.read_bytes() for path in distilled]
    capsys.readouterr()
    for words in (["distill", "RUN"], ["distil", "a", "b"], []):
        assert main(["vectors", *words, f"export.vectors={source}"]) == 2
        assert "the one action is distil: dragoman vectors distil RUN" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("switches", "message"),
    [
        ({"norm": "post"}, "train it with model.norm=pre"),
        ({"activation": "relu"}, "train it with model.activation=gelu"),
        ({"norm_kind": "rms"}, "train it with model.norm_kind=layer"),
    ],
)
def test_what_fits_no_class_is_refused_with_the_switch_that_does(
    switches: dict[str, Any], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = bundle(tmp_path / "bundle", **switches)
    output = tmp_path / "out"
    assert main(["export", "sentence-transformers", f"export.vectors={source}", f"export.output={output}"]) == 2
    assert message in capsys.readouterr().err
    assert not list(output.iterdir())


def test_words_and_too_many_components_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = bundle(tmp_path / "words", "words")
    assert main(["export", "model2vec", f"export.vectors={source}", f"export.output={tmp_path}"]) == 2
    assert "tokenizer.type=words" in capsys.readouterr().err
    source = bundle(tmp_path / "bpe")
    words = ["model2vec", f"export.vectors={source}", f"export.output={tmp_path}", "export.components=33"]
    assert main(["export", *words]) == 2
    assert "export.components=33: the encoder's vectors have 32 at most" in capsys.readouterr().err
