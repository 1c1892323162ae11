"""Plans made on the device: FlashMLA's metadata as its planner gives it, and works that cover every token once."""

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sglab.emulator import EmulatedDevice
from sglab.gpu import CudaDevice, Device
from sglab.kernels.mla import device_plan
from sglab.kernels.mla.device_plan import Metadata
from sglab.kernels.mla.work_units import Works
from sglab.planning.flash_mla import get_mla_metadata, split_table

LENGTHS = st.lists(st.integers(0, 3000), min_size=1, max_size=12)
FINDS = {"sanitize": True, "on_finding": "raise"}


@pytest.fixture
def machine(device: torch.device) -> Device:
    return EmulatedDevice("sm_90a", **FINDS) if device.type == "cpu" else CudaDevice(0)


def on(machine: Device, lengths: list[int]) -> torch.Tensor:
    return torch.tensor(lengths, dtype=torch.int32, device=machine.torch_device)


def metadata_of(machine: Device, lengths: list[int], parts: int) -> Metadata:
    launch, made = device_plan.metadata(machine, on(machine, lengths), parts)
    machine.run(launch)
    return made


def works_of(machine: Device, lengths: list[int], parts: int, tokens: int = 1, causal: bool = False) -> Works:
    plan = metadata_of(machine, lengths, parts)
    launch, works = device_plan.works(machine, plan, on(machine, lengths), tokens, causal)
    machine.run(launch)
    return works


def tried(test):  # type: ignore[no-untyped-def]
    return settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])(test)


@tried
@given(lengths=LENGTHS, heads=st.sampled_from([16, 64, 128]), sm_count=st.integers(1, 148))
def test_metadata_is_the_planners(lengths: list[int], heads: int, sm_count: int, machine: Device) -> None:
    expected = get_mla_metadata(lengths, h_q=heads, sm_count=sm_count)
    made = metadata_of(machine, lengths, expected.num_sm_parts)
    assert made.tile_scheduler_metadata.tolist() == expected.tile_scheduler_metadata.tolist()
    assert made.num_splits.tolist() == expected.num_splits.tolist()


@pytest.mark.parametrize("lengths", [[4096] * 300, [0] * 5, [1], [0, 131072], [64, 65, 0, 63] * 50])
def test_metadata_of_large_and_odd_batches(lengths: list[int], machine: Device) -> None:
    expected = get_mla_metadata(lengths, h_q=128, sm_count=132)
    made = metadata_of(machine, lengths, expected.num_sm_parts)
    assert made.tile_scheduler_metadata.tolist() == expected.tile_scheduler_metadata.tolist()
    assert made.num_splits.tolist() == expected.num_splits.tolist()


def done_by(works: Works) -> list[tuple[int, int, int, int, int]]:
    """(part, request, begin, end, slot) of everything before a part's end."""
    found = []
    for part, column in enumerate(works.works.transpose(0, 1).tolist()):
        for request, begin, end, slot in column:
            if request < 0:
                break
            found.append((part, request, begin, end, slot))
    return found


@tried
@given(lengths=LENGTHS, sm_count=st.integers(1, 148))
def test_works_are_what_the_metadata_says(lengths: list[int], sm_count: int, machine: Device) -> None:
    plan = get_mla_metadata(lengths, h_q=64, sm_count=sm_count)
    works = works_of(machine, lengths, plan.num_sm_parts)
    done = done_by(works)
    table = split_table(plan, lengths).tolist()
    assert [work[:4] for work in done] == [(part, request, begin, end) for part, request, _, begin, end in table]
    check_slots(works, done, len(lengths))


@tried
@given(lengths=LENGTHS, sm_count=st.integers(1, 148), tokens=st.integers(2, 4), causal=st.booleans())
def test_query_tokens_are_requests_of_their_own(
    lengths: list[int], sm_count: int, tokens: int, causal: bool, machine: Device
) -> None:
    """Each sees the first tokens of its request, in its request's ranges, by the same part."""
    plan = get_mla_metadata(lengths, h_q=64, sm_count=sm_count)
    works = works_of(machine, lengths, plan.num_sm_parts, tokens, causal)
    expected = []
    for part, request, _, begin, end in split_table(plan, lengths).tolist():
        for token in range(tokens):
            seen = max(lengths[request] - (tokens - 1 - token) * causal, 0)
            expected.append((part, request * tokens + token, min(begin, seen), min(end, seen)))
    done = done_by(works)
    assert [work[:4] for work in done] == expected
    check_slots(works, done, len(lengths) * tokens)


def check_slots(works: Works, done: list[tuple[int, int, int, int, int]], requests: int) -> None:
    """A request done in one go has none; the splits of another are side by side, in order, in places of their own."""
    assert works.requests.tolist() == list(range(requests))
    indptr, counts, taken = works.slot_indptr.tolist(), works.partial_count.tolist(), set()
    for request in range(requests):
        slots = [slot for _, who, _, _, slot in done if who == request]
        own = [-1] if len(slots) == 1 else list(range(indptr[request], indptr[request] + len(slots)))
        assert slots == own and counts[request] == (0 if len(slots) == 1 else len(slots))
        assert indptr[request + 1] - indptr[request] == len(slots)
        taken |= set(slots) - {-1}
    assert len(taken) == sum(counts) and max(taken, default=-1) < works.slots
