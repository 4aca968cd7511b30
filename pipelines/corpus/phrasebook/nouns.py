"""Nouns: English, its plural, gender, German nominative, genitive, plural, features.

Genitive `-` stands for feminines, plural `-` for mass nouns. A masculine genitive in -n marks the weak declension.
"""

from dataclasses import dataclass

PEOPLE = """
man            men           m Mann              Mannes           Männer            male adult unowned
woman          women         f Frau              -                Frauen            female adult unowned
child          children      n Kind              Kindes           Kinder            kid
boy            boys          m Junge             Jungen           Jungen            male kid
girl           girls         n Mädchen           Mädchens         Mädchen           female kid
mother         mothers       f Mutter            -                Mütter            female adult kin
father         fathers       m Vater             Vaters           Väter             male adult kin
brother        brothers      m Bruder            Bruders          Brüder            male kin
sister         sisters       f Schwester         -                Schwestern        female kin
grandmother    grandmothers  f Großmutter        -                Großmütter        female adult kin
grandfather    grandfathers  m Großvater         Großvaters       Großväter         male adult kin
uncle          uncles        m Onkel             Onkels           Onkel             male adult kin
aunt           aunts         f Tante             -                Tanten            female adult kin
son            sons          m Sohn              Sohnes           Söhne             male kin
daughter       daughters     f Tochter           -                Töchter           female kin
friend         friends       m Freund            Freundes         Freunde           male adult
neighbor       neighbors     m Nachbar           Nachbarn         Nachbarn          male adult
colleague      colleagues    m Kollege           Kollegen         Kollegen          male adult
guest          guests        m Gast              Gastes           Gäste             male adult
boss           bosses        m Chef              Chefs            Chefs             male adult
teacher        teachers      m Lehrer            Lehrers          Lehrer            male adult job
student        students      m Student           Studenten        Studenten         male adult job
pupil          pupils        m Schüler           Schülers         Schüler           male kid
doctor         doctors       m Arzt              Arztes           Ärzte             male adult job
nurse          nurses        f Krankenschwester  -                Krankenschwestern female adult job
waiter         waiters       m Kellner           Kellners         Kellner           male adult job
saleswoman     saleswomen    f Verkäuferin       -                Verkäuferinnen    female adult job
actress        actresses     f Schauspielerin    -                Schauspielerinnen female adult job
farmer         farmers       m Bauer             Bauern           Bauern            male adult job
driver         drivers       m Fahrer            Fahrers          Fahrer            male adult job
policeman      policemen     m Polizist          Polizisten       Polizisten        male adult job unowned
judge          judges        m Richter           Richters         Richter           male adult job unowned
engineer       engineers     m Ingenieur         Ingenieurs       Ingenieure        male adult job
baker          bakers        m Bäcker            Bäckers          Bäcker            male adult job
gardener       gardeners     m Gärtner           Gärtners         Gärtner           male adult job
painter        painters      m Maler             Malers           Maler             male adult job
queen          queens        f Königin           -                Königinnen        female adult unowned
king           kings         m König             Königs           Könige            male adult unowned
"""

ANIMALS = """
dog            dogs          m Hund              Hundes           Hunde             pet
cat            cats          f Katze             -                Katzen            pet hunter
horse          horses        n Pferd             Pferdes          Pferde            farm
bird           birds         m Vogel             Vogels           Vögel             prey
mouse          mice          f Maus              -                Mäuse             prey
cow            cows          f Kuh               -                Kühe              farm
rabbit         rabbits       m Hase              Hasen            Hasen             pet prey
bear           bears         m Bär               Bären            Bären             hunter
duck           ducks         f Ente              -                Enten             farm
pig            pigs          n Schwein           Schweins         Schweine          farm
"""

FOOD = """
apple          apples        m Apfel             Apfels           Äpfel             food fruit
pear           pears         f Birne             -                Birnen            food fruit
banana         bananas       f Banane            -                Bananen           food fruit
lemon          lemons        f Zitrone           -                Zitronen          food fruit
tomato         tomatoes      f Tomate            -                Tomaten           food
potato         potatoes      f Kartoffel         -                Kartoffeln        food cooked
egg            eggs          n Ei                Eis              Eier              food cooked
soup           soups         f Suppe             -                Suppen            food cooked dish
salad          salads        m Salat             Salats           Salate            food dish
cake           cakes         m Kuchen            Kuchens          Kuchen            food baked dish
roll           rolls         n Brötchen          Brötchens        Brötchen          food baked
cookie         cookies       m Keks              Kekses           Kekse             food baked
bread          -             n Brot              Brotes           -                 food baked mass
cheese         -             m Käse              Käses            -                 food mass
rice           -             m Reis              Reises           -                 food cooked mass
meat           -             n Fleisch           Fleisches        -                 food cooked mass
chocolate      -             f Schokolade        -                -                 food mass
milk           -             f Milch             -                -                 drink mass
water          -             n Wasser            Wassers          -                 drink mass
coffee         -             m Kaffee            Kaffees          -                 drink mass
tea            -             m Tee               Tees             -                 drink mass
juice          -             m Saft              Saftes           -                 drink mass
beer           -             n Bier              Bieres           -                 drink mass
wine           -             m Wein              Weines           -                 drink mass
"""

THINGS = """
book           books         n Buch              Buches           Bücher            readable written lies small goods
newspaper      newspapers    f Zeitung           -                Zeitungen         readable lies small goods
letter         letters       m Brief             Briefes          Briefe            readable written lies small sealed
novel          novels        m Roman             Romans           Romane            readable written lies goods
postcard       postcards     f Postkarte         -                Postkarten        readable written lies small goods
poem           poems         n Gedicht           Gedichts         Gedichte          readable written learnt info
story          stories       f Geschichte        -                Geschichten       readable written told info
song           songs         n Lied              Liedes           Lieder            sung learnt info
film           films         m Film              Films            Filme             seen info
table          tables        m Tisch             Tisches          Tische            furniture stands goods top
chair          chairs        m Stuhl             Stuhls           Stühle            furniture stands goods top seat
bed            beds          n Bett              Bettes           Betten            furniture stands goods top seat
sofa           sofas         n Sofa              Sofas            Sofas             furniture stands goods top seat
wardrobe wardrobes m Schrank Schranks Schränke furniture stands goods inside openable
shelf          shelves       n Regal             Regals           Regale            furniture stands goods top built
lamp           lamps         f Lampe             -                Lampen            furniture stands goods device
mirror         mirrors       m Spiegel           Spiegels         Spiegel           furniture hangs goods cleaned
picture        pictures      n Bild              Bildes           Bilder            hangs goods painted seen
clock          clocks        f Uhr               -                Uhren             hangs goods machine
carpet         carpets       m Teppich           Teppichs         Teppiche          furniture goods cleaned
cup            cups          f Tasse             -                Tassen            stands goods fragile cleaned
glass          glasses       n Glas              Glases           Gläser            stands goods fragile cleaned
bottle         bottles       f Flasche           -                Flaschen          stands goods fragile openable
plate          plates        m Teller            Tellers          Teller            stands goods fragile cleaned
vase           vases         f Vase              -                Vasen             stands goods fragile
basket         baskets       m Korb              Korbs            Körbe             stands goods inside
bag            bags          f Tasche            -                Taschen           lies goods inside small openable
suitcase       suitcases     m Koffer            Koffers          Koffer            stands goods inside openable
shirt          shirts        n Hemd              Hemdes           Hemden            clothing hangs goods
coat           coats         m Mantel            Mantels          Mäntel            clothing hangs goods
dress          dresses       n Kleid             Kleides          Kleider           clothing hangs goods
hat            hats          m Hut               Hutes            Hüte              clothing lies goods
jacket         jackets       f Jacke             -                Jacken            clothing hangs goods
skirt          skirts        m Rock              Rocks            Röcke             clothing hangs goods
sweater        sweaters      m Pullover          Pullovers        Pullover          clothing lies goods
shoe           shoes         m Schuh             Schuhs           Schuhe            clothing goods cleaned
car            cars          n Auto              Autos            Autos             vehicle machine goods washed
bus            buses         m Bus               Busses           Busse             vehicle machine awaited
train          trains        m Zug               Zuges            Züge              vehicle awaited
bicycle        bicycles      n Fahrrad           Fahrrads         Fahrräder         vehicle machine goods washed
ship           ships         n Schiff            Schiffs          Schiffe           vehicle built
boat           boats         n Boot              Bootes           Boote             vehicle built goods painted
computer       computers     m Computer          Computers        Computer          device machine goods stands
radio          radios        n Radio             Radios           Radios            device machine goods stands
television     televisions   m Fernseher         Fernsehers       Fernseher         device machine goods stands
machine        machines      f Maschine          -                Maschinen         device machine
camera         cameras       f Kamera            -                Kameras           machine goods lies small
door           doors         f Tür               -                Türen             openable cleaned
window         windows       n Fenster           Fensters         Fenster           openable cleaned
key            keys          m Schlüssel         Schlüssels       Schlüssel         lies small
knife          knives        n Messer            Messers          Messer            lies goods cleaned
spoon          spoons        m Löffel            Löffels          Löffel            lies goods cleaned
fork           forks         f Gabel             -                Gabeln            lies goods cleaned
pencil         pencils       m Bleistift         Bleistifts       Bleistifte        lies goods small
umbrella       umbrellas     m Regenschirm       Regenschirms     Regenschirme      stands goods small
ticket         tickets       f Fahrkarte         -                Fahrkarten        lies goods small
ball           balls         m Ball              Balls            Bälle             lies goods thrown
doll           dolls         f Puppe             -                Puppen            lies goods small
gift           gifts         n Geschenk          Geschenks        Geschenke         lies goods sealed
ring           rings         m Ring              Rings            Ringe             lies goods small
flower         flowers       f Blume             -                Blumen            goods plant painted
wall           walls         f Wand              -                Wände             wall
tree           trees         m Baum              Baumes           Bäume             plant painted
"""

IDEAS = """
question       questions     f Frage             -                Fragen            asked info
answer         answers       f Antwort           -                Antworten         asked info
word           words         n Wort              Wortes           Wörter            learnt asked info
sentence       sentences     m Satz              Satzes           Sätze             learnt asked info
rule           rules         f Regel             -                Regeln            learnt explained info
exercise       exercises     f Übung             -                Übungen           solved explained info
problem        problems      n Problem           Problems         Probleme          solved explained info
mistake        mistakes      m Fehler            Fehlers          Fehler            explained info
plan           plans         m Plan              Plans            Pläne             explained info
idea           ideas         f Idee              -                Ideen             explained info
dream          dreams        m Traum             Traumes          Träume            told info
language       languages     f Sprache           -                Sprachen          learnt info
trip           trips         f Reise             -                Reisen            event info
wedding        weddings      f Hochzeit          -                Hochzeiten        event info
exam           exams         f Prüfung           -                Prüfungen         event info
meal           meals         n Essen             Essens           Essen             event
"""


@dataclass(frozen=True, slots=True)
class Noun:
    """A noun of both languages; `english_plural` and `plural` are empty for mass nouns."""

    english: str
    english_plural: str
    gender: str  # m, f, n
    german: str
    genitive: str
    plural: str
    features: frozenset[str]


def read_table(table: str, *shared: str) -> list[Noun]:
    """The nouns of a table, each with the features of its line and the shared ones."""
    nouns = []
    for line in table.strip().splitlines():
        english, many, gender, german, genitive, plural, *features = line.split()
        nouns.append(
            Noun(
                english,
                "" if many == "-" else many,
                gender,
                german,
                german if genitive == "-" else genitive,
                "" if plural == "-" else plural,
                frozenset((*features, *shared)),
            )
        )
    return nouns


NOUNS: tuple[Noun, ...] = (
    *read_table(PEOPLE, "person", "animate"),
    *read_table(ANIMALS, "animal", "animate"),
    *read_table(FOOD, "edible"),
    *read_table(THINGS, "thing"),
    *read_table(IDEAS, "abstract"),
)
