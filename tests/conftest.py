"""What holds for every test: threads, how tests are spread over workers, no deadline for property tests."""

import os

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    # Before torch and numpy are imported, and for all processes that tests start. Tensors here are tiny: a second
    # thread would only wait for the first; and ranks that a test forks must not find one in the middle of its work.
    os.environ[name] = "1"

import pytest
from hypothesis import settings

settings.register_profile("patient", deadline=None)  # the machine may be busy; speed is shown by benchmarks
settings.load_profile("patient")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Where workers share the tests, those of a file stay together: what it records or compiles once is made once.

    Slow tests go alone and first, so that no worker has one left when the others are done.
    """
    if "PYTEST_XDIST_WORKER" not in os.environ:
        return
    for item in items:
        if not (item.get_closest_marker("slow") or item.get_closest_marker("xdist_group")):
            item.add_marker(pytest.mark.xdist_group(item.path.stem))
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)
