"""Texts of a few words, quotes and brackets, and stand-ins of models that copy no name."""

from dragoman.model.inference.translator import Alternative, Translation
from dragoman.services.texts.options import TextOptions
from dragoman.services.texts.prepare import Prepared, pending, prepare
from dragoman.services.texts.stand_ins import find_stand_ins
from tests.services.texts.test_texts import translate


def answer(*texts: tuple[str, float]) -> Translation:
    nbest = [Alternative(text, probability, probability) for text, probability in texts]
    return Translation(nbest[0].text, nbest[0].score, nbest)


def short(text: str, answers: dict[str, Translation], source: str = "en") -> Prepared:
    prepared = prepare(text, TextOptions(), source, 400, "de")
    while not prepared.finished:
        for asked in pending([prepared]):
            assert asked.short and asked.nbest(1) == 5 and asked.nbest(7) == 7
            asked.take([answers[line] for line in asked.lines])
    return prepared


def test_the_first_answer_that_repeats_no_word_is_taken() -> None:
    told = answer(("Eine Frau macht eine Frau.", -1), ("Eine Frau Frau.", -3), ("Eine Frau.", -2))
    rebuilt = short("a woman", {"a woman.": told}).rebuild()
    assert (rebuilt.text, rebuilt.report["loops"]) == ("eine Frau", ["a woman"])
    assert short("a woman", {"a woman.": told}).rebuild(rank=1).text != rebuilt.text
    fine = answer(("Ein Hund.", -9), ("Hund.", -1))
    rebuilt = short("a dog", {"a dog.": fine}).rebuild()
    assert (rebuilt.text, "loops" in rebuilt.report) == ("ein Hund", False)  # the model's choice, where it is whole


def test_a_word_is_asked_for_in_small_letters_too() -> None:
    answers = {"House.": answer(("Ho House.", -9)), "house.": answer(("Haus Haus.", -1)), "HOUSE.": answer(("X X", -9))}
    assert short("House", answers).rebuild().text == "Haus"
    assert short("HOUSE", answers).rebuild().text == "HAUS"
    assert short("Hund", {"Hund.": answer(("Dog.", -9))}, "de").rebuild().text == "Dog"  # a noun's capital stays
    close = {"Berlin.": answer(("Berlin.", -1.2)), "berlin.": answer(("Berliner.", -1))}
    assert short("Berlin", close).rebuild().text == "Berlin"


def test_words_that_the_text_repeats_may_stand_twice() -> None:
    prepared = prepare("bye bye", TextOptions(), "en", 400, "de")
    assert not pending([prepared])[0].short


def test_lost_quotes_and_brackets_are_put_back_beside_their_words() -> None:
    prepared = prepare("The dog (old) sees “the man” today.", TextOptions(), "en", 400, "fr")
    prepared.take([answer(("Der alte hund sieht der mann heute.", -1))])
    assert prepared.lines == ["The dog old sees the man today."]
    rebuilt = translate("The dog (old) sees “the man” today.")
    assert rebuilt.text == "Der hund (old) sieht “the man” today."
    assert "words" not in rebuilt.report  # the model kept them
    other = prepare("The dog sees “the man” today.", TextOptions(), "en", 400, "fr")
    other.take([answer(("Der hund sieht „der mann“ heute.", -1))])
    assert other.finished and other.rebuild().text == "Der hund sieht „der mann“ heute."  # quotes of its language


def test_a_model_that_copies_no_name_has_nouns_in_their_forms() -> None:
    nouns = {"dogs": "Hunde", "horses": "Pferde", "trees": "Bäume", "cars": "Autos"}

    def model(asked: list[str]) -> list[str]:
        found = []
        for line in asked:
            ending = "n" if " with " in line else ""
            words = [nouns[word] + ending if word in nouns else word for word in line.replace(".", "").split()]
            found.append(" ".join(word for word in words if word not in ("Peter", "Anna", "Emma")) + ".")
        return [text if any(one in text for one in nouns.values()) else "?" for text in found]

    found = dict(find_stand_ins(model, "en").names)
    assert found["dogs"] == ("Hunden", "Hunde")
    assert set(found) >= set(nouns) and "Peter" not in found
