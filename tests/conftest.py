"""What holds for every test: threads, how tests are spread over workers, no deadline for property tests."""

import os
from typing import Any

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    # Before torch and numpy are imported, and for all processes that tests start. Tensors here are tiny: a second
    # thread would only wait for the first; and ranks that a test forks must not find one in the middle of its work.
    os.environ[name] = "1"

import pytest
from hypothesis import settings

settings.register_profile("patient", deadline=None)  # the machine may be busy; speed is shown by benchmarks
settings.load_profile("patient")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    from tests.support.spreading import ByFile

    return ByFile(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Slow tests first, so that no worker has one left when the others are done."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        items.sort(key=lambda item: item.get_closest_marker("slow") is None)
