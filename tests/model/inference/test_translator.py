"""Lines in, lines out, by either engine, whatever the lines hold."""

import random
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from dragoman.model.bundles.network import save_bundle
from dragoman.model.bundles.translation import TranslationBundle, load_bundle
from dragoman.model.decoding.hypothesis import Hypothesis
from dragoman.model.decoding.word_loops import WordLoops
from dragoman.model.errors import UserError
from dragoman.model.inference.engines import CTranslate2Engine
from dragoman.model.inference.translator import Translator, network_translator, open_translator
from dragoman.model.networks.transformer import Transformer, TransformerConfig
from dragoman.model.settings import DecodeConfig
from dragoman.model.text.tokenizer import EOS, TokenizerConfig, TokenizerPair
from dragoman.model.text.tokenizers import train_pair

LETTERS = "abcdefghijklmnopqrstuvwxyz ,.!?'"


def lines(count: int, seed: int) -> list[str]:
    rng = random.Random(seed)
    return ["".join(rng.choices(LETTERS, k=rng.randint(3, 60))).strip() or "a" for _ in range(count)]


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> TranslationBundle:
    pair = train_pair(TokenizerConfig(type="bpe", vocabulary=200), lines(300, 1), lines(300, 2))
    config = TransformerConfig(
        width=32, heads=4, feed_forward=48, encoder_layers=2, decoder_layers=2, max_positions=64, norm="pre"
    )
    torch.manual_seed(2)
    network = Transformer(config, pair.source.vocabulary, pair.target.vocabulary)
    with torch.no_grad():
        network.output.weight.mul_(3)
    directory = tmp_path_factory.mktemp("translator") / "bundle"
    facts = {"pair": "en-de", "decode": {"beam": 2, "max_ratio": 1.0, "max_extra": 4}}
    save_bundle(directory, network=network, config=config, tokenizers=pair, facts=facts)
    return load_bundle(directory)


@pytest.fixture(params=["torch", "ctranslate2"])
def translator(request: pytest.FixtureRequest, bundle: TranslationBundle) -> Translator:
    return open_translator(bundle, request.param, threads=2)


def test_both_engines_give_the_same_texts_and_scores(bundle: TranslationBundle) -> None:
    asked = ["", *lines(30, 5)]
    answers = [open_translator(bundle, engine).translate(asked) for engine in ("torch", "ctranslate2")]  # type: ignore[arg-type]  # literals
    assert [a.text for a in answers[0]] == [b.text for b in answers[1]]
    np.testing.assert_allclose([a.score for a in answers[0]], [b.score for b in answers[1]], rtol=1e-4)
    assert any(a.text for a in answers[0])


def test_empty_lines_stay_empty_and_in_place(translator: Translator) -> None:
    answers = translator.translate(["", "one two", "   ", "\t\u00a0", "three", "\x00\u200b"])
    assert [bool(a.nbest) for a in answers] == [False, True, False, False, True, False]
    assert [answers[row].text for row in (0, 2, 3, 5)] == [""] * 4
    assert translator.translate([]) == []


def test_what_the_vocabulary_lacks_is_named_once(translator: Translator) -> None:
    known, odd = translator.translate([lines(1, 1)[0], "the 犬 and 犬 猫"])
    assert (known.unknown, known.missing) == (0, ())
    assert odd.unknown and "犬" in "".join(odd.missing) and len(set(odd.missing)) == len(odd.missing)


def test_alternatives_come_best_first_with_the_text_leading(translator: Translator) -> None:
    (answer,) = translator.translate(["a small line"], DecodeConfig(beam=4, nbest=4))
    scores = [one.score for one in answer.nbest]
    assert len(scores) == 4
    assert scores == sorted(scores, reverse=True)
    assert (answer.text, answer.score) == (answer.nbest[0].text, answer.nbest[0].score)


def test_company_does_not_change_a_translation(translator: Translator) -> None:
    asked = lines(8, 6)
    together = [answer.text for answer in translator.translate(asked)]
    assert together == [translator.translate([line])[0].text for line in asked]


def test_very_long_lines_are_cut_and_marked_or_refused(translator: Translator) -> None:
    long = "abc " * 2000
    first, second = translator.translate([long, "short"])
    assert first.truncated
    assert not second.truncated
    with pytest.raises(UserError, match="64 source positions"):
        translator.translate(["short", long], DecodeConfig(too_long="error"))
    kept = translator.translate(["short", long], DecodeConfig(too_long="error"), on_error="keep")
    assert kept[0].text == translator.translate(["short"], DecodeConfig())[0].text
    assert "64 source positions" in (kept[1].error or "")


def test_naughty_strings_never_break_it(translator: Translator, naughty: list[str]) -> None:
    answers = translator.translate([*naughty, "\ud800 lone", "a\u0085b", "x" * 5000], DecodeConfig(beam=1, max_extra=5))
    assert len(answers) == len(naughty) + 3
    assert all(answer.error is None and "\n" not in answer.text for answer in answers)


def test_many_threads_may_share_a_translator(translator: Translator) -> None:
    asked = lines(6, 7)
    expected = [answer.text for answer in translator.translate(asked)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: [a.text for a in translator.translate(asked)], range(8)))
    assert found == [expected] * 8


class Brittle:
    """Fails on every batch that holds a source of five tokens."""

    name = "brittle"

    def search(
        self, sources: Sequence[np.ndarray], config: DecodeConfig, scored: bool = True
    ) -> list[list[Hypothesis]]:
        if any(len(ids) == 5 for ids in sources):
            raise RuntimeError("no five")
        return [[Hypothesis((7,), -1.0, -2.0, True)] for _ in sources]


class Letters:
    """One id a letter."""

    vocabulary = 200

    def encode(self, texts: Sequence[str]) -> list[np.ndarray]:
        return [np.array([ord(letter) for letter in text], np.uint16) for text in texts]

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        return ["x" for _ in ids]


def test_a_failing_line_does_not_take_its_neighbours_with_it() -> None:
    pair = TokenizerPair(Letters(), Letters())  # type: ignore[arg-type]  # only encode and decode are needed
    translator = Translator(Brittle(), pair, DecodeConfig(), positions=100)
    answers = translator.translate(["ab", "abcd", "abc"], on_error="keep")
    assert [answer.text for answer in answers] == ["x", "", "x"]
    assert answers[1].error == "RuntimeError: no five"
    with pytest.raises(RuntimeError, match="no five"):
        translator.translate(["ab", "abcd", "abc"])


def test_auto_takes_int8_only_where_it_was_accepted(bundle: TranslationBundle) -> None:
    assert open_translator(bundle).engine.name == "ctranslate2 (ct2)"
    bundle.update_facts({"int8": {"accepted": True}})
    assert open_translator(bundle.directory).engine.name == "ctranslate2 (ct2-int8)"
    bundle.update_facts({"int8": {"accepted": False}})
    assert open_translator(bundle.directory).engine.name == "ctranslate2 (ct2)"
    assert open_translator(bundle.directory, "ctranslate2-int8").engine.name == "ctranslate2 (ct2-int8)"


def test_a_machine_without_int8_takes_float32_and_refuses_int8_by_name(
    bundle: TranslationBundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dragoman.model.inference.translator.runs_int8", lambda device: False)
    bundle.update_facts({"int8": {"accepted": True}})
    assert open_translator(bundle.directory).engine.name == "ctranslate2 (ct2)"
    with pytest.raises(
        UserError, match=r"'ctranslate2-int8': no int8 products on this cpu\. Choices: auto, ctranslate2"
    ):
        open_translator(bundle.directory, "ctranslate2-int8")


def test_a_bundle_without_exports_is_served_by_pytorch(bundle: TranslationBundle, tmp_path: Path) -> None:
    save_bundle(
        tmp_path / "b",
        network=bundle.network,
        config=bundle.config,
        tokenizers=bundle.tokenizers,
        facts={"pair": "en-de"},
        exports=(),
    )
    assert open_translator(tmp_path / "b").engine.name == "torch"
    with pytest.raises(UserError, match="no such export"):
        open_translator(tmp_path / "b", "ctranslate2")
    with pytest.raises(UserError, match="'tensorrt' is not known"):
        open_translator(tmp_path / "b", "tensorrt")  # type: ignore[arg-type]  # on purpose


def test_a_network_in_memory_translates_as_its_bundle_does(bundle: TranslationBundle) -> None:
    asked = lines(5, 8)
    in_memory = network_translator(bundle.network, bundle.tokenizers, bundle.decode, "NFC")
    assert in_memory.translate(asked) == open_translator(bundle, "torch").translate(asked)
    assert in_memory.encode(["a"])[0][-1] == EOS


def test_where_subwords_loop_both_engines_search_again_and_elsewhere_nothing_changes(
    bundle: TranslationBundle, tmp_path: Path
) -> None:
    """A network that says one piece from inside a word for ever; cut at one token, that is no loop yet."""
    guard, pair = WordLoops(bundle.tokenizers.target, 2), bundle.tokenizers
    config = TransformerConfig(
        width=16, heads=2, feed_forward=16, encoder_layers=1, decoder_layers=1, max_positions=64, norm="pre"
    )
    torch.manual_seed(2)
    network = Transformer(config, pair.source.vocabulary, pair.target.vocabulary)
    with torch.no_grad():
        network.output.weight[torch.tensor(guard.letters) >= 2] *= 4
    save_bundle(tmp_path / "b", network=network, config=config, tokenizers=pair, facts={"pair": "en-de"})
    both = [open_translator(tmp_path / "b", engine) for engine in ("torch", "ctranslate2")]  # type: ignore[arg-type]  # literals
    asked, free = lines(8, 8), DecodeConfig(beam=2, max_ratio=1.0, max_extra=0)
    looped = both[1].translate(asked, free)
    assert all(guard.found(one.nbest[0].ids) for one in looped)
    first, second = (one.translate(asked, replace(free, repeats_in_word=2)) for one in both)
    assert [one.text for one in first] == [one.text for one in second]
    assert not any(guard.found(one.nbest[0].ids) for one in first) and all(one.text for one in first)
    assert all(one.loops and not one.loop_broken for one in looped) and all(one.loop_broken for one in first)
    short = replace(free, max_ratio=0.0, max_extra=1)
    assert both[1].translate(asked, short) == both[1].translate(asked, replace(short, repeats_in_word=2))


def test_in_batches_of_one_length_int8_gives_the_same_bits_alone_and_in_company(
    bundle: TranslationBundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    translator = open_translator(bundle, "ctranslate2-int8", threads=2)
    asked = lines(32, 9)
    engine, lengths = translator.engine, []

    class Watched:
        def translate_batch(self, batch: list[list[str]], **options: object) -> object:
            lengths.append({len(tokens) for tokens in batch})
            return inner.translate_batch(batch, **options)

    assert isinstance(engine, CTranslate2Engine)
    inner = engine.translator
    monkeypatch.setattr(engine, "translator", Watched())

    def scores(decode: DecodeConfig, at_a_time: int) -> list[float]:
        parts = [asked[first : first + at_a_time] for first in range(0, len(asked), at_a_time)]
        return [found.score for part in parts for found in translator.translate(part, decode)]

    exact = replace(translator.decode, same_length=True)
    assert scores(exact, 32) == scores(exact, 1)
    assert all(len(each) == 1 for each in lengths)
    scores(translator.decode, 32)
    assert not all(len(each) == 1 for each in lengths)
