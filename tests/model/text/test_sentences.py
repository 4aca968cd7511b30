"""Cutting a text into sentences and putting it together again."""

import random

import pytest

from dragoman.model.text.sentences import Piece, join, split


def texts(text: str, longest: int = 400) -> list[str]:
    return [piece.text for piece in split(text, longest) if piece.text]


def test_sentences_are_cut_after_a_stop_and_before_a_capital() -> None:
    assert texts("I see a dog. It runs! Does it? Yes.") == ["I see a dog.", "It runs!", "Does it?", "Yes."]


@pytest.mark.parametrize(
    "sentence",
    [
        "Mr. Smith met Dr. Brown.",
        "Am 3. Mai kommt er.",
        "J. S. Bach lebte hier.",
        "Das kostet z.B. Geld.",
        "It cost 3.50 euros.",
        "wait... what",
    ],
)
def test_a_stop_inside_a_sentence_does_not_cut(sentence: str) -> None:
    assert texts(sentence) == [sentence]


def test_closing_quotes_stay_with_their_sentence() -> None:
    assert texts('He said "Go." Then he went.') == ['He said "Go."', "Then he went."]


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("我看见一只狗。它在跑！真的吗？是的。", ["我看见一只狗。", "它在跑！", "真的吗？", "是的。"]),
        ("犬が走る。　猫も走る｡ Yes!", ["犬が走る。", "猫も走る｡", "Yes!"]),
        ("他说：“你好！”然后走了。", ["他说：“你好！”", "然后走了。"]),
        ("「行こう。」と彼は言った。本当？！はい。", ["「行こう。」と彼は言った。", "本当？！", "はい。"]),
        ("（これは例です。）次の文。", ["（これは例です。）", "次の文。"]),
        ("真的吗？，他问", ["真的吗？，他问"]),
    ],
)
def test_chinese_and_japanese_are_cut_at_their_own_stops(text: str, sentences: list[str]) -> None:
    assert texts(text) == sentences
    pieces = split(text)
    assert join(pieces, [piece.text for piece in pieces]) == text


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("Přišel domů. Čekal tam pes. Šel spát. Žena čte.", 4),
        ("Mam psa. Śpi w domu. Łukasz ma kota. Żona czyta.", 4),
        ("Geldim. İstanbul güzel. Şimdi git.", 3),
        ("Я тут. Їжак спить. Є собака. Іди.", 4),
        ("Είμαι εδώ. Πού είσαι; Έλα τώρα.", 3),
        ("मैं घर जाता हूँ। वह खाता है।हम सोते हैं।", 3),
        ("أنا في البيت. أين أنت؟ أنا هنا.", 3),
        ("میں گھر ہوں۔ وہ آیا۔", 2),
        ("나는 간다. 너는 온다. 우리는 잔다.", 3),
        ("სახლში ვარ. ის მოვიდა.", 2),
        ("Ես տանն եմ։ Նա եկավ։", 2),
        ("ကျွန်တော် သွားတယ်။ သူ၊ လာတယ်။", 2),
        ("እኔ ቤት ነኝ። እሱ መጣ።", 2),
        ("אני בבית. איפה אתה? בוא.", 3),
        ("They are in my freezer. 😆 I guess they came by van.", 2),
        ("- One dog. - Two cats.", 2),
        ("Wait; go on. First.", 2),
        ("Really?! Yes… No.", 3),
        ("Verse one ॥१॥ goes on", 2),
        ("ང་འགྲོ། ཁོ་ཡོང་།", 2),
    ],
)
def test_every_script_has_sentences(text: str, number: int) -> None:
    assert len(texts(text)) == number
    pieces = split(text)
    assert join(pieces, [piece.text for piece in pieces]) == text


def test_an_initial_with_a_dot_above_does_not_end_a_sentence() -> None:
    assert [piece.text for piece in split("Ben İ. Yılmaz geldim. O da geldi.")] == [
        "Ben İ. Yılmaz geldim.",
        "O da geldi.",
    ]


def test_a_language_brings_its_abbreviations() -> None:
    text = "Przyszedł inż. Kowalski. Śpi."
    assert len([piece for piece in split(text) if piece.text]) == 3
    assert [piece.text for piece in split(text, 400, "pl_PL")] == ["Przyszedł inż. Kowalski.", "Śpi."]


def test_sentences_without_blanks_get_one_in_a_language_that_has_them() -> None:
    pieces = split("我看见一只狗。它在跑！\n真的吗？是的。")
    assert join(pieces, ["I see a dog.", "It runs!", "Really?", "Yes."]) == "I see a dog. It runs!\nReally? Yes."


def test_line_breaks_and_blanks_are_kept() -> None:
    pieces = split("One.  Two.\n\n  Three.\r\nFour")
    assert [piece.text for piece in pieces if piece.text] == ["One.", "Two.", "Three.", "Four"]
    assert join(pieces, [piece.text.upper() for piece in pieces]) == "ONE.  TWO.\n\n  THREE.\r\nFOUR"


def test_a_long_sentence_is_cut_at_a_clause_then_at_a_blank_then_anywhere() -> None:
    assert texts("one two, three four", 12) == ["one two,", "three four"]
    assert texts("one two three four", 12) == ["one two", "three four"]
    assert texts("a" * 25, 10) == ["a" * 10, "a" * 10, "a" * 5]


def test_empty_text_has_no_pieces_and_blank_text_only_blanks() -> None:
    assert split("") == []
    assert split("\n") == [Piece("", "\n")]
    assert texts(" \n \n") == []


def test_any_text_comes_together_again_and_no_piece_is_too_long() -> None:
    generator = random.Random(7)
    for _ in range(300):
        text = "".join(
            generator.choice("aB. ,!?\n\r\"'3Ä\u2028。！」と犬।;α😆-") for _ in range(generator.randrange(60))
        )
        pieces = split(text, 8)
        assert join(pieces, [piece.text for piece in pieces]) == text
        assert all(len(piece.text) <= 8 for piece in pieces)
