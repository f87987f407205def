"""Names of people, birds, places and months, and where a server of Node.js is."""

from __future__ import annotations

from pathlib import Path

__all__ = ["BIRDS", "CITIES", "FIRST", "LAST", "MONTHS", "node_server"]

FIRST = ["Ada", "Bruno", "Carla", "Deniz", "Elif", "Farid", "Greta", "Hugo", "Ines", "Jonas", "Kira", "Leo"]
LAST = ["Berg", "Costa", "Dahl", "Egger", "Fonda", "Grau", "Holm", "Iversen", "Jansen", "Krol", "Lind", "Moreau"]
BIRDS = [
    "Heron",
    "Kestrel",
    "Plover",
    "Wren",
    "Magpie",
    "Osprey",
    "Lapwing",
    "Curlew",
    "Dunlin",
    "Finch",
    "Grebe",
    "Hobby",
]
BIRDS += [
    "Jackdaw",
    "Linnet",
    "Merlin",
    "Oriole",
    "Puffin",
    "Quail",
    "Redstart",
    "Siskin",
    "Tern",
    "Veery",
    "Whimbrel",
    "Nuthatch",
]
CITIES = ["Oslo", "Porto", "Graz", "Lyon", "Turin", "Ghent", "Bergen", "Malaga", "Krakow", "Galway", "Zadar", "Tartu"]
MONTHS = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
]


def node_server(home: Path, name: str) -> Path:
    return home / "node" / "node_modules" / ".bin" / f"mcp-server-{name}"
