"""One launch, several machines: the same PTX and the same call on the emulator and on a GPU."""

import struct
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from sglab import gpu
from sglab.gpu.device import Device

PTX = Path(__file__).parent / "ptx" / "launch.ptx"


@pytest.fixture(params=["emulated", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request: pytest.FixtureRequest) -> Device:
    if request.param == "emulated":
        return gpu.EmulatedDevice("sm_90a")
    try:
        cuda = gpu.CudaDevice(0)
    except gpu.GpuError as error:
        pytest.skip(str(error))
    if not cuda.arch.runs("sm_90a"):
        pytest.skip(f"needs compute capability 9.0; this is {cuda.name}")
    return cuda


@pytest.fixture(scope="module")
def module() -> gpu.Module:
    return gpu.load(PTX)


def on(device: Device, tensor: Any) -> Any:
    return tensor.to(device.torch_device)


def test_every_kind_of_argument(device: Device, module: gpu.Module) -> None:
    x = on(device, torch.randn(1000))
    out = torch.full_like(x, float("nan"))
    terms = struct.pack("<fhxxd", 2.5, -3, 0.125)
    module["every_kind"].launch(device, grid=8, block=128, args=[x, out, 1000, 1.5, -7, terms, 1e3, None])
    device.synchronize()
    expected = x.double() * 1.5 + 2.5 * -3 + 0.125 - 7 + 1e3
    torch.testing.assert_close(out.double(), expected, rtol=1e-6, atol=1e-3)


def test_dynamic_shared_memory_up_to_the_limit(device: Device, module: gpu.Module) -> None:
    n = device.arch.limits.smem // 4
    x = on(device, torch.randn(n))
    out = torch.zeros_like(x)
    module["reverse_in_smem"].launch(device, grid=1, block=128, smem=4 * n, args=[x, out, n])
    device.synchronize()
    assert torch.equal(out, x.flip(0))


@pytest.mark.parametrize("size", [1, 2, 4, 8, 16])
def test_clusters(device: Device, module: gpu.Module, size: int) -> None:
    x = on(device, torch.randint(-99, 99, (16, 32), dtype=torch.int32))
    out = torch.zeros_like(x)
    module["pass_round"].launch(device, grid=16, block=32, cluster=size, args=[x, out])
    device.synchronize()
    assert torch.equal(out.view(-1, size, 32), x.view(-1, size, 32).roll(-1, dims=1))


@pytest.mark.parametrize("swizzle", [0, 32, 64, 128])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.uint8])
def test_tensor_maps(device: Device, module: gpu.Module, dtype: Any, swizzle: int) -> None:
    """A tile of 16 rows lands in shared memory swizzled, out-of-bounds elements as zero, and is stored back whole."""
    columns = (swizzle or 128) // dtype.itemsize
    source = on(device, torch.randint(0, 100, (40, 160)).to(dtype))
    target = torch.zeros_like(source)
    tiles_x, nbytes = -(-160 // columns), 16 * columns * dtype.itemsize
    image = on(device, torch.zeros(3, tiles_x, nbytes, dtype=torch.uint8))
    maps = [gpu.TensorMap(tensor, (16, columns), swizzle=swizzle) for tensor in (source, target)]  # type: ignore[arg-type]
    args = [*maps, image, 16, columns, nbytes]
    module["copy_tile"].launch(device, grid=(tiles_x, 3), block=64, smem=nbytes, args=args)
    device.synchronize()
    assert torch.equal(target, source)
    padded = torch.zeros(48, tiles_x * columns, dtype=dtype)
    padded[:40, :160] = source.cpu()
    wanted = padded.view(3, 16, tiles_x, columns).transpose(1, 2)
    assert torch.equal(unswizzled(image.cpu(), swizzle).view(dtype).view(3, tiles_x, 16, columns), wanted)


def unswizzled(image: Any, swizzle: int) -> Any:
    """Undoes what a swizzle of that many bytes does to 16-byte chunks: bits 4.. of the address, xor bits 7.. ."""
    address = torch.arange(image.shape[-1])
    mask = {0: 0, 32: 1, 64: 3, 128: 7}[swizzle]
    return image[..., address ^ (((address >> 7) & mask) << 4)].contiguous()


def test_ptx_for_another_architecture_is_refused(module: gpu.Module) -> None:
    with pytest.raises(gpu.LaunchError, match=r"launch.ptx was compiled for sm_90a, which emulated sm_100a, 148 SMs"):
        module["trap_in"].launch(gpu.EmulatedDevice("sm_100a"), grid=1, block=32, args=[0])


def test_static_and_dynamic_shared_memory_share_the_limit(device: Device, module: gpu.Module) -> None:
    x = on(device, torch.zeros(1, 32, dtype=torch.int32))
    # 128 bytes of variables; the module's dynamic shared memory is aligned to 1,024, and static ends where it starts.
    with pytest.raises(gpu.LaunchError, match=r"1024 bytes static \+ 232448 dynamic"):
        module["pass_round"].launch(device, grid=1, block=32, smem=232_448, args=[x, x])


def test_a_launch_with_wrong_arguments_changes_nothing(device: Device, module: gpu.Module) -> None:
    x = on(device, torch.randn(8))
    out = torch.zeros_like(x)
    with pytest.raises(gpu.LaunchError, match="argument 2, reverse_in_smem_param_2"):
        module["reverse_in_smem"].launch(device, grid=1, block=128, smem=32, args=[x, out, 8.5])
    with pytest.raises(gpu.LaunchError, match=r"block .* has 256 threads; the kernel's .maxntid allows 128"):
        module["reverse_in_smem"].launch(device, grid=1, block=256, smem=32, args=[x, out, 8])
    device.synchronize()
    assert torch.equal(out, torch.zeros_like(out))


def test_a_store_past_a_tensor_is_an_error_with_its_source_line(module: gpu.Module) -> None:
    x = torch.zeros(100)
    with pytest.raises(gpu.KernelError, match=r"past the end of 'argument 0, store_behind_param_0") as caught:
        module["store_behind"].launch(gpu.EmulatedDevice("sm_90a"), grid=1, block=32, args=[x, 90])
    fault = caught.value.fault
    assert fault is not None
    assert (fault.kind, fault.kernel, fault.warp, fault.lane) == ("out_of_bounds", "store_behind", 0, 10)
    line = (PTX.with_suffix(".cu")).read_text().splitlines()[fault.source_line - 1]
    assert "x[n + threadIdx.x] = 1.0f" in line


def test_a_trap_is_an_error_with_cta_and_warp(module: gpu.Module) -> None:
    with pytest.raises(gpu.KernelError, match="trap") as caught:
        module["trap_in"].launch(gpu.EmulatedDevice("sm_90a"), grid=2, block=64, args=[40])
    assert caught.value.fault is not None
    assert (caught.value.fault.kind, caught.value.fault.warp) == ("trap", 1)


def test_an_emulated_device_says_what_it_is() -> None:
    device = gpu.EmulatedDevice("sm_100a", sms=20)
    assert (device.name, device.sms, str(device.arch)) == ("emulated sm_100a, 20 SMs", 20, "sm_100a")
    assert gpu.EmulatedDevice("sm_90a").sms == 132
    with pytest.raises(gpu.LaunchError, match="sms must be an integer from 1 to 65535; got 0"):
        gpu.EmulatedDevice("sm_100a", sms=0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"arch": None}, "arch must be one of sm_70 .*; got None"),
        ({"sms": 1.5}, "sms must be an integer from 1 to 65535; got 1.5"),
        ({"sms": True}, "sms must be an integer .*; got True"),
        ({"threads": 0}, "threads must be an integer from 1 to 1,024 or 'auto'; got 0"),
        ({"threads": -1}, "threads must be an integer .*; got -1"),
        ({"seed": -1}, "seed must be an integer from 0 to 18446744073709551615; got -1"),
        ({"seed": 2**70}, "seed must be an integer"),
        ({"max_instructions": -1}, "max_instructions must be an integer from 0"),
        ({"scheduler": "lucky"}, "scheduler must be one of fair, random, adversarial, in_order; got 'lucky'"),
    ],
)
def test_an_emulated_device_refuses_what_makes_no_sense(options: dict[str, Any], message: str) -> None:
    with pytest.raises(gpu.LaunchError, match=message):
        gpu.EmulatedDevice(**options)


@pytest.mark.parametrize("grid", [True, b"\x01", "1", (1, True), None, ()])
def test_a_grid_is_made_of_integers(grid: Any) -> None:
    kernel = gpu.load(".version 8.0\n.target sm_90\n.address_size 64\n.entry k() { ret; }\n")["k"]
    with pytest.raises(gpu.LaunchError, match="grid must be an integer or 1 to 3 integers"):
        kernel.launch(gpu.EmulatedDevice(), grid=grid, block=1)


def test_files_that_are_no_ptx_are_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "folder.ptx").mkdir()
    (tmp_path / "bytes.ptx").write_bytes(b".version 8.0\n\xff")
    with pytest.raises(gpu.GpuError, match=r"expected a file; '.*folder.ptx' is a folder"):
        gpu.load(tmp_path / "folder.ptx")
    with pytest.raises(gpu.GpuError, match=r"bytes.ptx is not UTF-8 text: byte 13 is 0xff"):
        gpu.load(tmp_path / "bytes.ptx")


def test_without_a_gpu_cudadevice_says_what_to_do_instead() -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(gpu.GpuError, match=r"EmulatedDevice\('sm_100a'\)|pip install 'sglab\[gpu\]'"):
        gpu.CudaDevice(0)


def test_a_prepared_launch_keeps_its_tensors_alive(module: gpu.Module) -> None:
    x = torch.zeros(1 << 20)
    died = weakref.ref(x)
    launch = module["store_behind"].prepare(gpu.EmulatedDevice("sm_90a"), grid=1, block=32, args=[x, 0])
    del x
    assert died() is not None
    gpu.EmulatedDevice("sm_90a").run(launch)


def test_a_plain_launch_warns_of_what_ptx_leaves_undefined() -> None:
    module = gpu.load(
        ".version 8.8\n.target sm_100a\n.address_size 64\n"
        ".entry k() { .reg .b32 r; redux.sync.add.u32 r, 1, 0xffff; ret; }",
    )
    with pytest.warns(gpu.LaunchWarning, match="lane_outside_its_member_mask"):
        report = module["k"].launch(gpu.EmulatedDevice("sm_100a"), grid=1, block=32, args=[])
    assert [(each.severity, each.at.lanes) for each in report.findings] == [("warning", 0xFFFF0000)]
    sanitized = module["k"].launch(gpu.EmulatedDevice("sm_100a", sanitize=True), grid=1, block=32, args=[])
    assert [each.kind for each in sanitized.findings] == ["lane_outside_its_member_mask"]


def test_a_kind_of_warning_is_said_once_a_launch_where_the_caller_is() -> None:
    module = gpu.load(
        ".version 8.8\n.target sm_100a\n.address_size 64\n"
        ".entry _ZN3own4kindEv() { .reg .b32 r;\n redux.sync.add.u32 r, 1, 0xffff;\n"
        " redux.sync.add.u32 r, 1, 0xff;\n ret; }",
    )
    with pytest.warns(gpu.LaunchWarning) as said:
        report = module["_ZN3own4kindEv"].launch(gpu.EmulatedDevice("sm_100a"), grid=1, block=32, args=[])
    assert [each.at.instruction.ptx_line for each in report.findings] == [5, 6]
    assert [warning.filename for warning in said] == [__file__]
    text = str(said[0].message)
    assert text.startswith("own::kind: warning: lane_outside_its_member_mask")
    assert text.endswith("and at 1 more place; LaunchReport.findings has all")


def test_equal_alignment_asks_the_same_of_memory_wherever_it_lies() -> None:
    """CUDA's allocations begin at multiples of 512 bytes; the host's do not."""
    module = gpu.load(
        ".version 8.8\n.target sm_100a\n.address_size 64\n"
        ".entry k(.param .u64 p) { .reg .b32 r<3>; .reg .b64 d<3>; ld.param.u64 d0, [p]; mov.u32 r0, %tid.x;"
        " mul.wide.u32 d1, r0, 48; add.s64 d1, d0, d1; ld.global.b32 r1, [d1]; ret; }",
    )
    room = np.zeros(8192, np.uint8)
    start = -room.ctypes.data % 512
    asked = set()
    for offset in (0, 16, 64, 96, 448):
        tensor = torch.from_numpy(room[start + offset :][:2048])
        device = gpu.EmulatedDevice("sm_100a")
        rows = device.record(module["k"].prepare(device, grid=1, block=32, args=[tensor])).accesses
        asked.add((int(rows.sectors[0]), int(rows.lines[0])))
    assert asked == {(32, 12)}


def test_a_log_has_memory_in_the_order_of_the_arguments() -> None:
    header = ".version 8.8\n.target sm_100a\n.address_size 64\n"
    text = header + ".entry k(.param .u64 a, .param .u64 b, .param .u64 c) { ret; }"
    room, device = np.zeros(4096, np.uint8), gpu.EmulatedDevice("sm_100a")
    for order in ((0, 1024, 2048), (2048, 0, 1024), (1024, 2048, 0)):
        args = [torch.from_numpy(room[at : at + 64]) for at in order]
        log = device.record(gpu.load(text)["k"].prepare(device, grid=1, block=32, args=args))
        assert [one.address for one in log.allocations] == [tensor.data_ptr() for tensor in args]
    shared = torch.from_numpy(room[:512])
    log = device.record(gpu.load(text)["k"].prepare(device, grid=1, block=32, args=[args[1], shared[64:], shared]))
    assert [one.address for one in log.allocations] == [args[1].data_ptr(), shared.data_ptr()]
