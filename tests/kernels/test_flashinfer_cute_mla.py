"""FlashInfer's CuTe DSL kernel of MLA decode for SM100, from the installed wheels, on the emulator. It needs no nvcc."""

import importlib.util

import pytest
import torch

from sglab.kernels import cutlass_mla_decode, last_choice
from tests.support.kernels.compare import ROUNDING, assert_close
from tests.support.kernels.cutlass_mla import attention, call

MISSING = [package for package in ("flashinfer", "cutlass") if importlib.util.find_spec(package) is None]
needs_packages = pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}")
KERNELS = ("split_kv_kernel", "reduction_kernel")


def decode(lens: list[int], heads: int, page_size: int, splits: int, dtype: torch.dtype = torch.bfloat16) -> None:
    arguments = call(lens, heads, page_size, splits, torch.device("cpu"), torch.Generator().manual_seed(7), dtype)
    lse = torch.full((len(lens), heads), torch.nan)
    out = cutlass_mla_decode(**arguments, lse=lse, implementation="flashinfer_cute")
    expected, expected_lse = attention(arguments)
    assert_close(out, expected, ROUNDING[dtype])
    torch.testing.assert_close(lse.double(), expected_lse, rtol=0, atol=1e-3)
    choice = last_choice()
    assert choice is not None
    launches = choice.launches
    assert [each for launch, each in zip(launches, KERNELS, strict=False) if each in launch.kernel] == [
        *KERNELS[: len(launches)]
    ]
    assert len(launches) == 1 + (splits > 1)
    assert all(launch.route == "emulator" and launch.report.warp_instructions > 0 for launch in launches)


@needs_packages
@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("page_size", [32, 128])
def test_pages(page_size: int, dtype: torch.dtype) -> None:
    decode([1, 300, 128], 128, page_size, 1, dtype)


@needs_packages
@pytest.mark.slow
@pytest.mark.parametrize("heads", [16, 128])
def test_splits(heads: int) -> None:
    decode([300, 257], heads, 64, 2)


@needs_packages
@pytest.mark.slow
def test_a_request_without_keys_gives_zero() -> None:
    arguments = call([0, 5], 128, 64, 1, torch.device("cpu"), torch.Generator().manual_seed(7))
    lse = torch.full((2, 128), torch.nan)
    out = cutlass_mla_decode(**arguments, lse=lse, implementation="flashinfer_cute")
    assert not out[0].any() and (lse[0] == -torch.inf).all() and lse[1].isfinite().all()


def test_what_it_does_not_take_is_refused() -> None:
    arguments = call([5], 128, 1, 1, torch.device("cpu"), torch.Generator().manual_seed(7))
    with pytest.raises(ValueError, match="cannot run this call: it takes pages of 2, 4, 8, 16, 32, 64, 128 tokens"):
        cutlass_mla_decode(**arguments, implementation="flashinfer_cute")


@pytest.mark.skipif(not MISSING, reason="both packages are installed")
def test_a_missing_package_is_named() -> None:
    arguments = call([5], 128, 64, 1, torch.device("cpu"), torch.Generator().manual_seed(7))
    with pytest.raises(ValueError, match=f"it needs {MISSING[0]}, which is not installed"):
        cutlass_mla_decode(**arguments, implementation="flashinfer_cute")
