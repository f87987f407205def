"""The words of the demo mail: people, companies, things, and the small talk."""

from __future__ import annotations

from calendar import month_name

HOUSE = "fernwell"
STAFF = (
    "Nora Lindqvist",
    "Oskar Wendt",
    "Paula Ferreira",
    "Quentin Moreau",
    "Rosa Almeida",
    "Stefan Kolar",
    "Tilda Ekman",
    "Umberto Conti",
    "Vera Hoffmann",
    "Wim Jansen",
)
SUPPLIERS = (
    "Larch Optics",
    "Brandt Glass",
    "Corvo Metals",
    "Delmar Print",
    "Eastgate Tools",
    "Grimaldi Cables",
    "Hollis Plastics",
    "Isar Pumps",
    "Juno Coatings",
    "Kestrel Paper",
    "Lumen Lamps",
    "Marlow Springs",
)
CLIENTS = (
    "Norden Clinic",
    "Vale University",
    "Tarn Hospital",
    "Sorrel Institute",
    "Quay Brewery",
    "Pinewood Dairy",
    "Ostrava Steelworks",
    "Midland Waterworks",
    "Arden Vineyards",
    "Fjord Fisheries",
)
MONTHS = tuple(month_name)[1:]
PROJECTS = (
    "Heron",
    "Otter",
    "Badger",
    "Falcon",
    "Marten",
    "Lynx",
    "Puffin",
    "Beaver",
    "Stork",
    "Walrus",
    "Gecko",
    "Ibex",
)
PARTS = ("pump", "sensor", "housing", "battery", "display", "motor", "valve", "lens")
THINGS = (
    "lab benches",
    "glass lids",
    "steel frames",
    "rubber seals",
    "sample trays",
    "power cords",
    "filter plates",
    "brass screws",
    "label rolls",
    "test tubes",
    "drawer units",
    "copper coils",
    "foam inserts",
    "wall brackets",
    "carry cases",
    "heat shields",
)
DOCUMENTS = (
    "test report",
    "safety sheet",
    "user manual",
    "wiring plan",
    "inspection plan",
    "training outline",
    "cleaning guide",
    "spare list",
)
TOPICS = ("repairs", "customs papers", "returns", "brochures", "complaints", "deliveries")
CITIES = ("Lisbon", "Turin", "Gdansk", "Bergen", "Lyon", "Graz", "Leeds", "Porto", "Ghent", "Malmo")
FIRST = "Aldo Birgit Cosmo Dagny Emil Fenna Gregor Helle Ignaz Jorun Kasimir Liv Magnus Nadia Orla Pavel Runa Silas Thea Urs"
LAST = "Abrams Bohm Castellan Dorn Eklund Fabri Gallo Hartog Ivers Jurgens Kranz Lomax Mertens Nyberg Olander Pryce Rask Sandoz Thiel Voss"
MAKES = ("Altos", "Brava", "Cirro", "Doria", "Ember", "Fiume", "Gamma", "Helix", "Istra", "Jade", "Kilda", "Lyra")
HOTELS = ("Anchor", "Bridge", "Cedar", "Dolphin", "Ermine", "Fountain", "Garland", "Harbour", "Ivory", "Juniper")
HOUSES = ("Hotel", "Inn", "House", "Court", "Lodge", "Palace", "Rooms", "Gardens", "Terrace", "Yard")

GREETINGS = ("Hello {to},", "Dear {to},", "Hi {to},", "{to},")
CLOSINGS = ("Best, {sender}", "Regards, {sender}", "Many thanks, {sender}", "{sender}")
ASIDES = (
    "I am at my desk until five.",
    "The printer is broken again.",
    "Sorry for the late reply.",
    "It is raining here without end.",
    "More when we speak.",
)
"""What some messages say besides."""

CHATTER = (
    ("Lunch", "who comes along to the {food} place at noon?"),
    ("Lunch on Friday?", "the canteen has {food} on Friday. Shall we go together?"),
    ("Cake in the kitchen", "it is my birthday, and there is {food} in the kitchen of the second floor."),
    ("Away", "I am away for a few days. {other} answers for me."),
    ("Keys", "somebody left keys in the meeting room. {other} has them."),
    ("{project}", "the {project} team did well this week. Thank you all, and {other} above all."),
    ("{project} photos", "the photos of the {project} booth are on the shared drive."),
    ("Noise in the {project} lab", "please close the door of the {project} lab. {other} cannot hear a word."),
    ("Printer", "the printer on the first floor eats paper. Use the one next to {other}."),
    ("Bicycles", "please do not lock bicycles to the railing. The landlord has complained again."),
    ("{city} office", "greetings from {city}. The weather is fine, the coffee is not."),
    ("Do you know anyone in {city}?", "a friend of mine moves to {city} and looks for a flat."),
    ("Fire drill", "there will be a fire drill. Nobody has to do anything but walk out."),
    ("Books", "I am clearing my shelf. Take what you like, {other} has had a look already."),
    ("Football", "we lack two players for the evening. {other} is in goal."),
    ("Lost: umbrella", "a green umbrella is missing since {month}. It has sentimental value."),
    ("Survey", "please fill in the survey on the canteen. {food} every week is an option."),
    ("Passwords", "the password rules change in {month}. You will be asked for a longer one."),
    ("Thanks", "thank you for your help with {project}. I owe you a portion of {food}."),
    ("{thing}", "there are some {thing} left over in the cellar. Does anybody want them?"),
)
"""Subject and text of what staff writes to staff."""

LETTERS = (
    ("News from {supplier}", "{supplier} shows its {thing} at the fair in {city}. Come and see us."),
    ("{thing} at {supplier}", "in {month} all {thing} at {supplier} are a tenth cheaper. Ask us for an offer."),
    ("{supplier} is closed", "{supplier} is closed for stocktaking at the end of {month}."),
)
"""Subject and text of what suppliers write to everybody."""

FOODS = ("noodle", "dumpling", "pancake", "lentil soup", "plum cake", "curry", "pizza", "cheese pie")
