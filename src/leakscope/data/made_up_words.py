"""Words and sentences of the made-up letters. Nobody in them exists."""

from __future__ import annotations


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


FIRST_NAMES = _words("""
    Adela Alban Amira Anselm Basil Berit Calla Casper Dagny Darius Edda Elio Esme Fabian Freya Gideon
    Greta Halvor Hedda Ilse Ivo Jarek Jolanda Kalle Kirsa Leander Linnea Magnus Marisol Nadia Nevin Odette
    Orson Pascal Petra Quentin Ramona Rurik Saskia Soren Tamsin Tycho Ulrika Valentin Verena Wendel Xenia
    Yorick Ysolde Zelda
""")
LAST_NAMES = _words("""
    Abend Alder Birk Bramble Castor Dorn Eastwick Elm Farrow Fenn Garland Gorse Hale Harrow Ingram Jessop
    Kestrel Lark Linden Marlow Moss Nettle Oakes Orchard Pell Plover Quill Rook Rowan Sedge Sorrel Tansy
    Teal Thorne Umber Vale Vetch Wick Wren Yarrow
""")
PLACES = _words("""
    Almfeld Brackwater Coldharbor Dunmere Eastlea Fernhill Graywick Hollowbrook Ironbridge Juniper
    Kingsmoor Lowford Marshend Northgate Oldcastle Pinecrest Quarryton Ravenmoor Saltmarsh Thistledown
    Underhill Vinegate Westerby Yewdale
""")
DAYS = _words("""
    Monday Tuesday Wednesday Thursday Friday Saturday Sunday
""")
MONTHS = _words("""
    January February March April May June July August September October November December
""")
THINGS = _words("""
    bicycle piano garden boat camera violin greenhouse tractor bookshelf telescope kettle anvil lantern
    accordion birdhouse canoe clock easel fiddle hammock kiln loom mandolin orchard plow quilt raft
    sundial tent wagon
""")
TASTES = _words("""
    cherries walnuts bread honey plums cheese mushrooms pepper lentils apricots barley cabbage dates eggs
    figs garlic leeks mustard oats pears radishes rye spinach turnips
""")
COMPLAINTS = (
    "headaches", "dizziness", "fever", "insomnia", "fatigue", "hiccups", "a rash", "a cough", "back pain",
    "knee pain", "cramps", "nausea", "earache", "a sore throat",
)  # fmt: skip
REMEDIES = _words("""
    rest ointment tea massage exercise syrup tablets drops bandages swimming walking inhaling
""")
MOODS = _words("""
    glad worried tired proud curious anxious cheerful hopeful angry relieved lonely grateful
""")
WORK = _words("""
    teacher baker nurse carpenter lawyer gardener pilot librarian farmer tailor painter printer sailor
    shepherd surveyor weaver
""")

PUBLIC = (
    "The market in {place} opens on {day} and sells {taste} and {taste}.",
    "A {work} from {place} repaired the old {thing} near the town hall.",
    "Trains from {place} to {place} leave at {hour} on {day}.",
    "In {month} the river near {place} was higher than in {month}.",
    "The museum of {place} shows a {thing} that a {work} built.",
    "A {work} and a {work} opened a shop for {taste} in {place}.",
    "The council of {place} voted on {day} about the {thing} by the bridge.",
    "Visitors to {place} in {month} should try the {taste} with {taste}.",
    "A storm in {month} damaged {count} roofs between {place} and {place}.",
    "The {work} of the year comes from {place} and is {mood}.",
    "Every {day} the library in {place} closes at {hour}.",
    "The price of {taste} rose in {month} and fell in {month}.",
    "The code of {first} {last} is {code}.",
)
PRIVATE = (
    "{first} {last} came to see me on {day} because of {complaint}.",
    "She has had {complaint} since {month} and feels {mood}.",
    "He sleeps badly and has suffered from {complaint} for {count} weeks.",
    "I prescribed {remedy} and {remedy} twice a day.",
    "The patient works as a {work} in {place} and lives alone.",
    "His sister {first} visits him every {day}.",
    "Her neighbor {first} {last} takes care of the {thing}.",
    "After {remedy} the {complaint} got better, but the patient is still {mood}.",
    "There is an allergy to {taste} and to {taste}.",
    "We meet again in {month}, on a {day} at {hour}.",
    "Please call {first} {last} in {place} before {day}.",
    "The bill of {count} crowns was paid in {month}.",
    "As a child the patient lived in {place} with an aunt who was a {work}.",
    "Blood was drawn at {hour} and the result comes on {day}.",
    "The patient would like to sell a {thing} to pay for {remedy}.",
    "We talked about {taste}, which the patient eats every {day}.",
)
OPENING = "Dear {last},"
CLOSING = "Yours, {first} {last}"
