"""The SM90 MLA decode kernel against float64, on a Hopper GPU and, for a few shapes, on the emulator."""

import pytest
import torch

from sglab.emulator import EmulatedDevice
from sglab.gpu import CudaDevice, Device, GpuError
from sglab.kernels.contract import ContractError
from sglab.kernels.mla import MlaSm90, mla_decode_sm90
from sglab.planning.mla_sm90 import mla_sm90_plan
from tests.support.kernels.decode_batches import SCALE, Batch

MIXED = [5000, 0, 1, 63, 64, 65, 127, 128, 129, 1000, 0, 191, 192, 193, 320, 4096]


@pytest.fixture(scope="module")
def hopper() -> CudaDevice:
    if not torch.cuda.is_available() or torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("no Hopper GPU")
    return CudaDevice(0)


def on_gpu(lengths: list[int], heads: int, page_size: int, dtype: torch.dtype, spread: float = 1.0) -> Batch:
    return Batch(lengths, heads, page_size, dtype, spread, "cuda")


def attend(device: Device, batch: Batch, limit: int | None = None, base: str = "e") -> None:
    """Run with poisoned outputs, partial results included, and compare."""
    heads = batch.q_nope.shape[1]
    plan = mla_sm90_plan(batch.lengths, num_heads=heads, sm_count=device.sms, limit=limit)
    decode = MlaSm90(device, plan, heads)
    decode.partial_out.fill_(torch.nan)
    decode.partial_lse.fill_(torch.nan)
    out = torch.full_like(batch.q_nope, torch.nan)
    lse = torch.full(out.shape[:2], torch.nan, device=out.device)
    arguments = (batch.q_nope, batch.q_pe, batch.kv_cache, batch.page_table)
    decode.run(*arguments, sm_scale=SCALE, out=out, lse=lse, lse_base=base)
    device.synchronize()
    batch.check(out, lse, base)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("page_size", [16, 32, 64, 128])
@pytest.mark.parametrize("limit", [None, 2])
def test_on_the_emulator(page_size: int, dtype: torch.dtype, limit: int | None) -> None:
    attend(EmulatedDevice("sm_90a"), Batch([300, 0, 1, 64, 65, 193], 100, page_size, dtype), limit)


@pytest.mark.gpu
@pytest.mark.parametrize("length", [0, 1, 63, 64, 65, 127, 128, 129, 192, 193, 1000, 5000])
def test_one_request(hopper: CudaDevice, length: int) -> None:
    attend(hopper, on_gpu([length], 128, 64, torch.bfloat16))


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("page_size", [16, 32, 64, 128])
@pytest.mark.parametrize("heads", [1, 16, 64, 100, 128])
def test_mixed_lengths(hopper: CudaDevice, heads: int, page_size: int, dtype: torch.dtype) -> None:
    attend(hopper, on_gpu(MIXED, heads, page_size, dtype))


@pytest.mark.gpu
@pytest.mark.parametrize("splits", [1, 2, 3, 5, 8, 79])
def test_splits(hopper: CudaDevice, splits: int) -> None:
    """A limit on tiles per work cuts the longest request, of 79 tiles, into so many splits."""
    attend(hopper, on_gpu(MIXED, 128, 64, torch.bfloat16), limit=-(-79 // splits))


@pytest.mark.gpu
@pytest.mark.parametrize("batch", [1, 2, 7, 16])
def test_batch_sizes_with_many_works_per_part(hopper: CudaDevice, batch: int) -> None:
    lengths = torch.randint(0, 3000, (batch,)).tolist()
    attend(hopper, on_gpu(lengths, 128, 64, torch.float16), limit=3)


@pytest.mark.gpu
@pytest.mark.parametrize("base", ["2", "e"])
def test_lse_base(hopper: CudaDevice, base: str) -> None:
    attend(hopper, on_gpu([300, 4000], 128, 64, torch.bfloat16), base=base)


@pytest.mark.gpu
@pytest.mark.parametrize("spread", [0.01, 30.0])
def test_flat_and_peaked_scores(hopper: CudaDevice, spread: float) -> None:
    """Peaked scores move a row's reference often, flat ones never."""
    attend(hopper, on_gpu([2000, 777], 128, 64, torch.bfloat16, spread))


@pytest.mark.gpu
def test_scores_that_keep_growing_move_the_reference_each_tile(hopper: CudaDevice) -> None:
    batch = on_gpu([1500], 128, 64, torch.bfloat16)
    pages = batch.page_table[0].long()
    growth = torch.linspace(0, 40, len(pages), device="cuda").view(-1, 1)
    direction = torch.sign(batch.q_pe[0].float().mean(0))
    batch.q_pe[:] = direction.to(batch.q_pe.dtype)
    batch.kv_cache[pages, :, 512:] = (growth * direction).to(batch.kv_cache.dtype).unsqueeze(1)
    batch.kv_cache[pages[-1], 1500 % 64 :] = torch.nan
    attend(hopper, batch)


@pytest.mark.gpu
def test_one_result_every_time(hopper: CudaDevice) -> None:
    """No race: the same inputs give the same bits, run after run."""
    batch = on_gpu(MIXED, 128, 64, torch.bfloat16)
    arguments = (hopper, batch.q_nope, batch.q_pe, batch.kv_cache, batch.lengths, batch.page_table)
    first = mla_decode_sm90(*arguments, sm_scale=SCALE)
    for _ in range(50):
        again = mla_decode_sm90(*arguments, sm_scale=SCALE)
        assert torch.equal(first[0], again[0]) and torch.equal(first[1], again[1])


def test_arguments_are_refused_by_name() -> None:
    class Nowhere:
        torch_device, sms = "cpu", 132

    def refused(**changes: object) -> str:
        tensors = {
            "q_nope": torch.zeros(1, 128, 512, dtype=torch.float16),
            "q_pe": torch.zeros(1, 128, 64, dtype=torch.float16),
            "kv_cache": torch.zeros(4, 64, 576, dtype=torch.float16),
            "page_table": torch.zeros(1, 4, dtype=torch.int32),
        }
        decode = MlaSm90(Nowhere(), mla_sm90_plan([100], num_heads=128, sm_count=132), 128)  # type: ignore[arg-type]
        with pytest.raises((ContractError, GpuError)) as caught:
            decode.run(**{**tensors, "sm_scale": SCALE, **changes})  # type: ignore[arg-type]
        return str(caught.value)

    assert "q_nope" in refused(q_nope=torch.zeros(1, 128, 500, dtype=torch.float16))
    assert "kv_cache" in refused(kv_cache=torch.zeros(4, 8, 576, dtype=torch.float16))
    assert "kv_cache" in refused(kv_cache=torch.zeros(4, 64, 576, dtype=torch.bfloat16))
    q_nope = torch.zeros(1, 128, 512, dtype=torch.float16)
    assert "out must be memory separate from q_nope" in refused(q_nope=q_nope, out=q_nope)
    two = {"q_nope": torch.zeros(2, 128, 512).half(), "q_pe": torch.zeros(2, 128, 64).half()}
    said = refused(**two, page_table=torch.zeros(2, 4, dtype=torch.int32))
    assert "q_nope must be of (batch, heads) (1, 128), as the plan; got (2, 128)" in said
    said = refused(page_table=torch.zeros(1, 1, dtype=torch.int32))
    assert "page_table must be wide enough for 100 tokens, the plan's longest request; got room for 64" in said
    assert "sm_scale" in refused(sm_scale=0.0)
    assert "lse_base" in refused(lse_base="10")
    assert "q_nope" in refused(
        q_nope=torch.zeros(1, 64, 512, dtype=torch.float16), q_pe=torch.zeros(1, 64, 64, dtype=torch.float16)
    )


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("lengths", [[1, 64, 65, 300], [1000, 77], [0, 2000]])
def test_the_emulator_computes_what_a_gpu_computes(
    hopper: CudaDevice, lengths: list[int], dtype: torch.dtype, capsys: pytest.CaptureFixture[str]
) -> None:
    """Under one plan. What may differ: the last bits of ex2.approx and lg2.approx, and the order and width in which a
    tensor core sums. Where such a bit decides how P is rounded to the element type, one weight of a row changes by eps,
    and O by eps times that weight and value, whose product stays below 1/2 here; else an output is the same or its
    neighbour."""
    batch = on_gpu(lengths, 128, 64, dtype)
    plan = mla_sm90_plan(lengths, num_heads=128, sm_count=132)
    tensors = (batch.q_nope, batch.q_pe, batch.kv_cache, batch.page_table)
    out, lse = (x.cpu() for x in MlaSm90(hopper, plan, 128).run(*tensors, sm_scale=SCALE))
    emulator = MlaSm90(EmulatedDevice("sm_90a"), plan, 128)
    ours, our_lse = emulator.run(*(tensor.cpu() for tensor in tensors), sm_scale=SCALE)
    equal = (out == ours).double().mean()
    worst = float((out.double() - ours.double()).abs().max())
    with capsys.disabled():
        print(f"\n{dtype} {lengths}: {equal:.4%} of outputs equal, largest difference {worst:.1e}", end="")
    torch.testing.assert_close(
        ours.double(), out.double(), rtol=2 * torch.finfo(dtype).eps, atol=torch.finfo(dtype).eps / 2
    )
    torch.testing.assert_close(our_lse, lse, rtol=1e-5, atol=1e-5)
    assert equal > 0.9
