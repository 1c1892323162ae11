"""Launches that are kept: the same arguments get the same launch, others never do, and nothing is kept alive."""

import gc
import weakref
from dataclasses import replace

import pytest
import torch

from sglab import gpu
from sglab.emulator import EmulatedDevice
from sglab.kernels import ContractError
from sglab.kernels.launch_cache import MOST, described, kept
from sglab.kernels.mla import MlaSm90, MlaSm100
from sglab.kernels.mla.sm100_contract import check
from sglab.kernels.mla.work_units import planned
from sglab.planning.mla_sm90 import mla_sm90_plan
from tests.support.kernels.decode_batches import SCALE, Batch

KERNEL = gpu.load(".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry empty(.param .u64 p) { ret; }\n")[
    "empty"
]


def launch_on(device: EmulatedDevice, tensor: torch.Tensor, made: list[torch.Tensor]) -> gpu.Launch:
    def make() -> list[gpu.Launch]:
        made.append(tensor)
        return [KERNEL.prepare(device, grid=1, block=32, args=[tensor])]

    return kept(device, described(tensor), make, (tensor,))[0]


def test_the_same_arguments_are_packed_once() -> None:
    device, tensor, made = EmulatedDevice("sm_90a"), torch.zeros(8, 4), []
    first, second = launch_on(device, tensor, made), launch_on(device, tensor, made)
    assert len(made) == 1 and first == second


@pytest.mark.parametrize(
    "other",
    [
        lambda t: t.clone(),
        lambda t: t[:4],
        lambda t: t.view(4, 8),
        lambda t: t.view(torch.int32),
        lambda t: t.as_strided((8, 4), (1, 8)).contiguous(),
    ],
)
def test_other_arguments_are_packed_again(other) -> None:
    device, tensor, made = EmulatedDevice("sm_90a"), torch.zeros(8, 4), []
    launch_on(device, tensor, made)
    launch_on(device, other(tensor), made)
    assert len(made) == 2


def test_another_device_is_another_launch() -> None:
    tensor, made = torch.zeros(8, 4), []
    for _ in range(2):
        launch_on(EmulatedDevice("sm_90a"), tensor, made)
    assert len(made) == 2


def test_what_is_no_tensor_is_not_taken_for_none() -> None:
    assert described(None) != described(5) and described(5) != described("5")  # type: ignore[arg-type]


def test_no_tensor_stays_alive_and_an_emulated_launch_holds_its_own() -> None:
    device, tensor = EmulatedDevice("sm_90a"), torch.zeros(8, 4)
    gone = weakref.ref(tensor)
    launch = launch_on(device, tensor, [])
    del tensor
    gc.collect()
    assert gone() is not None, "the launch can still be stepped"
    del launch
    gc.collect()
    assert gone() is None


def test_memory_is_bounded() -> None:
    device, made = EmulatedDevice("sm_90a"), []
    pool = torch.zeros(MOST + 2, 4)
    for row in pool:
        launch_on(device, row, made)
    launch_on(device, pool[-1], made)
    assert len(made) == MOST + 2, "the last one is remembered still"
    launch_on(device, pool[0], made)
    assert len(made) == MOST + 3, "the first one is not"


@pytest.mark.parametrize("base", ["e", "2"])
def test_a_kept_launch_reads_what_the_tensors_hold_now(base: str) -> None:
    """Three steps in the same buffers, on both kernels."""
    buffers = Batch([200, 70], heads=16).arguments
    q_nope, q_pe, kv_cache, seq_lens, page_table = buffers
    given = {"out": torch.empty_like(q_nope), "lse": torch.empty(q_nope.shape[:2])}
    plan = mla_sm90_plan([200, 70], num_heads=16, sm_count=132)
    hopper = MlaSm90(EmulatedDevice("sm_90a"), plan, 16)
    blackwell = MlaSm100(EmulatedDevice("sm_100a"), 2, 16, 2)
    options = {"sm_scale": SCALE, "lse_base": base, **given}
    for _ in range(3):
        step = Batch([200, 70], heads=16)
        for buffer, values in zip(buffers, step.arguments, strict=True):
            buffer.copy_(values)
        hopper.run(q_nope, q_pe, kv_cache, page_table, **options)
        step.check(*given.values(), base)
        given["out"].fill_(torch.nan)
        blackwell.run(q_nope, q_pe, kv_cache, seq_lens, page_table, check_values=False, **options)
        step.check(*given.values(), base)


def test_contents_are_checked_every_time_where_they_are_checked_at_all() -> None:
    batch = Batch([200], heads=16)
    q_nope, q_pe, kv_cache, seq_lens, page_table = batch.arguments
    decode = MlaSm100(EmulatedDevice("sm_100a"), 1, 16)
    decode.run(q_nope, q_pe, kv_cache, seq_lens, page_table, sm_scale=SCALE)
    page_table[0, 0] = 10**6
    with pytest.raises(ContractError, match="page_table"):
        decode.run(q_nope, q_pe, kv_cache, seq_lens, page_table, sm_scale=SCALE)


def test_a_recognised_call_is_still_held_to_its_plan() -> None:
    """The next step's plan is where the last one's was, and so is all that it is run with."""
    q_nope, q_pe, kv_cache, _, page_table = Batch([100], heads=16).arguments
    device, works = EmulatedDevice("sm_90a"), planned(mla_sm90_plan([100], num_heads=16, sm_count=132), "cpu")
    given = {"out": torch.empty_like(q_nope), "lse": torch.empty(q_nope.shape[:2])}

    def run(**other: int) -> None:
        decode = MlaSm90(device, replace(works, **other), 16)
        decode.run(q_nope, q_pe, kv_cache, page_table, sm_scale=SCALE, **given)

    run()
    room = page_table.shape[1] * kv_cache.shape[1]
    run(longest=room)
    with pytest.raises(ContractError, match=f"page_table must be wide enough for {room + 1} tokens"):
        run(longest=room + 1)
    with pytest.raises(ContractError, match=r"q_nope must be of \(batch, heads\) \(2, 16\), as the plan"):
        run(batch=2)


def prepared(decode: MlaSm100, batch: Batch, out: torch.Tensor, lse: torch.Tensor) -> list[gpu.Launch]:
    lens, splits, *inputs = batch.arguments[3], None, *batch.arguments[:3], batch.arguments[4]
    return decode.prepare(check(lens, splits, 1, True, *inputs, SCALE, out, lse, "e"))


def test_what_was_prepared_before_holds_its_own_tensors_and_notices_when_one_moves() -> None:
    device, batch = EmulatedDevice(), Batch([40])
    out, lse = torch.empty_like(batch.q_nope), torch.empty(batch.q_nope.shape[:2])
    decode = MlaSm100(device, *batch.q_nope.shape[:2])
    (first,), (second,) = prepared(decode, batch, out, lse), prepared(decode, batch, out, lse)
    view = out.view(out.shape)  # another tensor of the same memory
    (third,) = prepared(decode, batch, view, lse)
    assert first == second == third
    assert [held.name for held in second.tensors] == [held.name for held in first.tensors]
    assert any(held.tensor is view for held in third.tensors) and not any(held.tensor is out for held in third.tensors)
    assert second.allocations == first.allocations
    device.run(third)
    batch.check(out, lse)
    kept_alive = weakref.ref(view)
    del view, third
    gc.collect()
    assert kept_alive() is None
    lse.resize_(1 << 20)
    for launch in (first, second):
        with pytest.raises(gpu.LaunchError, match="Prepare the launch again"):
            device.run(launch)


def test_other_outputs_are_packed_anew() -> None:
    device, batch = EmulatedDevice(), Batch([40])
    lse = torch.empty(batch.q_nope.shape[:2])
    decode = MlaSm100(device, *batch.q_nope.shape[:2])
    outs = torch.empty_like(batch.q_nope), torch.empty_like(batch.q_nope)
    (one,), (other,) = (prepared(decode, batch, out, lse) for out in outs)
    assert one.params != other.params
