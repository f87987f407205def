"""Well-known cities and the IANA time zone each stands for.

Only cities that name one place to most people and whose zone has one current name are listed, so that a request that
says the city has one right answer; and only such as are written about so often that a small model can have met the
name of their zone.
"""

from __future__ import annotations

from types import MappingProxyType

__all__ = ["ZONE_OF_CITY"]

_CITIES = {
    "Africa": "Cairo, Johannesburg, Lagos, Tunis",
    "America": "Bogota, Chicago, Denver, Lima, Los Angeles, New York, Phoenix, Toronto",
    "Asia": "Baghdad, Bangkok, Dhaka, Jakarta, Karachi, Kolkata, Riyadh, Seoul, Shanghai, Singapore, Taipei, Tokyo",
    "Australia": "Brisbane, Melbourne, Sydney",
    "Europe": "Amsterdam, Athens, Berlin, Brussels, Bucharest, Budapest, Copenhagen, Dublin, Helsinki, Lisbon, London, "
    "Madrid, Moscow, Oslo, Paris, Prague, Rome, Stockholm, Vienna, Warsaw",
}

ZONE_OF_CITY = MappingProxyType(
    {city: f"{area}/{city.replace(' ', '_')}" for area, cities in _CITIES.items() for city in cities.split(", ")}
)
"""City in words -> zone name, such as ``"New York" -> "America/New_York"``."""
