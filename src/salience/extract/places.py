"""Countries, regions and larger towns by their English names, and the towns that can be told by how they are called.

Data for `fact_values.place`, so that "I moved to dark mode" names no place and "i moved to lisbon" does. The list is
short on purpose: a town that it lacks is still known after "I live in", where it is capitalised.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

COUNTRIES: Final = frozenset(
    """
    africa america asia australia europe argentina austria belgium brazil bulgaria canada chile china colombia croatia
    cuba cyprus czechia denmark egypt england estonia ethiopia finland france germany ghana greece hungary iceland
    india indonesia iran iraq ireland israel italy jamaica japan kenya korea latvia lebanon lithuania malaysia malta
    mexico morocco nepal netherlands nigeria norway pakistan peru philippines poland portugal romania russia scotland
    serbia slovakia slovenia spain sweden switzerland taiwan thailand tunisia turkey uganda uk ukraine us usa vietnam
    wales afghanistan albania algeria andorra angola armenia azerbaijan bahrain bangladesh belarus benin bhutan bolivia
    botswana cambodia cameroon ecuador eritrea gabon guatemala haiti honduras jordan kazakhstan kosovo kuwait kyrgyzstan
    laos liberia libya liechtenstein madagascar malawi mali mauritius moldova mongolia montenegro mozambique myanmar
    namibia nicaragua oman panama paraguay qatar rwanda senegal somalia sudan syria tajikistan tanzania togo uruguay
    uzbekistan venezuela yemen zambia zimbabwe
    """.split()
) | frozenset(
    ("costa rica", "great britain", "new zealand", "northern ireland", "saudi arabia", "south africa", "south korea",
     "sri lanka", "united kingdom", "united states", "czech republic", "el salvador", "ivory coast", "north korea",
     "north macedonia", "papua new guinea", "sierra leone", "south america", "united arab emirates")
)  # fmt: skip
"""Who lives in one of these lives in a town of it as well: "I live in Germany" leaves "I live in Berlin" true."""

REGIONS: Final = frozenset(
    name.replace("_", " ")
    for name in """
    alabama alaska arizona arkansas california colorado connecticut delaware florida georgia hawaii idaho illinois
    indiana iowa kansas kentucky louisiana maine maryland massachusetts michigan minnesota mississippi missouri montana
    nebraska nevada new_hampshire new_jersey new_mexico new_york north_carolina north_dakota ohio oklahoma oregon
    pennsylvania rhode_island south_carolina south_dakota tennessee texas utah vermont virginia washington
    west_virginia wisconsin wyoming alberta british_columbia manitoba new_brunswick newfoundland nova_scotia ontario
    quebec saskatchewan new_south_wales queensland tasmania victoria bavaria saxony hesse brandenburg thuringia
    catalonia andalusia galicia brittany normandy provence burgundy tuscany sicily sardinia lombardy piedmont umbria
    calabria puglia crete corfu mallorca ibiza menorca tenerife canary_islands madeira azores algarve cornwall devon
    kent sussex surrey essex dorset norfolk suffolk yorkshire lancashire bali java okinawa hokkaido kerala goa punjab
    gujarat rajasthan silicon_valley bay_area puerto_rico crimea flanders wallonia transylvania scandinavia patagonia
    """.split()
)

TOWNS: Final = frozenset(
    name.replace("_", " ")
    for name in """
    abidjan abu_dhabi abuja accra adana addis_ababa adelaide agra ahmedabad albany albuquerque aleppo alexandria
    algiers alicante almaty amman amsterdam anchorage ankara ann_arbor antalya antwerp arlington asheville ashgabat
    asmara astana asuncion athens atlanta auckland augsburg austin aveiro avignon baghdad baku baltimore bamako
    bandung bangalore bangkok bangui barcelona bari basel basra bath baton_rouge beijing beirut belfast belgrade
    bengaluru bergen berkeley berlin bern bhopal bilbao birmingham bishkek bochum bogota boise bologna bonn bordeaux
    boston boulder bradford braga brasilia bratislava braunschweig brazzaville bremen brescia brest brighton
    brisbane bristol brno brooklyn bruges brussels bucharest budapest buenos_aires buffalo burlington bursa busan
    cadiz cairo calgary cambridge canberra cancun cannes cape_town caracas cardiff cartagena casablanca catania
    charleston charlotte chattanooga chemnitz chengdu chennai chiang_mai chicago chisinau chongqing christchurch
    cincinnati cleveland cluj coimbra cologne colombo colorado_springs columbus conakry copenhagen cordoba cork
    coventry curitiba dakar dallas damascus dar_es_salaam darmstadt darwin debrecen delft delhi denver derby
    des_moines detroit dhaka dijon doha dortmund douala dresden dubai dublin dubrovnik duesseldorf dundee dunedin
    durban durham dushanbe edinburgh edmonton eindhoven erfurt essen eugene exeter faro fez florence fort_lauderdale
    fort_worth fortaleza frankfurt freetown freiburg fresno fukuoka funchal gaborone gaza gdansk geneva genoa ghent
    giza glasgow gothenburg graz grenoble grand_rapids groningen guadalajara guangzhou guatemala_city guayaquil
    haarlem hague haifa halifax hamburg hamilton hangzhou hannover hanoi hanover harare harlem hartford havana
    heidelberg helsinki hiroshima ho_chi_minh_city hobart hong_kong honolulu houston hull hyderabad iasi incheon
    indianapolis innsbruck inverness irvine islamabad istanbul izmir jackson jacksonville jaipur jakarta jena jeddah
    jerusalem johannesburg kabul kampala kanpur kansas_city karachi karlsruhe kassel kathmandu katowice kaunas kazan
    kharkiv khartoum kiel kiev kigali kingston kinshasa klagenfurt kobe kolkata kosice krakow kuala_lumpur
    kuwait_city kyiv kyoto la la_paz lagos lahore las_vegas lausanne leeds leicester leiden leipzig leuven lexington
    lhasa libreville liege lille lilongwe lima limassol limerick lincoln linz lisbon little_rock liverpool ljubljana
    lodz lome london long_beach los_angeles louisville luanda lucerne lucknow lugano lund lusaka luxembourg lviv
    lyon macau madison madrid magdeburg mainz malaga male malmo managua manchester manhattan manila mannheim maputo
    marrakech marrakesh marseille mecca medellin medina melbourne memphis mendoza merida mexico_city miami milan
    milwaukee minneapolis minsk mobile modena mogadishu monaco monrovia monterrey montevideo montpellier montreal
    moscow multan mumbai munich munster muscat nagoya nairobi nancy nantes naples nashville nassau new_delhi
    new_orleans new_york_city newark newcastle newport nice nicosia nis norwich nottingham novosibirsk nuremberg
    nuuk nyc oakland odense odesa odessa oklahoma_city olomouc omaha orlando osaka oslo ostrava ottawa ouagadougou
    oulu oxford padua palermo palo_alto panama_city paris parma pasadena patna perth perugia philadelphia phnom_penh
    phoenix pisa pittsburgh plovdiv plymouth podgorica porto port_louis portland porto_alegre portsmouth potsdam
    poznan prague preston pretoria pristina providence pune punta_cana pyongyang quebec_city queens quito rabat
    raleigh reading recife redmond regensburg regina rennes reno reykjavik richmond riga rijeka rio rio_de_janeiro
    riyadh rochester rome rosario rostock rotterdam rouen saarbruecken sacramento saigon salamanca salem salford
    salt_lake_city salvador salzburg samara samarkand sanaa santiago sapporo sarajevo savannah scottsdale scranton
    seattle sendai seoul seville sf shanghai sheffield shenzhen siena singapore skopje sofia southampton split
    spokane springfield stanford stavanger stockholm strasbourg stuttgart sucre suwon suzhou swansea sydney syracuse
    szczecin szeged taipei tallinn tampa tampere tangier tartu tashkent tbilisi tegucigalpa tehran tel_aviv
    thessaloniki tianjin tijuana timisoara tirana tokyo toledo toronto toulouse tours trieste tripoli tromso
    trondheim trento tucson tulsa tunis turin turku ulaanbaatar ulm uppsala utrecht vaduz valencia valletta
    valparaiso vancouver varanasi varna venice verona vienna vientiane vilnius vladivostok warsaw washington_dc
    waterloo weimar wellington windhoek windsor winnipeg wolfsburg wroclaw wuerzburg wuhan xian yangon yaounde
    yerevan yokohama york zagreb zaragoza zurich zwolle sao_paulo st_gallen st_louis st_petersburg st_paul
    san_francisco san_diego san_jose san_antonio san_juan santa_fe santa_barbara santa_monica santa_cruz
    palm_springs baden_baden iowa_city jersey_city cape_cod
    """.split()
)

LISTED: Final = COUNTRIES | REGIONS | TOWNS
ALSO_WORDS: Final = frozenset(
    "bath buffalo cork derby essen hull java jordan kent male mali mobile la nancy nice orlando phoenix queens reading "
    "regina split toledo tours turkey us victoria virginia".split()
)
"""Names of places that, in small letters, are as well another word: "i moved to reading fiction"."""

_TOWN: Final = re.compile(
    r"(?:(?:San|Santa|Santo|São|Saint|Sainte|St|Los|Las|Fort|Port|Mount|Bad) [^\W\d_]\w+.*"
    r"|.* (?:City|Island|Islands|Beach|County|Valley|Heights|Hills|Springs)"
    r"|\w{2,}(?:ville|burg|burgh|borough|stadt|dorf|grad|abad|polis|mouth|minster|shire|pur|nagar))"
)
"""How towns are called: "San Mateo", "Iowa City", "Neustadt"."""


def is_known(name: str) -> bool:
    """Return whether a name, as it is written, is that of a place in the lists, or is made as those of towns are."""
    plain = _folded(name)
    if name.islower() and plain in ALSO_WORDS:
        return False
    return plain in LISTED or (name[:1].isupper() and _TOWN.fullmatch(name.replace(".", "")) is not None)


def is_country(name: str) -> bool:
    """Return whether a name is that of a country or continent."""
    return _folded(name) in COUNTRIES


def _folded(name: str) -> str:
    """Return a name in small letters, without an article, marks on letters, full stops and hyphens."""
    letters = unicodedata.normalize("NFKD", name.casefold())
    plain = "".join(sign for sign in letters if not unicodedata.combining(sign))
    return " ".join(plain.replace(".", "").replace("-", " ").split()).removeprefix("the ")
