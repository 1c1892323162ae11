"""Property tests have no deadline: the machine may be busy, and speed is shown by benchmarks."""

from hypothesis import settings

settings.register_profile("patient", deadline=None)
settings.load_profile("patient")
