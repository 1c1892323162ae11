"""A launch made for some tensors, on others of the same shapes: the same as if it had been made for them."""

import pytest

torch = pytest.importorskip("torch")

from sglab import gpu
from sglab.emulator import EmulatedDevice
from sglab.gpu.relocation import MOST_MAPS, MOST_PLACES, Relocation

KERNEL = gpu.Module(
    ".version 8.8\n.target sm_90a\n.address_size 64\n"
    ".visible .entry k(.param .align 64 .b8 map[128], .param .u64 x, .param .u64 tail, .param .u64 own, .param .u32 n)"
    "{ ret; }"
)["k"]
OWN = torch.zeros(16)


def prepared(device: EmulatedDevice, x: torch.Tensor, y: torch.Tensor) -> gpu.Launch:
    arguments = [gpu.TensorMap(x, (8, 8)), y, y[4:], OWN, 7]
    return KERNEL.prepare(device, grid=3, block=64, args=arguments)


def tensors(seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(16, 32, generator=generator), torch.randn(12, generator=generator)


def test_it_is_the_launch_that_would_be_made_there() -> None:
    device, first = EmulatedDevice("sm_90a"), tensors(0)
    relocation = Relocation(device, prepared(device, *first), first)
    for seed in range(1, MOST_MAPS + 4):
        other = tensors(seed)
        moved, made = relocation.at([t.data_ptr() for t in other], keep=other), prepared(device, *other)
        assert moved.params == made.params and moved.allocations == made.allocations
        assert moved.geometry == made.geometry and moved.kernel is made.kernel and moved.keep is other


def test_where_the_tensors_were_before_nothing_is_made_again() -> None:
    device, first = EmulatedDevice("sm_90a"), tensors(0)
    relocation = Relocation(device, prepared(device, *first), first)
    here = [t.data_ptr() for t in first]
    moved = relocation.at(here)
    assert relocation.at(here) is moved and moved.keep is None
    held = relocation.at(here, keep=first)
    assert held.keep is first and moved.keep is None and held.params is moved.params
    for index in range(MOST_PLACES):
        relocation.at([address + 16 * index for address in here])
    assert relocation.at(here).params == moved.params


def test_memory_of_no_tensor_stays() -> None:
    device, first = EmulatedDevice("sm_90a"), tensors(0)
    relocation = Relocation(device, prepared(device, *first), (None, first[1]))
    other = tensors(1)
    moved = relocation.at([0, other[1].data_ptr()])
    assert moved.params == prepared(device, first[0], other[1]).params


def test_rows_between_each_others_are_told_apart_by_where_they_begin() -> None:
    device = EmulatedDevice("sm_90a")
    both, other = torch.zeros(16, 44), torch.zeros(20, 44)
    left, right = both[:, :32], both[:, 32:]
    launch = KERNEL.prepare(
        device, grid=1, block=32, args=[gpu.TensorMap(left, (8, 8)), gpu.Strided(right), None, OWN, 0]
    )
    moved = Relocation(device, launch, (left, right)).at([other.data_ptr(), OWN.data_ptr()])
    expected = KERNEL.prepare(
        device, grid=1, block=32, args=[gpu.TensorMap(other[:16, :32], (8, 8)), OWN, None, OWN, 0]
    )
    assert moved.params == expected.params


def test_an_address_of_two_tensors_is_refused() -> None:
    device, (x, y) = EmulatedDevice("sm_90a"), tensors(0)
    with pytest.raises(ValueError, match="in 2 of the tensors"):
        Relocation(device, prepared(device, x, y), (x, y, y.view(3, 4)))


def test_tensors_reached_through_others_are_refused() -> None:
    device, (x, y) = EmulatedDevice("sm_90a"), tensors(0)
    launch = KERNEL.prepare(device, grid=1, block=32, args=[gpu.TensorMap(x, (8, 8)), y, None, OWN, 0], extra=[y])
    with pytest.raises(ValueError, match="not known where addresses are"):
        Relocation(device, launch, (x, y))
