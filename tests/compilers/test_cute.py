"""CuTe DSL functions compile to PTX and launch like any other."""

import struct
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
cutlass = pytest.importorskip("cutlass")
import cutlass.cute as cute
from cutlass.cute.runtime import make_fake_compact_tensor

from sglab import gpu
from sglab.compilers.cute import compile_cute
from sglab.widgets import KernelDebugger


@cute.kernel
def _add_kernel(x: cute.Tensor, y: cute.Tensor, out: cute.Tensor) -> None:
    thread, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    i = block * 128 + thread
    if i < cute.size(x):
        out[i] = x[i] + y[i]


@cute.jit
def _add(x: cute.Tensor, y: cute.Tensor, out: cute.Tensor) -> None:
    _add_kernel(x, y, out).launch(grid=((cute.size(x) + 127) // 128, 1, 1), block=(128, 1, 1))


@pytest.mark.parametrize("arch", ["sm_90a", "sm_100a"])
def test_known_shapes_become_pointers(arch: str) -> None:
    shapes = [make_fake_compact_tensor(cutlass.Float32, (1000,)) for _ in range(3)]
    module = compile_cute(_add, *shapes, arch=arch)
    (entry,) = module
    kernel = module[entry]
    assert (module.target, [p.size for p in kernel.params], kernel.signature.reqntid) == (arch, [8, 8, 8], (128, 1, 1))
    x, y, out = torch.randn(1000), torch.randn(1000), torch.zeros(1000)
    kernel.launch(gpu.EmulatedDevice(arch), grid=8, args=[x, y, out])
    assert torch.equal(out, x + y)


def test_unknown_shapes_travel_in_a_struct() -> None:
    size = cute.sym_int()
    module = compile_cute(_add, *(make_fake_compact_tensor(cutlass.Float32, (size,)) for _ in range(3)))
    x, y, out = torch.randn(300), torch.randn(300), torch.zeros(300)
    structs = [struct.pack("<Qixxxx", tensor.data_ptr(), 300) for tensor in (x, y, out)]
    module["add_kernel"].launch(gpu.EmulatedDevice(), grid=3, args=structs, extra=[x, y, out])
    assert torch.equal(out, x + y)


def test_instructions_know_their_lines_and_the_debugger_steps_by_them() -> None:
    module = compile_cute(_add, *(make_fake_compact_tensor(cutlass.Float32, (300,)) for _ in range(3)), arch="sm_90a")
    source = Path(__file__).read_text().splitlines()
    kernel = module["add_kernel"]
    lines = {source[kernel.code[pc].source[1] - 1].strip() for pc in kernel.code.find(opcode="st.global")}
    assert lines == {"out[i] = x[i] + y[i]"}
    x, y, out = torch.randn(300), torch.randn(300), torch.zeros(300)
    widget = KernelDebugger(kernel.session(gpu.EmulatedDevice("sm_90a"), grid=3, args=[x, y, out]))
    sentences = [widget.go("line", {"cta": 0, "warp": 0})["sentence"] for _ in range(4)]
    assert all(f"({Path(__file__).name}:" in sentence for sentence in sentences)
    assert len({sentence.partition("(")[2] for sentence in sentences}) == 4


def test_what_the_dsl_refuses_is_reported() -> None:
    with pytest.raises(gpu.CompileError, match="compiling the CuTe DSL function _add for sm_100a"):
        compile_cute(_add, 1, 2, 3)
