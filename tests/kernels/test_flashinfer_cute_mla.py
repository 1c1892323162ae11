"""FlashInfer's CuTe DSL kernel of MLA decode for SM100, from the installed wheels, on the emulator, without nvcc."""

import importlib.util

import pytest
import torch

import sglab
from sglab.engine import BadArgumentError
from sglab.kernels import cutlass_mla_decode, last_choice
from sglab.workbench import decode_batch, max_error, reference
from sglab.workbench.recorders.page_reads import PageReads
from tests.support.attention import quantize_pool
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


@needs_packages
@pytest.mark.slow
@pytest.mark.parametrize("backend", ["cutedsl_mla", "trtllm_mla"])
def test_the_backends_that_call_it_in_sglang_run_it_here(backend: str) -> None:
    batch = decode_batch([130, 5, 300], num_heads=16, page_size=64, dtype=torch.bfloat16)
    out = sglab.attend(batch, backend, implementation="flashinfer")
    assert max_error(out, reference(batch).o) <= 8e-3
    assert out.info.runs[-1].implementation == "flashinfer_cute"


@needs_packages
@pytest.mark.slow
def test_its_page_reads_are_those_of_the_page_table() -> None:
    batch = decode_batch([130, 5], num_heads=16, page_size=64, dtype=torch.bfloat16, layout="fragmented")
    traced = sglab.trace(batch, "cutedsl_mla", implementation="flashinfer")
    log = traced.record()
    reads = PageReads.of(log, batch)
    for request in range(2):
        own = reads.request == request
        assert set(reads.page[own].tolist()) == set(batch.pages(request))


@pytest.mark.parametrize("backend", ["cutedsl_mla", "trtllm_mla"])
def test_an_8_bit_cache_is_not_for_it(backend: str) -> None:
    batch = decode_batch([130, 5], num_heads=16, page_size=64, dtype="bfloat16")
    quantize_pool(batch, torch.float8_e4m3fn, None, None)
    with pytest.raises(BadArgumentError, match="implementation: expected for one query token and a 16-bit cache"):
        sglab.attend(batch, backend, implementation="flashinfer")
