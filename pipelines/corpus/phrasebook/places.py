"""Places, towns and names: the prepositions that go with a place stand in its row, since German fixes them by noun.

Columns: English, plural, gender, German, genitive, plural, where (English German), where to (English German),
features. `in`, `an`, `auf` take the dative for a place and the accusative for a direction; `zu`, `nach` the dative.
"""

from dataclasses import dataclass

from dragoman.pipelines.corpus.phrasebook.nouns import Noun

PLACES = """
garden        gardens        m Garten       Gartens        Gärten         in in   into in   outside home cleanable
park          parks          m Park         Parks          Parks          in in   to   in   outside
forest        forests        m Wald         Waldes         Wälder         in in   into in   outside
lake          lakes          m See          Sees           Seen           at an   to   an   outside water
river         rivers         m Fluss        Flusses        Flüsse         at an   to   an   outside water
beach         beaches        m Strand       Strands        Strände        on an   to   an   outside water
mountain      mountains      m Berg         Berges         Berge          on auf  to   auf  outside far
bridge        bridges        f Brücke       -              Brücken        on auf  to   zu   outside built
street        streets        f Straße       -              Straßen        on auf  onto auf  outside
market        markets        m Markt        Marktes        Märkte         at auf  to   auf  outside shop
village       villages       n Dorf         Dorfes         Dörfer         in in   to   in   town far
city          cities         f Stadt        -              Städte         in in   to   in   town far
house         houses         n Haus         Hauses         Häuser         in in   into in   home built painted
kitchen       kitchens       f Küche        -              Küchen         in in   into in   home room
room          rooms          n Zimmer       Zimmers        Zimmer         in in   into in   home room
cellar        cellars        m Keller       Kellers        Keller         in in   into in   home room
office        offices        n Büro         Büros          Büros          in in   to   in   inner room
school        schools        f Schule       -              Schulen        at in   to   in   inner
university    universities   f Universität  -              Universitäten  at an   to   zu   inner
library       libraries      f Bibliothek   -              Bibliotheken   in in   to   in   inner
museum        museums        n Museum       Museums        Museen         in in   to   in   inner visited
church        churches       f Kirche       -              Kirchen        in in   to   in   inner visited
castle        castles        n Schloss      Schlosses      Schlösser      in in   to   zu   inner visited
hospital      hospitals      n Krankenhaus  Krankenhauses  Krankenhäuser  in in   to   in   inner
hotel         hotels         n Hotel        Hotels         Hotels         in in   to   in   inner
restaurant    restaurants    n Restaurant   Restaurants    Restaurants    in in   to   in   inner
supermarket   supermarkets   m Supermarkt   Supermarkts    Supermärkte    in in   to   in   inner shop
bakery        bakeries       f Bäckerei     -              Bäckereien     in in   to   zu   inner shop
cinema        cinemas        n Kino         Kinos          Kinos          in in   to   in   inner
theater       theaters       n Theater      Theaters       Theater        in in   to   in   inner
factory       factories      f Fabrik       -              Fabriken       in in   to   zu   inner
station       stations       m Bahnhof      Bahnhofs       Bahnhöfe       at an   to   zu   stop
airport       airports       m Flughafen    Flughafens     Flughäfen      at an   to   zu   stop
"""

TOWNS = (  # no article: in Berlin, nach Berlin
    ("Berlin", "Berlin"),
    ("Munich", "München"),
    ("Cologne", "Köln"),
    ("Vienna", "Wien"),
    ("Rome", "Rom"),
    ("Germany", "Deutschland"),
    ("Austria", "Österreich"),
    ("France", "Frankreich"),
    ("Italy", "Italien"),
    ("Spain", "Spanien"),
)

SWITZERLAND = ("Switzerland", "die Schweiz")  # the one country with an article: in der Schweiz, in die Schweiz

NAMES = (  # the same in both languages; the genitive adds -s
    ("Anna", "f"),
    ("Maria", "f"),
    ("Julia", "f"),
    ("Emma", "f"),
    ("Eva", "f"),
    ("Peter", "m"),
    ("Martin", "m"),
    ("Paul", "m"),
    ("Karl", "m"),
    ("Otto", "m"),
)


@dataclass(frozen=True, slots=True)
class Place:
    """A noun with the prepositions of position and direction."""

    noun: Noun
    where: tuple[str, str]
    whither: tuple[str, str]


def read_places(table: str) -> list[Place]:
    places = []
    for line in table.strip().splitlines():
        english, many, gender, german, genitive, plural, at, de_at, to, de_to, *features = line.split()
        noun = Noun(
            english,
            many,
            gender,
            german,
            german if genitive == "-" else genitive,
            plural,
            frozenset((*features, "place")),
        )
        places.append(Place(noun, (at, de_at), (to, de_to)))
    return places


PLACE_ROWS: tuple[Place, ...] = tuple(read_places(PLACES))
