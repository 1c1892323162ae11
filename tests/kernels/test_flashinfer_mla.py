"""FlashInfer's packaged CUTLASS MLA kernel for SM100, built from the installed wheel, on the emulator, on CPU tensors.

The first run compiles it with nvcc: about 50 s and 4 GB per dtype, then kept.
"""

import pytest
import torch

from sglab.compilers.nvcc import find_nvcc
from sglab.emulator import capture
from sglab.gpu.errors import MissingDependencyError
from sglab.kernels import cutlass_mla_decode, last_choice
from sglab.kernels.cutlass_mla import flashinfer
from tests.support.kernels.compare import ROUNDING, assert_close
from tests.support.kernels.cutlass_mla import attention, call


def missing() -> str | None:
    if flashinfer.headers() is None:
        return "FlashInfer is not installed"
    try:
        find_nvcc()
    except MissingDependencyError as error:
        return str(error)
    return None


pytestmark = [pytest.mark.slow, pytest.mark.skipif(missing() is not None, reason=str(missing()))]


def decode(lens: list[int], heads: int, page_size: int, splits: int, dtype: torch.dtype) -> None:
    arguments = call(lens, heads, page_size, splits, torch.device("cpu"), torch.Generator().manual_seed(7), dtype)
    lse = torch.full((len(lens), heads), torch.nan)
    out = cutlass_mla_decode(**arguments, lse=lse, implementation="flashinfer")
    expected, expected_lse = attention(arguments)
    assert_close(out, expected, ROUNDING[dtype])
    torch.testing.assert_close(lse.double(), expected_lse, rtol=0, atol=1e-4)
    choice = last_choice()
    assert choice is not None
    assert {launch.route for launch in choice.launches} == {"emulator"}
    names = [launch.kernel for launch in choice.launches]
    assert names == ["Sm100FmhaMlaKernelTmaWarpspecialized", "Sm100FmhaMlaReductionKernel"][: len(names)]
    assert all(launch.report.warp_instructions > 0 for launch in choice.launches)


@pytest.mark.parametrize("page_size", [16, 32, 64, 128])
@pytest.mark.parametrize("splits", [1, 2, -1])
def test_pages_and_splits(page_size: int, splits: int) -> None:
    decode([1, 300, 128], 128, page_size, splits, torch.float16)


@pytest.mark.parametrize("heads", [1, 16, 127])
def test_fewer_heads_are_padded(heads: int) -> None:
    decode([33, 129], heads, 64, 1, torch.float16)


@pytest.mark.parametrize("splits", [1, 2])
def test_a_request_without_keys_gives_zero(splits: int) -> None:
    arguments = call([0, 5], 128, 64, splits, torch.device("cpu"), torch.Generator().manual_seed(7))
    lse = torch.full((2, 128), torch.nan)
    out = cutlass_mla_decode(**arguments, lse=lse, implementation="flashinfer")
    assert not out[0].any()
    assert (lse[0] == -torch.inf).all()
    assert out[1].isfinite().all()


def test_its_launches_are_captured_run_again_and_stepped() -> None:
    """The host code that FlashInfer's wheel brings launches them, and frees what it has allocated before it returns."""
    arguments = call([300, 77], 128, 64, 2, torch.device("cpu"), torch.Generator().manual_seed(7))
    lse = torch.full((2, 128), torch.nan)
    launches = capture(lambda: cutlass_mla_decode(**arguments, lse=lse, implementation="flashinfer"))
    assert len(launches) == 2
    out, final = launches.result, launches.result.clone()
    out.fill_(torch.nan)
    for launch in launches:
        assert launch.run().warp_instructions == launch.report.warp_instructions
    assert torch.equal(out, final)
    session = launches[0].session()
    session.run_to(opcode="tcgen05.mma")
    assert session.next is not None and session.roles.of(session.next.cta, session.next.warp).name == "mma"
    session.run()
    assert len(session.log) == session.now == launches[0].report.warp_instructions


def test_a_long_request() -> None:
    decode([1000], 128, 128, 4, torch.float16)


def test_bfloat16() -> None:
    decode([77, 300], 128, 64, 2, torch.bfloat16)
