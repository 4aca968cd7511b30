"""The noise of denoising against the papers' definitions: shares, lengths of spans, and the text restored."""

import numpy as np
import pytest

from dragoman.model.errors import UserError
from dragoman.model.text.tokenizer import EOS, MASK, TokenizerConfig
from dragoman.model.text.tokenizers import train_pair
from dragoman.pipelines.loaders.noise import Noise, Row, composition, noise_of, poisson
from dragoman.pipelines.loaders.window import philox
from dragoman.pipelines.settings import LoaderConfig

SENTINELS = range(900, 932)


def text(length: int) -> Row:
    """A text whose tokens are all different."""
    return np.array([*range(100, 100 + length), EOS])


def spans_of(source: Row, row: Row) -> list[list[int]]:
    """The tokens behind each mask, found by the tokens round it; fails unless the rest is the text in its order."""
    spans, place, open_ = [], 0, False
    for token in source.tolist():
        if token == MASK:
            assert not open_, "two spans touch"
            open_ = True
            continue
        at = row.tolist().index(token)
        assert at == place or (open_ and at > place), "a token is missing or out of order"
        if open_:
            spans.append(row[place:at].tolist())
        place, open_ = at + 1, False
    assert place == len(row)
    return spans


def test_infilling_replaces_spans_of_poisson_lengths_with_one_mask_each() -> None:
    noise, row, rows = Noise("infilling", 0.3, 3.0), text(200), 400
    lengths = []
    for number in range(rows):
        source, target = noise.apply(row, philox(1, 2, number, 4))
        assert target.tolist() == row.tolist()
        lengths += [len(span) for span in spans_of(source, row)]
    assert sum(lengths) == 60 * rows, "the share is exact for a text of 200 tokens"
    counts = np.bincount(lengths) / len(lengths)
    expected = [np.exp(-3.0), 3 * np.exp(-3.0), 4.5 * np.exp(-3.0), 4.5 * np.exp(-3.0)]  # Poisson(3) at 0, 1, 2, 3
    assert counts[:4] == pytest.approx(expected, abs=0.02)  # the last span of a text is cut to fit
    assert np.mean(lengths) == pytest.approx(3.0, abs=0.12)


def test_spans_become_sentinels_and_source_and_target_give_the_text_back() -> None:
    noise, rows = Noise("spans", 0.15, 3.0, SENTINELS), 300
    corrupted = lengths = 0
    for number in range(rows):
        row = text(100)
        source, target = noise.apply(row, philox(1, 2, number, 4))
        marks = [token for token in source.tolist() if token in SENTINELS]
        assert marks == list(SENTINELS[: len(marks)]), "each its own, in order"
        written = np.split(target[:-1], np.flatnonzero(np.isin(target, SENTINELS))[1:])
        assert [part[0] for part in written] == list(SENTINELS[: len(marks) + 1]) and len(written[-1]) == 1
        behind = {part[0]: part[1:].tolist() for part in written}
        restored = [one for token in source.tolist() for one in behind.get(token, [token])]
        assert restored == row.tolist() and target[-1] == EOS
        corrupted += sum(map(len, behind.values()))
        lengths += len(marks)
    assert corrupted == 15 * rows
    assert corrupted / lengths == 3.0


@pytest.mark.parametrize("length", [0, 1, 2, 3, 7])
@pytest.mark.parametrize("kind", ["infilling", "spans"])
def test_short_texts_keep_their_end_and_grow_by_no_token(kind: str, length: int) -> None:
    for share in (0.01, 0.3, 1.0):
        noise = Noise("infilling" if kind == "infilling" else "spans", share, 3.0, SENTINELS)
        for number in range(50):
            source, target = noise.apply(text(length), philox(3, 4, number, 4))
            assert source[-1] == target[-1] == EOS
            assert len(source) <= length + 2
            if kind == "infilling":
                spans_of(source, text(length))


def test_the_mean_share_is_exact_for_any_length() -> None:
    noise = Noise("infilling", 0.3, 3.0)
    masked = [sum(map(len, spans_of(noise.apply(text(11), philox(5, 6, n, 4))[0], text(11)))) for n in range(3000)]
    assert np.mean(masked) == pytest.approx(3.3, abs=0.05)


def test_more_spans_than_sentinels_are_not_made() -> None:
    source, target = Noise("spans", 0.5, 1.0, SENTINELS[:4]).apply(text(60), philox(1, 1))
    assert [token for token in target.tolist() if token in SENTINELS] == list(SENTINELS[:4])
    assert sum(token not in SENTINELS for token in target.tolist()) == 30 + 1
    assert sum(token in SENTINELS for token in source.tolist()) == 3


def test_noise_depends_on_its_bits_alone() -> None:
    noise = Noise("infilling", 0.3, 3.0)
    one, again, other = (noise.apply(text(40), philox(1, 2, number, 4))[0].tolist() for number in (7, 7, 8))
    assert one == again != other


def test_poisson_is_the_inverse_of_its_cumulative_probability() -> None:
    edges = np.exp(-2.0) * np.cumsum([1, 2, 2, 4 / 3])
    assert [poisson(2.0, edge - 1e-9) for edge in edges] == [0, 1, 2, 3]
    assert [poisson(2.0, edge + 1e-9) for edge in edges] == [1, 2, 3, 4]
    assert poisson(2.0, 1.0 - 2.0**-53) < 40


def test_compositions_are_equally_likely() -> None:
    found = [tuple(composition(5, 3, philox(1, 1, number, 4))) for number in range(3000)]
    kinds, counts = np.unique(found, axis=0, return_counts=True)
    assert len(kinds) == 6 and kinds.sum(1).tolist() == [5] * 6 and kinds.min() == 1
    assert counts.min() > 420


def test_a_tokenizer_has_sentinels_that_no_text_gives() -> None:
    lines = ["a dog runs .", "a cat sleeps .", "<extra_id_0> is text here"] * 20
    config = TokenizerConfig(vocabulary=60, sentinels=4)
    tokenizer = train_pair(config, lines, lines).source
    assert list(tokenizer.sentinels) == [6, 7, 8, 9]
    assert tokenizer.pieces(tokenizer.sentinels) == [f"<extra_id_{n}>" for n in range(4)]
    assert not {6, 7, 8, 9} & set(tokenizer.encode(["<extra_id_0> a dog"])[0].tolist())
    assert tokenizer.decode([[6, *tokenizer.encode(["a dog"])[0].tolist(), 7]]) == ["a dog"]
    assert not train_pair(TokenizerConfig(vocabulary=60), lines, lines).source.sentinels
    noise_of(LoaderConfig(denoise="spans"), tokenizer)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"denoise": "spans"}, "tokenizer has 0 sentinels and spans need two at least.*tokenizer.sentinels=32"),
        ({"denoise": "infilling", "noise_share": 0.0}, "loader.noise_share=0: leaves the text as it is"),
    ],
)
def test_settings_without_effect_are_refused(settings: dict[str, object], told: str) -> None:
    lines = ["a dog runs .", "a cat sleeps ."] * 20
    tokenizer = train_pair(TokenizerConfig(vocabulary=40), lines, lines).source
    with pytest.raises(UserError, match=told):
        noise_of(LoaderConfig(**settings), tokenizer)  # type: ignore[arg-type]  # of many types


@pytest.mark.parametrize(
    ("config", "told"),
    [
        (TokenizerConfig(type="words", sentinels=3), "tokenizer.sentinels=3: for tokenizer.type=bpe and unigram"),
        (TokenizerConfig(vocabulary=20, sentinels=14), "tokenizer.sentinels=14: fill tokenizer.vocabulary=20 alone"),
    ],
)
def test_sentinels_need_a_vocabulary_with_room(config: TokenizerConfig, told: str) -> None:
    with pytest.raises(UserError, match=told):
        train_pair(config, ["a"], ["b"])
