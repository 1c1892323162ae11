"""NaN through matrix products that Triton compiles: mma.sync, wgmma and tcgen05, through registers that only move."""

from __future__ import annotations

import pytest
import torch

from sglab import gpu
from sglab.emulator.nans import NanTrace, find_nans
from sglab.emulator.session import Session

pytest.importorskip("triton")

import sglab
from tests.support.launches.triton_products import SIZE, product

ARCHS = ("sm_80", "sm_90a", "sm_100a")
PRODUCTS = {"sm_80": "mma.sync", "sm_90a": "wgmma", "sm_100a": "tcgen05.mma"}


def opened(arch: str, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, *copy: torch.Tensor) -> Session:
    source, target = copy or (c, c)
    sizes = {"M": SIZE, "N": SIZE, "K": SIZE, "BM": SIZE, "BN": SIZE, "BK": SIZE // 2}
    tensors = (a, b, c, source, target)
    device = gpu.EmulatedDevice(arch)
    return sglab.step(product[(1, 1)], *tensors, **sizes, COPIES=bool(copy), device=device).session()


def stored(trace: NanTrace, c: torch.Tensor) -> torch.Tensor:
    """Where the trace says that c became NaN."""
    found = torch.zeros_like(c, dtype=torch.bool).view(-1)
    for event in trace:
        for place in event.places:
            start = (place.address - c.data_ptr()) // 4
            if place.written and place.space == "global" and 0 <= start < c.numel():
                found[start : start + place.count // 4] = True
    return found.view_as(c)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("arch", ARCHS)
def test_a_nan_of_an_input_is_followed_to_the_output(arch: str, dtype: torch.dtype) -> None:
    a, b, c = (torch.randn(SIZE, SIZE).to(dtype), torch.randn(SIZE, SIZE).to(dtype), torch.zeros(SIZE, SIZE))
    row, column = (int(torch.randint(SIZE, ())) for _ in range(2))
    a[row, column] = torch.nan
    session = opened(arch, a, b, c)
    trace = find_nans(session)
    assert [event.role for event in trace.origins] == ["came"]
    first = trace.origins[0]
    read = [place.address for place in first.places if not place.written and place.space == "global"]
    assert read == [a[row, column].data_ptr()]
    found = stored(trace, c)
    session.run()
    assert torch.equal(found, c.isnan()) and found.any(1).nonzero().flatten().tolist() == [row]
    for event in trace:
        if event.role == "stored" and event.places[0].space == "global":
            way = trace.way(event.number)
            assert way[0] is first
            assert any(each.instruction.opcode.startswith(PRODUCTS[arch][:5]) for each in way)


@pytest.mark.parametrize("arch", ARCHS)
def test_the_product_that_makes_nan_out_of_infinities_is_the_origin(arch: str) -> None:
    a = torch.full((SIZE, SIZE), torch.inf).half()
    b = torch.randn(SIZE, SIZE).half()
    c = torch.zeros(SIZE, SIZE)
    session = opened(arch, a, b, c)
    trace = find_nans(session)
    assert trace.origins and {event.role for event in trace.origins} == {"made"}
    assert {event.instruction.opcode.split(".")[0] for event in trace.origins} == {PRODUCTS[arch].split(".")[0]}
    assert stored(trace, c).all()


@pytest.mark.parametrize("arch", ARCHS[1:])
def test_an_operation_s_position_leads_to_the_instruction_that_issued_it(arch: str) -> None:
    a = torch.full((SIZE, SIZE), torch.inf).half()
    session = opened(arch, a, torch.randn(SIZE, SIZE).half(), torch.zeros(SIZE, SIZE))
    operations = [event for event in find_nans(session) if event.kind == "operation"]
    assert operations
    for event in operations:
        session.seek(event.position)
        session.step()
        assert session.last is not None and session.last.instruction.pc == event.instruction.pc


@pytest.mark.parametrize("arch", ARCHS)
def test_integers_that_look_like_nan_are_none(arch: str) -> None:
    """−1, copied from one tensor of integers to another: all its bits are set, as in a NaN."""
    a, b = (torch.randn(SIZE, SIZE).half() for _ in range(2))
    c, source, target = torch.zeros(SIZE, SIZE), torch.full((SIZE,), -1), torch.zeros(SIZE, dtype=torch.int32)
    session = opened(arch, a, b, c, source.int(), target)
    assert len(find_nans(session)) == 0
    session.run()
    assert (target == -1).all()
