"""Adjectives: English (comparative and superlative), German stem, comparative stem, what they go with.

A German stem in brackets is the attributive one where it differs: teuer, ein teures Haus.
"""

from dataclasses import dataclass

TABLE = """
big          bigger biggest       | groß größer größt                  | thing place animal
small        smaller smallest     | klein kleiner kleinst              | thing place animal edible
old          older oldest         | alt älter ältest                   | person animal thing place
new          newer newest         | neu neuer neuest                   | thing place explained
young        younger youngest     | jung jünger jüngst                 | animate
beautiful    more most            | schön schöner schönst              | thing place female
ugly         uglier ugliest       | hässlich hässlicher hässlichst     | furniture clothing
expensive    more most            | teuer(teur) teurer teuerst         | goods
cheap        cheaper cheapest     | billig billiger billigst           | goods
heavy        heavier heaviest     | schwer schwerer schwerst           | furniture inside
strong       stronger strongest   | stark stärker stärkst              | male animal
friendly     friendlier friendliest | freundlich freundlicher freundlichst | person
clever       cleverer cleverest   | klug klüger klügst                 | person pet
famous       more most            | berühmt berühmter berühmtest       | adult visited
rich         richer richest       | reich reicher reichst              | adult
poor         poorer poorest       | arm ärmer ärmst                    | adult
happy        happier happiest     | glücklich glücklicher glücklichst  | person
sad          sadder saddest       | traurig trauriger traurigst        | person told sung seen
tired        - -                  | müde - -                           | animate
sick         - -                  | krank kränker kränkst              | animate
hungry       hungrier hungriest   | hungrig hungriger hungrigst        | animate
polite       more most            | höflich höflicher höflichst        | person
busy         - -                  | beschäftigt - -                    | adult
curious      - -                  | neugierig neugieriger neugierigst  | kid pet
brave        braver bravest       | mutig mutiger mutigst              | person
lazy         lazier laziest       | faul fauler faulst                 | person pet
red          - -                  | rot - -                            | clothing vehicle plant colored
blue         - -                  | blau - -                           | clothing vehicle colored
green        - -                  | grün - -                           | clothing vehicle fruit colored
yellow       - -                  | gelb - -                           | clothing vehicle plant
white        - -                  | weiß - -                           | clothing animal fragile
black        - -                  | schwarz - -                        | clothing animal
brown        - -                  | braun - -                          | furniture animal
fresh        - -                  | frisch frischer frischest          | edible
cold         colder coldest       | kalt kälter kältest                | drink dish
hot          - -                  | heiß heißer heißest                | drink cooked
sweet        sweeter sweetest     | süß süßer süßest                   | fruit baked
sour         - -                  | sauer(saur) saurer sauerst         | fruit
delicious    - -                  | lecker leckerer leckerst           | food
dirty        dirtier dirtiest     | schmutzig schmutziger schmutzigst  | clothing cleaned room
clean        cleaner cleanest     | sauber sauberer sauberst           | clothing cleaned room
dark         darker darkest       | dunkel(dunkl) dunkler dunkelst     | room outside
quiet        quieter quietest     | ruhig ruhiger ruhigst              | town inner outside
modern       more most            | modern moderner modernst           | inner machine vehicle
broken       - -                  | kaputt - -                         | machine fragile
interesting  more most            | interessant interessanter interessantest | info readable visited
boring       more most            | langweilig langweiliger langweiligst     | info readable
important    more most            | wichtig wichtiger wichtigst        | info
difficult    more most            | schwierig schwieriger schwierigst  | learnt solved asked
easy         easier easiest       | leicht leichter leichtest          | learnt solved asked
long         longer longest       | lang länger längst                 | readable told event asked
funny        funnier funniest     | lustig lustiger lustigst           | info kid
strange      stranger strangest   | seltsam seltsamer seltsamst        | info person
"""


@dataclass(frozen=True, slots=True)
class Adjective:
    """One adjective of both languages; comparative and superlative are empty where the corpus does not use them."""

    english: str
    comparative: str
    superlative: str
    german: str  # predicative
    stem: str  # attributive
    german_comparative: str
    german_superlative: str
    goes_with: frozenset[str]


def read_adjectives(table: str) -> list[Adjective]:
    adjectives = []
    for line in table.strip().splitlines():
        english_part, german_part, features = line.split("|")
        english, comparative, superlative = english_part.split()
        if comparative == "more":
            comparative, superlative = f"more {english}", f"most {english}"
        german, higher, highest = german_part.split()
        predicative, _, stem = german.rstrip(")").partition("(")
        graded = comparative != "-" and higher != "-"
        adjectives.append(
            Adjective(
                english,
                comparative if graded else "",
                superlative if graded else "",
                predicative,
                stem or predicative,
                higher if graded else "",
                highest if graded else "",
                frozenset(features.split()),
            )
        )
    return adjectives


ADJECTIVES: tuple[Adjective, ...] = tuple(read_adjectives(TABLE))
COLORS = frozenset({"red", "blue", "green", "yellow", "white", "black", "brown"})
