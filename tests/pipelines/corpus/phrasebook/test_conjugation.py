"""Verb forms against hand-checked principal parts and persons."""

import pytest

from dragoman.pipelines.corpus.phrasebook.conjugation import read_english, read_german
from dragoman.pipelines.corpus.phrasebook.verb_table import FRAMES, SPECIAL

VERBS = {verb.german.joined: verb for frame in FRAMES.values() for verb in frame} | {
    verb.german.joined: verb for verb in SPECIAL.values()
}

PRINCIPAL_PARTS = """
arbeiten arbeitet arbeitete gearbeitet
schlafen schläft schlief geschlafen
aufstehen steht stand aufgestanden
einschlafen schläft schlief eingeschlafen
ausruhen ruht ruhte ausgeruht
beeilen beeilt beeilte beeilt
lesen liest las gelesen
essen isst aß gegessen
trinken trinkt trank getrunken
waschen wäscht wusch gewaschen
aufräumen räumt räumte aufgeräumt
reparieren repariert reparierte repariert
öffnen öffnet öffnete geöffnet
schließen schließt schloss geschlossen
vergessen vergisst vergaß vergessen
besuchen besucht besuchte besucht
begrüßen begrüßt begrüßte begrüßt
verstehen versteht verstand verstanden
wiederholen wiederholt wiederholte wiederholt
übersetzen übersetzt übersetzte übersetzt
entdecken entdeckt entdeckte entdeckt
zeichnen zeichnet zeichnete gezeichnet
tragen trägt trug getragen
stehlen stiehlt stahl gestohlen
füttern füttert fütterte gefüttert
gießen gießt goss gegossen
anprobieren probiert probierte anprobiert
vorbereiten bereitet bereitete vorbereitet
einladen lädt lud eingeladen
mitnehmen nimmt nahm mitgenommen
mitbringen bringt brachte mitgebracht
helfen hilft half geholfen
antworten antwortet antwortete geantwortet
gratulieren gratuliert gratulierte gratuliert
anbieten bietet bot angeboten
empfehlen empfiehlt empfahl empfohlen
denken denkt dachte gedacht
erinnern erinnert erinnerte erinnert
kümmern kümmert kümmerte gekümmert
reden redet redete geredet
laufen läuft lief gelaufen
reisen reist reiste gereist
zurückkehren kehrt kehrte zurückgekehrt
sitzen sitzt saß gesessen
liegen liegt lag gelegen
wissen weiß wusste gewusst
beschließen beschließt beschloss beschlossen
aufhören hört hörte aufgehört
sein ist war gewesen
werden wird wurde geworden
haben hat hatte gehabt
regnen regnet regnete geregnet
lächeln lächelt lächelte gelächelt
"""


@pytest.mark.parametrize("line", PRINCIPAL_PARTS.strip().splitlines())
def test_principal_parts(line: str) -> None:
    infinitive, third, past, participle = line.split()
    german = VERBS[infinitive].german
    assert (german.third, german.past, german.participle) == (third, past, participle)


@pytest.mark.parametrize(
    ("infinitive", "first", "plural", "past_plural"),
    [
        ("kaufen", "kaufe", "kaufen", "kauften"),
        ("sein", "bin", "sind", "waren"),
        ("haben", "habe", "haben", "hatten"),
        ("werden", "werde", "werden", "wurden"),
        ("wissen", "weiß", "wissen", "wussten"),
        ("lächeln", "lächle", "lächeln", "lächelten"),
        ("füttern", "füttere", "füttern", "fütterten"),
        ("kümmern", "kümmere", "kümmern", "kümmerten"),
        ("lesen", "lese", "lesen", "lasen"),
        ("schließen", "schließe", "schließen", "schlossen"),
        ("aufräumen", "räume", "räumen", "räumten"),
        ("essen", "esse", "essen", "aßen"),
    ],
)
def test_persons(infinitive: str, first: str, plural: str, past_plural: str) -> None:
    german = VERBS[infinitive].german
    assert german.present(1, False) == first
    assert german.present(1, True) == german.present(3, True) == plural
    assert german.preterite(3, True) == past_plural
    assert german.preterite(1, False) == german.preterite(3, False)


def test_zu_stands_inside_a_separable_verb() -> None:
    assert VERBS["aufräumen"].german.with_zu == ["aufzuräumen"]
    assert VERBS["öffnen"].german.with_zu == ["zu", "öffnen"]


def test_perfect_with_sein_for_motion_and_change_of_state() -> None:
    with_sein = {infinitive for infinitive, verb in VERBS.items() if verb.german.with_sein}
    assert sorted(with_sein) == [
        *("ankommen", "aufstehen", "aufwachen", "bleiben", "einschlafen", "fahren", "fliegen", "folgen", "gehen"),
        *("kommen", "laufen", "reisen", "schwimmen", "sein", "werden", "zurückkehren", "zurückkommen"),
    ]


@pytest.mark.parametrize(
    ("cell", "third", "past", "participle", "gerund"),
    [
        ("work", "works", "worked", "worked", "working"),
        ("carry", "carries", "carried", "carried", "carrying"),
        ("tidy_up", "tidies up", "tidied up", "tidied up", "tidying up"),
        ("stop", "stops", "stopped", "stopped", "stopping"),
        ("wash", "washes", "washed", "washed", "washing"),
        ("dance", "dances", "danced", "danced", "dancing"),
        ("lie lay lain", "lies", "lay", "lain", "lying"),
        ("see saw seen", "sees", "saw", "seen", "seeing"),
        ("go went gone", "goes", "went", "gone", "going"),
        ("begin began begun", "begins", "began", "begun", "beginning"),
        ("take~along took_along taken_along", "takes along", "took along", "taken along", "taking along"),
    ],
)
def test_english_forms(cell: str, third: str, past: str, participle: str, gerund: str) -> None:
    verb = read_english(cell)
    assert (verb.third, verb.past, verb.participle, verb.gerund) == (third, past, participle, gerund)


def test_a_german_cell_with_some_forms_missing_is_refused() -> None:
    with pytest.raises(ValueError, match="lesen liest"):
        read_german("lesen liest")


def test_one_english_verb_has_one_german_verb_in_each_frame() -> None:
    for frame in FRAMES.values():
        english = [verb.english.base for verb in frame]
        assert len(set(english)) == len(english)
        assert len({verb.german.joined for verb in frame}) == len(frame)
