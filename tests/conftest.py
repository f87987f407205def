"""Settings of the whole suite."""

from hypothesis import settings

settings.register_profile("house", deadline=None)  # correctness tests assert no wall-clock times
settings.load_profile("house")
