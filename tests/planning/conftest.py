"""Property tests here have no deadline: the machine may be busy."""

from hypothesis import settings

settings.register_profile("planning", deadline=None)
settings.load_profile("planning")
