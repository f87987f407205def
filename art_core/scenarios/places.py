"""Well-known cities with the IANA time zone each stands for, and the names of further zones.

Only cities that name one place to most people and whose zone has one current name are listed, so that a request that
says the city has one right answer; and only such as are written about so often that a small model can have met the
name of their zone. The further zones are asked for by their names; those renamed in the last ten years are left out.
"""

from __future__ import annotations

from types import MappingProxyType

__all__ = ["ZONES", "ZONE_OF_CITY"]

_CITIES = {
    "Africa": "Cairo, Johannesburg, Lagos, Tunis",
    "America": "Bogota, Chicago, Denver, Lima, Los Angeles, New York, Phoenix, Toronto",
    "Asia": "Baghdad, Bangkok, Dhaka, Jakarta, Karachi, Kolkata, Riyadh, Seoul, Shanghai, Singapore, Taipei, Tokyo",
    "Australia": "Brisbane, Melbourne, Sydney",
    "Europe": "Amsterdam, Athens, Berlin, Brussels, Bucharest, Budapest, Copenhagen, Dublin, Helsinki, Lisbon, London, "
    "Madrid, Moscow, Oslo, Paris, Prague, Rome, Stockholm, Vienna, Warsaw",
}

_FURTHER_ZONES = {
    "Africa": "Abidjan Algiers Bissau Casablanca Ceuta El_Aaiun Juba Khartoum Maputo Monrovia Nairobi Ndjamena Sao_Tome "
    "Tripoli Windhoek",
    "America": "Adak Anchorage Araguaina Asuncion Bahia Bahia_Banderas Barbados Belem Belize Boa_Vista Boise Cambridge_Bay "
    "Campo_Grande Cancun Caracas Cayenne Chihuahua Costa_Rica Cuiaba Dawson Dawson_Creek Detroit Edmonton "
    "Eirunepe El_Salvador Fort_Nelson Fortaleza Glace_Bay Goose_Bay Grand_Turk Guatemala Guayaquil Guyana "
    "Halifax Havana Hermosillo Inuvik Iqaluit Jamaica Juneau La_Paz Maceio Managua Manaus Martinique Matamoros "
    "Mazatlan Menominee Merida Metlakatla Mexico_City Miquelon Moncton Monterrey Montevideo Nome Noronha "
    "Ojinaga Panama Paramaribo Porto_Velho Puerto_Rico Rankin_Inlet Recife Regina Resolute Rio_Branco Santarem "
    "Santiago Santo_Domingo Sao_Paulo Scoresbysund Sitka St_Johns Swift_Current Tegucigalpa Thule Tijuana "
    "Vancouver Whitehorse Winnipeg Yakutat",
    "Asia": "Almaty Amman Anadyr Aqtau Aqtobe Ashgabat Atyrau Baku Barnaul Beirut Bishkek Chita Colombo Damascus Dili "
    "Dubai Dushanbe Gaza Hebron Ho_Chi_Minh Hong_Kong Hovd Irkutsk Jayapura Jerusalem Kabul Kamchatka Kathmandu "
    "Khandyga Krasnoyarsk Kuching Macau Magadan Makassar Manila Nicosia Novokuznetsk Novosibirsk Omsk Oral "
    "Pontianak Pyongyang Qatar Sakhalin Samarkand Srednekolymsk Tashkent Tbilisi Tehran Thimphu Tomsk "
    "Ulaanbaatar Urumqi Vladivostok Yakutsk Yekaterinburg Yerevan",
    "Australia": "Adelaide Broken_Hill Darwin Eucla Hobart Lindeman Lord_Howe Perth",
    "Europe": "Andorra Astrakhan Belgrade Chisinau Gibraltar Istanbul Kaliningrad Kirov Malta Minsk Riga Samara Saratov "
    "Simferopol Sofia Tallinn Ulyanovsk Vilnius Volgograd Zurich",
    "Pacific": "Apia Auckland Bougainville Chatham Easter Efate Fakaofo Fiji Galapagos Gambier Guadalcanal Guam Honolulu "
    "Kiritimati Kosrae Kwajalein Marquesas Nauru Niue Norfolk Noumea Pago_Pago Palau Pitcairn Port_Moresby "
    "Rarotonga Tahiti Tarawa Tongatapu",
}

ZONE_OF_CITY = MappingProxyType(
    {city: f"{area}/{city.replace(' ', '_')}" for area, cities in _CITIES.items() for city in cities.split(", ")}
)
"""City in words -> zone name, such as ``"New York" -> "America/New_York"``."""

ZONES = tuple(
    sorted(
        [
            *ZONE_OF_CITY.values(),
            *(f"{area}/{name}" for area, names in _FURTHER_ZONES.items() for name in names.split()),
        ]
    )
)
"""Names of zones, those of the cities included."""
