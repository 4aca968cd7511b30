"""Verbs, one table a frame: English forms | German forms | subjects | objects | settings.

English: base, and past and participle where irregular; `_` joins the words of one verb, `~` a particle that stands
after a pronoun ("picks him up"). German: infinitive, `|` between separable particle and stem, then 3rd person, past
and participle where irregular; `+` marks the perfect with sein, `sich` a reflexive verb.
Settings name what may be added: places (in, out, shop, water, any), manners (quick, soft, loud, careful, with).
"""

INTRANSITIVE = """
work                       | arbeiten                                   | person  |  | inner home quick with
sleep slept slept          | schlafen schläft schlief geschlafen        | animate |  | home outside
laugh                      | lachen                                     | person  |  | any loud with
dance                      | tanzen                                     | person  |  | home outside with slow
sing sang sung             | singen singt sang gesungen                 | person  |  | any loud with
cry                        | weinen                                     | kid kin |  | home outside soft
play                       | spielen                                    | kid pet |  | home outside with
swim swam swum             | +schwimmen schwimmt schwamm geschwommen    | animate |  | water quick with
smile                      | lächeln                                    | person  |  |
cook                       | kochen                                     | person  |  | home
get_up got_up gotten_up    | +auf|stehen steht stand gestanden          | person  |  | quick early
wake_up woke_up woken_up   | +auf|wachen                                | person  |  | early
fall_asleep fell_asleep fallen_asleep | +ein|schlafen schläft schlief geschlafen  | animate |  | quick home
arrive                     | +an|kommen kommt kam gekommen              | person  |  | stop town early
come_back came_back come_back | +zurück|kommen kommt kam gekommen          | person  |  | early
rest                       | sich aus|ruhen                             | person  |  | home outside
hurry                      | sich beeilen                               | person  |  |
sit_down sat_down sat_down | sich setzen                                | person  |  | slow soft
"""

TRANSITIVE = """
have had had               | haben hat hatte gehabt                     | person  | pet kin machine info |
buy bought bought          | kaufen                                     | person  | goods edible | shop
sell sold sold             | verkaufen                                  | person  | goods edible | shop
order                      | bestellen                                  | person  | edible | quick
see saw seen               | sehen sieht sah gesehen                    | person  | animate thing place | outside
read read read             | lesen liest las gelesen                    | person  | readable | any soft slow
write wrote written        | schreiben schreibt schrieb geschrieben     | person  | written | any quick slow
eat ate eaten              | essen isst aß gegessen                     | person  | food | any quick slow with
drink drank drunk          | trinken trinkt trank getrunken             | person  | drink | any quick slow with
cook                       | kochen                                     | person  | cooked | home with
bake                       | backen backt backte gebacken               | person  | baked | home with
peel                       | schälen                                    | person  | fruit | home quick careful
wash                       | waschen wäscht wusch gewaschen             | person  | washed fruit | outside careful with
clean                      | putzen                                     | person  | cleaned | home quick careful
tidy_up                    | auf|räumen                                 | person  | room | quick with
repair                     | reparieren                                 | person  | machine | home quick careful with
open                       | öffnen                                     | person  | openable sealed | quick careful soft
close                      | schließen schließt schloss geschlossen     | person  | openable | quick careful soft
look_for                   | suchen                                     | person  | small animal | any with
find found found           | finden findet fand gefunden                | person  | small animal | any
lose lost lost             | verlieren verliert verlor verloren         | person  | small | any
forget forgot forgotten    | vergessen vergisst vergaß vergessen        | person  | small learnt |
need                       | brauchen                                   | person  | goods |
use                        | benutzen                                   | person  | machine | careful
love                       | lieben                                     | person  | person pet |
hate                       | hassen                                     | person  | event learnt |
know knew known            | kennen kennt kannte gekannt                | person  | person place told |
visit                      | besuchen                                   | person  | person visited |
meet met met               | treffen trifft traf getroffen              | person  | person | any
ask                        | fragen                                     | person  | person | polite
greet                      | begrüßen                                   | person  | person | polite loud
hear heard heard           | hören                                      | person  | animate sung told | outside
understand understood understood | verstehen versteht verstand verstanden     | person  | info |
learn                      | lernen                                     | person  | learnt | inner home quick with
repeat                     | wiederholen wiederholt wiederholte wiederholt | person  | asked learnt | slow loud soft
translate | übersetzen übersetzt übersetzte übersetzt | person | readable learnt | inner home quick careful
describe                   | beschreiben beschreibt beschrieb beschrieben | person  | person place painted | careful
solve                      | lösen                                      | person  | solved | quick with
discover                   | entdecken                                  | person  | place explained |
paint | malen | person | painted animal | outside home quick careful
draw drew drawn | zeichnen | person | painted animal | inner home quick careful
build built built          | bauen                                      | person  | built | outside with
carry                      | tragen trägt trug getragen                 | person  | stands | careful with
break broke broken         | zerbrechen zerbricht zerbrach zerbrochen   | person  | fragile | home
steal stole stolen         | stehlen stiehlt stahl gestohlen            | male    | goods | shop
throw_away threw_away thrown_away | weg|werfen wirft warf geworfen             | person  | small clothing |
feed fed fed               | füttern                                    | person  | animal | outside
photograph | fotografieren | person | person animal place | outside careful
catch caught caught        | fangen fängt fing gefangen                 | hunter  | prey | outside home quick
water                      | gießen gießt goss gegossen                 | person  | plant | outside home careful
count                      | zählen                                     | person  | animal goods | careful slow
try_on                     | an|probieren                               | person  | clothing | shop
put_on put_on put_on       | an|ziehen zieht zog gezogen                | person  | clothing | quick slow
take_off took_off taken_off | aus|ziehen zieht zog gezogen               | person  | clothing | quick slow
turn_on                    | ein|schalten                               | person  | device | quick
turn_off                   | aus|schalten                               | person  | device | quick
look_at                    | an|sehen sieht sah gesehen                 | person  | seen painted place | soft with
prepare                    | vor|bereiten bereitet bereitete bereitet   | person  | event dish | home quick careful with
sing sang sung             | singen singt sang gesungen                 | person  | sung | any loud soft with
call_up                    | an|rufen ruft rief gerufen                 | person  | person |
pick~up                    | ab|holen                                   | person  | person | stop
invite                     | ein|laden lädt lud geladen                 | person  | person | polite
take~along took_along taken_along | mit|nehmen nimmt nahm genommen             | person  | pet kin small |
bring~along brought_along brought_along | mit|bringen bringt brachte gebracht        | person  | edible kin readable |
"""

DATIVE = """
help                       | helfen hilft half geholfen                 | person  | person | home outside
thank                      | danken                                     | person  | person | polite
follow                     | +folgen                                    | animate | person animal | slow quick
trust                      | vertrauen vertraut vertraute vertraut      | person  | person |
answer                     | antworten                                  | person  | person | quick polite
congratulate               | gratulieren                                | person  | person | polite
listen_to                  | zu|hören                                   | person  | person | any
belong_to                  | gehören gehört gehörte gehört              | goods   | person |
"""

# The second object follows `dat` (gives the child a book) or `to` (explains the rule to the child).
DITRANSITIVE = """
give gave given            | geben gibt gab gegeben                     | person  | goods edible | dat
show showed shown          | zeigen                                     | person  | goods place painted | dat
send sent sent             | schicken                                   | person  | lies | dat
bring brought brought      | bringen bringt brachte gebracht            | person  | edible lies | dat
offer                      | an|bieten bietet bot geboten               | person  | edible | dat
tell told told             | erzählen                                   | person  | told | dat
lend lent lent             | leihen leiht lieh geliehen                 | person  | machine readable | dat
explain                    | erklären                                   | person  | explained learnt | to
recommend                  | empfehlen empfiehlt empfahl empfohlen      | person  | readable inner seen | to
give_back gave_back given_back | zurück|geben gibt gab gegeben              | person  | small machine | to
"""

# Objects: English preposition (or -), German preposition, case, then features.
PREPOSITIONAL = """
wait | warten | person | for auf acc person awaited | stop outside
think thought thought      | denken denkt dachte gedacht                | person  | of an acc person event |
dream                      | träumen                                    | person  | of von dat person event |
speak spoke spoken | sprechen spricht sprach gesprochen | person | with mit dat person | any soft polite
talk                       | reden                                      | person  | about über acc info | any loud with
laugh | lachen | person | about über acc mistake told | loud with
believe                    | glauben                                    | person  | in an acc plan |
remember                   | sich erinnern                              | person  | - an acc person event told |
take_part took_part taken_part | teil|nehmen nimmt nahm genommen            | person  | in an dat wedding exam |
look_after                 | sich kümmern                               | person  | - um acc kid kin animal |
play | spielen | kid pet | with mit dat kid pet thrown | home outside
"""

# Where to: -, near (places), far (towns and countries).
MOTION = """
go went gone               | +gehen geht ging gegangen                  | person  | near | slow with
drive drove driven         | +fahren fährt fuhr gefahren                | adult   | near far | slow quick with
run ran run                | +laufen läuft lief gelaufen                | animate | near | quick
come came come             | +kommen kommt kam gekommen                 | person  | near far | with
fly flew flown             | +fliegen fliegt flog geflogen              | adult   | far | with
travel                     | +reisen                                    | person  | far | with ride
return                     | +zurück|kehren                             | person  | near far | quick ride
"""

POSITION = """
stand stood stood          | stehen steht stand gestanden               | stands furniture | on beside behind |
lie lay lain               | liegen liegt lag gelegen                   | lies    | on under in |
hang hung hung             | hängen hängt hing gehangen                 | hangs   | wall |
sit sat sat                | sitzen sitzt saß gesessen                  | animate | seat |
live                       | wohnen                                     | person  | town | with
stay                       | +bleiben bleibt blieb geblieben            | person  | home inner |
"""

PLACEMENT = """
put put put                | stellen                                    | person  | stands | on beside behind | careful
lay laid laid              | legen                                      | person  | lies | on under in | careful
hang hung hung             | hängen hängt hängte gehängt                | person  | hangs | wall | careful
"""

CLAUSAL = """
say said said              | sagen                                      | that
know knew known            | wissen weiß wusste gewusst                 | that
believe                    | glauben                                    | that
think thought thought      | denken denkt dachte gedacht                | that
hope                       | hoffen                                     | that
see saw seen               | sehen sieht sah gesehen                    | that
hear heard heard           | hören                                      | that
notice                     | bemerken bemerkt bemerkte bemerkt          | that
write wrote written        | schreiben schreibt schrieb geschrieben     | that
ask                        | fragen                                     | whether
"""

CONTROL = """
try                        | versuchen versucht versuchte versucht      | to
begin began begun          | beginnen beginnt begann begonnen           | to
promise                    | versprechen verspricht versprach versprochen | to
forget forgot forgotten    | vergessen vergisst vergaß vergessen        | to
plan                       | planen                                     | to
hope                       | hoffen                                     | to
decide                     | beschließen beschließt beschloss beschlossen | to
stop                       | auf|hören                                  | ing
"""

# Single verbs with a construction of their own.
SPECIAL = """
be was been                | +sein ist war gewesen                      |
become became become       | +werden wird wurde geworden                |
cost cost cost             | kosten                                     |
rain                       | regnen                                     |
snow                       | schneien                                   |
"""
