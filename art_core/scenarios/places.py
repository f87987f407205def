"""Well-known cities and the IANA time zone each stands for.

Only cities that name one place to most people and whose zone has one current name are listed, so that a request that
says the city has one right answer.
"""

from __future__ import annotations

from types import MappingProxyType

__all__ = ["ZONE_OF_CITY"]

_CITIES = {
    "Africa": "Algiers, Cairo, Casablanca, Johannesburg, Lagos, Nairobi, Tunis",
    "America": "Bogota, Caracas, Chicago, Denver, Detroit, Havana, Lima, Los Angeles, Mexico City, Montevideo, "
    "New York, Phoenix, Toronto, Vancouver",
    "Asia": "Baghdad, Bangkok, Dhaka, Dubai, Hong Kong, Jakarta, Karachi, Kolkata, Manila, Riyadh, Seoul, Shanghai, "
    "Singapore, Taipei, Tehran, Tokyo",
    "Australia": "Adelaide, Brisbane, Melbourne, Perth, Sydney",
    "Europe": "Amsterdam, Athens, Berlin, Brussels, Bucharest, Budapest, Copenhagen, Dublin, Helsinki, Lisbon, London, "
    "Madrid, Moscow, Oslo, Paris, Prague, Rome, Stockholm, Vienna, Warsaw, Zurich",
    "Pacific": "Auckland, Honolulu",
}

ZONE_OF_CITY = MappingProxyType(
    {city: f"{area}/{city.replace(' ', '_')}" for area, cities in _CITIES.items() for city in cities.split(", ")}
)
"""City in words -> zone name, such as ``"New York" -> "America/New_York"``."""
