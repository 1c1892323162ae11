"""Every operator test runs its body on the CPU and, where there is one, on an NVIDIA GPU."""

import pytest
import torch


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request: pytest.FixtureRequest) -> torch.device:
    if request.param == "cuda" and not torch.cuda.is_available():
        pytest.skip("no NVIDIA GPU")
    return torch.device(request.param)


@pytest.fixture
def generator() -> torch.Generator:
    """Fresh random numbers in every run; the seed is printed when a test fails."""
    generator = torch.Generator()
    print(f"seed {generator.seed()}")
    return generator


@pytest.fixture(params=["reference", "triton"])
def implementation(request: pytest.FixtureRequest) -> str:
    return request.param
