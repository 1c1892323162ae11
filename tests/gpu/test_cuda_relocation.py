"""Launches made on other tensors by one call into C++, with functions in the driver's place."""

import ctypes
from collections.abc import Sequence
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from sglab import _core, gpu
from sglab.emulator import EmulatedDevice
from sglab.gpu.cuda_relocation import CudaRelocation
from sglab.gpu.errors import GpuError
from sglab.gpu.relocation import Relocation
from sglab.gpu.tensor_map import TiledEncoding

KERNELS = gpu.Module(
    ".version 8.8\n.target sm_90a\n.address_size 64\n"
    ".visible .entry a(.param .align 64 .b8 map[128], .param .u64 x, .param .u64 tail, .param .u32 n) { ret; }"
    ".visible .entry b(.param .u64 tail, .param .u64 own) { ret; }"
)
OWN = torch.zeros(16)
CONTEXT, STREAM, FUNCTION = 11, 2**40, 77
Made = tuple[int, tuple[bytes, ...]]


class Driver:
    """In the driver's place: keeps what it is given."""

    def __init__(self, fails_at: int | None = None) -> None:
        self.made: list[Made] = []
        self.sizes: list[list[int]] = []
        self.contexts: list[int] = []

        def launch(config: int, function: int, parameters: int, extra: int | None) -> int:
            if len(self.made) == fails_at:
                return 700
            sizes = self.sizes[len(self.made) % len(self.sizes)]
            places = (ctypes.c_void_p * len(sizes)).from_address(parameters)
            given = tuple(ctypes.string_at(place or 0, size) for place, size in zip(places, sizes, strict=True))
            self.made.append((ctypes.c_uint64.from_address(config + 32).value, given))
            return 0

        def set_current(context: int) -> int:
            self.contexts.append(context)
            return 0

        self._held = (
            ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 4)(launch),
            ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(set_current),
        )
        launched, entered = (ctypes.cast(each, ctypes.c_void_p).value or 0 for each in self._held)
        self.addresses = launched, entered


class Configuration(ctypes.Array[ctypes.c_uint]):
    _type_, _length_ = ctypes.c_uint, 14

    def getPtr(self) -> int:  # noqa: N802  as cuda-bindings name it
        return ctypes.addressof(self)


class Card(EmulatedDevice):
    """Packs and encodes as the emulator does, and launches as CudaDevice does."""

    index = 0

    def __init__(self, driver: Driver) -> None:
        super().__init__("sm_90a")
        self.driver, self.encoded = driver, 0

    def encode(self, encoding: TiledEncoding) -> bytes:
        self.encoded += 1
        return super().encode(encoding)

    def moved_launches(self, tensors: int) -> _core.MovedLaunches:
        return _core.MovedLaunches(*self.driver.addresses, CONTEXT, tensors)

    def configured(self, launch: gpu.Launch) -> tuple[int, Configuration]:
        self.driver.sizes.append([parameter.size for parameter in launch.kernel.params])
        return FUNCTION, Configuration()

    def require_success(self, function: str, status: int) -> None:
        raise GpuError(f"{function}: {status}")


def prepared(device: EmulatedDevice, x: torch.Tensor, y: torch.Tensor) -> list[gpu.Launch]:
    first = [gpu.TensorMap(x, (8, 8)), x, y[4:], 7]
    return [
        KERNELS["a"].prepare(device, grid=3, block=64, args=first),
        KERNELS["b"].prepare(device, grid=1, block=32, args=[y[4:], OWN]),
    ]


def tensors(seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(16, 32, generator=generator), torch.randn(12, generator=generator)


def addresses(tensors: Sequence[torch.Tensor]) -> list[int]:
    return [tensor.data_ptr() for tensor in tensors]


def parameters(launch: gpu.Launch) -> tuple[bytes, ...]:
    return tuple(launch.params[each.offset : each.offset + each.size] for each in launch.kernel.params)


def relocated(driver: Driver, device: Card) -> CudaRelocation:
    first = tensors(0)
    relocations = [Relocation(device, launch, first) for launch in prepared(device, *first)]
    has_what_is_used_of_a_cuda_device: Any = device
    return CudaRelocation(has_what_is_used_of_a_cuda_device, relocations, 2)


@pytest.fixture(autouse=True)
def stream(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sglab.gpu.cuda_relocation.current_stream", lambda index: STREAM)


def test_all_launches_are_those_that_would_be_made_there() -> None:
    driver = Driver()
    moved = relocated(driver, Card(driver))
    for seed in range(1, 5):
        other = tensors(seed)
        moved.run(addresses(other))
        wanted = [(STREAM, parameters(launch)) for launch in prepared(EmulatedDevice("sm_90a"), *other)]
        assert driver.made[-2:] == wanted
    assert driver.contexts == 4 * [CONTEXT], "once for all launches of a call"


def test_a_tensor_map_is_encoded_once_for_an_address() -> None:
    driver = Driver()
    device = Card(driver)
    moved = relocated(driver, device)
    others = [tensors(seed) for seed in range(1, 4)]
    for other in others:
        moved.run(addresses(other))
    before = device.encoded
    for other in others:
        moved.run(addresses(other))
    assert device.encoded == before and len(driver.made) == 12


def test_it_ends_at_the_first_launch_that_the_driver_refuses() -> None:
    driver = Driver(fails_at=1)
    moved = relocated(driver, Card(driver))
    with pytest.raises(GpuError, match="cuLaunchKernelEx: 700"):
        moved.run(addresses(tensors(0)))
    assert len(driver.made) == 1


def test_what_lies_outside_is_refused() -> None:
    launches = _core.MovedLaunches(1, 1, 1, 2)
    with pytest.raises(ValueError, match="behind the packed parameters"):
        launches.add(0, 0, bytes(16), [0, 8], [(9, 0, 0)], [])
    with pytest.raises(ValueError, match="behind the packed parameters"):
        launches.add(0, 0, bytes(128), [0], [], [(1, 0, 0)])
    with pytest.raises(ValueError, match="a tensor that is not there"):
        launches.add(0, 0, bytes(16), [0, 8], [(8, 2, 0)], [])
    with pytest.raises(ValueError, match="begins behind"):
        launches.add(0, 0, bytes(16), [16], [], [])
    with pytest.raises(ValueError, match="an address for each tensor"):
        launches.run([1], 0)
    with pytest.raises(IndexError):
        launches.know(0, 0, 0, bytes(128))
