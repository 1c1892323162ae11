"""`sglab.cuda`, `sglab.ptx` and the cell magic: CUDA C++ and PTX of one's own."""

import re
import struct
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
import numpy as np
from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell

import sglab
from sglab import gpu
from sglab.compilers.nvcc import find_nvcc
from sglab.stepping.magic import cuda_cell
from sglab.widgets import KernelDebugger, SharedMemory

try:
    find_nvcc()
except gpu.MissingDependencyError as error:
    pytest.skip(str(error), allow_module_level=True)

AXPY = """__global__ void axpy(const float* __restrict__ x, float* out, float a, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] += a * x[i];
}
"""
ONE_LINE = 'extern "C" __global__ void fill(float* out, int n) { if (threadIdx.x < n) out[threadIdx.x] = 1; }'
TWO = AXPY + "__global__ void scale(double* out) { out[threadIdx.x] *= 2; }\n"


def test_a_call_runs_the_kernel_and_returns_a_launch_from_its_beginning() -> None:
    x, out = torch.randn(300), torch.zeros(300)
    launch = sglab.cuda(AXPY)[3, 128](x, out, 2.0, 300)
    assert torch.equal(out, 2 * x) and launch.report.warp_instructions > 0
    debugger = KernelDebugger(launch)
    assert not out.any() and debugger.session.now == 0


def test_step_prepares_it_with_the_sources_names_and_lines() -> None:
    x, out = torch.randn(300), torch.zeros(300)
    launch = sglab.step(sglab.cuda(AXPY)[3, 128], x, out, 2.0, 300)
    assert list(launch.tensors) == ["x", "out"] and not out.any()
    session = launch.session()
    assert "out[i] += a * x[i]" in AXPY.splitlines()[session.run_to(opcode="st.global").at.instruction.source[1] - 1]
    (file,) = [each for each in launch.debugger().code["files"] if each["name"] == "kernel.cu"]
    assert file["available"]


def test_a_kernels_name_where_the_architecture_belongs_is_told_its_place() -> None:
    with pytest.raises(gpu.LaunchError, match=r'"scale" is a kernel of the source: cuda\(source\)\["scale"\]'):
        sglab.cuda(TWO, "scale")
    with pytest.raises(gpu.LaunchError, match=r"arch must be one of .*; got 'scala'"):
        sglab.cuda(TWO, "scala")


def test_text_of_one_line_is_text() -> None:
    out = torch.zeros(32)
    sglab.cuda(ONE_LINE)[1, 32](out, 32)
    assert torch.equal(out, torch.ones(32))
    assert list(gpu.load(ONE_LINE)) == ["fill"]


def test_a_call_without_sizes_says_how_a_launch_is_written() -> None:
    with pytest.raises(gpu.LaunchError, match=r"a launch needs sizes: kernel\[grid, block\]"):
        sglab.cuda(ONE_LINE)(torch.zeros(32), 32)


def test_a_file_is_a_file(tmp_path: Path) -> None:
    file = tmp_path / "axpy.cu"
    file.write_text(AXPY)
    x, out = torch.randn(64), torch.zeros(64)
    for source in (file, str(file)):
        launch = sglab.step(sglab.cuda(source), 1, 64, x, out, 2.0, 64)
        assert launch.debugger().code["files"][0]["available"]
    with pytest.raises(FileNotFoundError, match=r"missing.cu does not exist in .*\. Pass its path, or the text"):
        sglab.cuda(str(tmp_path / "missing.cu"))
    with pytest.raises(gpu.GpuError, match=r"source: expected CUDA C\+\+ text.*; got 'axpy'"):
        sglab.cuda("axpy")


def test_ptx_runs_on_what_its_target_names() -> None:
    text = gpu.load(AXPY, arch="sm_90a")["axpy"].module.ptx
    x, out = torch.randn(64), torch.zeros(64)
    launch = sglab.ptx(text)[1, 64](x, out, 3.0, 64)
    assert torch.equal(out, 3 * x) and str(launch.device.arch) == "sm_90a"
    assert str(sglab.step(sglab.ptx(text)[1, 64], x, out, 3.0, 64).device.arch) == "sm_90a"
    with pytest.raises(gpu.GpuError, match="expected PTX text"):
        sglab.ptx("axpy")


def test_of_several_kernels_one_is_chosen_by_name() -> None:
    program = sglab.cuda(TWO)
    with pytest.raises(gpu.LaunchError, match=r"has 2 kernels, .*: choose one"):
        program[1, 32]
    out = torch.ones(32, dtype=torch.float64)
    program["scale"][1, 32](out)
    assert torch.equal(out, torch.full((32,), 2.0, dtype=torch.float64))


TEMPLATE = """
template <int N, typename T> __global__ void fill(T* out) { out[threadIdx.x] = N; }
template __global__ void fill<4, float>(float*);
template __global__ void fill<8, double>(double*);
namespace own { __global__ void last(const int* from, int* to) { to[threadIdx.x] = from[threadIdx.x + 1]; } }
"""


def test_instances_of_a_template_are_called_as_in_the_source() -> None:
    program = sglab.cuda(TEMPLATE)
    assert "fill<4, float>" in repr(program) and "own::last" in repr(program)
    out = torch.zeros(32)
    program["fill<4,float>"][1, 32](out)
    assert (out == 4).all()
    with pytest.raises(gpu.GpuError, match=r"several entries match 'fill'; it has fill<4, float>, fill<8, double>"):
        program["fill"]
    with pytest.raises(gpu.GpuError, match=r"no entry is called 'own::lost'.*Did you mean 'own::last'"):
        program["own::lost"]
    with pytest.raises(gpu.LaunchError, match=r"fill<8, double>.*own::last: choose one"):
        program[1, 32]


def test_messages_have_the_parameters_names() -> None:
    numbers = torch.zeros(32, dtype=torch.int32)
    last = sglab.cuda(TEMPLATE)["last"]
    with pytest.raises(gpu.LaunchError, match=r"takes 2 arguments \(from, to\); got 1"):
        last[1, 32](numbers)
    with pytest.raises(gpu.KernelError, match=r"past the end of 'from \(argument 0\)'"):
        last[1, 32](numbers, numbers.clone())


def test_a_report_says_what_it_holds() -> None:
    report = sglab.step(sglab.cuda(AXPY)[1, 64], torch.randn(64), torch.zeros(64), 2.0, 64).run()
    assert repr(report) == f"<LaunchReport: {report.warp_instructions} warp-instructions, no findings>"


def test_numpy_arrays_are_memory_here() -> None:
    x, out = np.ones(64, np.float32), np.zeros(64, np.float32)
    sglab.cuda(AXPY)[1, 64](x, out, 2.0, 64)
    assert (out == 2).all()


@pytest.mark.parametrize("source", [AXPY, 'extern "C" ' + AXPY], ids=["mangled", "extern C"])
def test_a_dtype_that_the_pointer_cannot_mean_is_refused(source: str) -> None:
    x, out = torch.randn(64), torch.zeros(64)
    kernel = sglab.cuda(source)[1, 64]
    with pytest.raises(gpu.LaunchError, match=r"argument 0.*takes float\* .* float64.*\.to\(torch.float32\)"):
        kernel(x.double(), out, 2.0, 64)
    with pytest.raises(gpu.LaunchError, match=r"argument 1.*takes float\* .* int32"):
        sglab.step(kernel, x, out.int(), 2.0, 64)
    assert not out.any()


def test_a_failing_kernel_says_how_to_open_it() -> None:
    with pytest.raises(gpu.KernelError, match=r"sglab\.step\(") as caught:
        sglab.cuda(AXPY)[1, 64](torch.zeros(8), torch.zeros(8), 2.0, 64)
    assert caught.value.fault.source_line == 3


@pytest.mark.parametrize("sizes", [4, (4,), (1, 2, 3, 4)])
def test_sizes_are_grid_and_block(sizes: object) -> None:
    with pytest.raises(gpu.LaunchError, match=r"expected kernel\[grid, block\]"):
        sglab.cuda(AXPY)["axpy"][sizes]
    assert sglab.cuda(AXPY)[gpu.LaunchConfig(2, (8, 2))].config.block == (8, 2)


class TestCellMagic:
    @pytest.fixture
    def shell(self) -> InteractiveShell:
        return InteractiveShell()

    def test_kernels_become_names(self, shell: InteractiveShell, capsys: pytest.CaptureFixture[str]) -> None:
        cuda_cell(shell, "both --arch sm_90a", TWO)
        assert capsys.readouterr().out.strip() == "axpy[grid, block](…), scale[grid, block](…)"
        out = torch.zeros(64)
        launch = sglab.step(shell.user_ns["axpy"][1, 64], torch.ones(64), out, 2.0, 64)
        assert str(launch.device.arch) == "sm_90a" and len(shell.user_ns["both"]) == 2

    def test_lines_are_the_cells(self, shell: InteractiveShell) -> None:
        cuda_cell(shell, "", AXPY)
        launch = sglab.step(shell.user_ns["axpy"][1, 64], torch.ones(64), torch.zeros(64), 2.0, 64)
        stop = launch.session().run_to(opcode="st.global")
        assert stop.at.instruction.source[1] == 4  # below the magic's own line

    @pytest.mark.parametrize(
        ("line", "cell", "message"),
        [
            ("", "__global__ void k() { nothing(); }", r'cell.cu\(2\): error: identifier "nothing"'),
            ("--fast", AXPY, "unrecognized arguments: --fast"),
            ("2x", AXPY, "expected a name"),
            ("", "int x;", "no kernel"),
        ],
    )
    def test_refusals_have_no_traceback(self, shell: InteractiveShell, line: str, cell: str, message: str) -> None:
        with pytest.raises(UsageError, match=message):
            cuda_cell(shell, line, cell)

    def test_importing_sglab_registers_it(self, shell: InteractiveShell) -> None:
        sglab.load_ipython_extension(shell)
        assert "cuda" in shell.magics_manager.magics["cell"]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA GPU")
def test_cuda_tensors_run_on_their_gpu_and_the_launch_can_still_be_stepped() -> None:
    pytest.importorskip("cuda.bindings")
    x, out = torch.randn(300, device="cuda"), torch.ones(300, device="cuda")
    launch = sglab.cuda(AXPY)[3, 128](x, out, 2.0, 300)
    torch.cuda.synchronize()
    launch.session().run()
    assert torch.equal(launch.tensors["out"], out.cpu())
    assert torch.allclose(out.cpu(), 1 + 2 * x.cpu())


FAR = """#include <cuda_pipeline.h>
__global__ void copy(const float* x, float* out, int n) {
  __shared__ float stage[64];
  __pipeline_memcpy_async(&stage[threadIdx.x], &x[threadIdx.x + n], sizeof(float));
  __pipeline_commit();
  out[threadIdx.x] = stage[threadIdx.x];
}
"""


def test_places_in_headers_begin_with_the_authors_line() -> None:
    x, out = torch.randn(64), torch.zeros(64)
    copy = sglab.cuda(FAR)
    with pytest.raises(gpu.KernelError, match=r"PTX line \d+, kernel.cu:4, in cuda_pipeline_helpers.h:\d+\]$"):
        sglab.step(copy[1, 64], x, out, 10_000).run()
    finding = next(
        one for one in sglab.step(copy[1, 64], x, out, 0).run().findings if one.kind == "missing_cp_async_wait"
    )
    assert "kernel.cu:4, in cuda_pipeline_helpers.h:" in str(finding) and finding.other.instruction.own_source[1] == 4


def test_a_table_of_accesses_names_the_authors_lines() -> None:
    """atomicAdd is a function of CUDA's headers."""
    source = """
extern "C" __global__ void count(int* out) {
  __shared__ int bins[32];
  atomicAdd(&bins[out[threadIdx.x]], 1);
  out[threadIdx.x] = bins[0];
}"""
    widget = SharedMemory(sglab.step(sglab.cuda(source)[1, 32], torch.zeros(32, dtype=torch.int32)).session())
    rows = widget.code_of(range(len(widget.recording.code))).values()
    sources = {row["source"] for row in rows if "shared" in row["opcode"]}
    assert sources == {"kernel.cu:4", "kernel.cu:5"}


@pytest.mark.parametrize("sizes", [(), (4,)])
def test_tensors_where_sizes_belong_are_said_to_be_that_and_not_written_out(sizes: tuple[int, ...]) -> None:
    kernel, x = sglab.cuda(AXPY), torch.zeros(300)
    with pytest.raises(gpu.LaunchError, match=r"sizes are missing; or write kernel\[grid, block\]$"):
        sglab.step(kernel, *sizes, x, x, 1.0, 300)
    with pytest.raises(gpu.LaunchError, match=r"grid must be an integer or 1 to 3 integers; got a Tensor$"):
        kernel[x, 128](x, x, 1.0, 300)


def test_a_cell_that_ends_with_findings_shows_their_sentences() -> None:
    kernel = sglab.cuda("__global__ void add(int* n) { *n += 1; }")
    found = sglab.step(kernel[1, 32], torch.zeros(1, dtype=torch.int32)).run().findings
    shell = InteractiveShell.instance()
    shown = shell.display_formatter.format(found)[0]["text/plain"]
    assert "cuda.atomic.add" in shown  # as Numba has it
    assert "error: lost_update: " in shown and "CTA (0, 0, 0) warp 0 lane 0, at PTX line" in shown
    assert "Party(" not in shown


def test_findings_are_short_in_a_list() -> None:
    kernel = sglab.cuda('extern "C" __global__ void count(int* n) {\n  int now = *n;\n  *n = now + 1;\n}')
    found = sglab.step(kernel[2, 32], torch.zeros(1, dtype=torch.int32)).run().findings
    assert str(found[:1]) == f"({found[0]!r},)"
    assert re.fullmatch(
        r"<error lost_update: CTA \(0, 0, 0\) warp 0 lanes? [\d, -]+, kernel\.cu:[23]>", repr(found[0])
    ), repr(found[0])
    assert "\n" in str(found[0])


def test_a_pointer_in_a_struct_that_no_tensor_explains_has_a_remedy() -> None:
    source = 'struct P { float* x; int n; };\nextern "C" __global__ void one(P p) { p.x[threadIdx.x] = p.n; }'
    x = torch.zeros(32)
    packed = struct.pack("Pi4x", x.data_ptr(), 7)
    launch = sglab.step(sglab.cuda(source)[1, 32], packed)
    with pytest.raises(gpu.KernelError, match=r"no memory was registered for this launch: .*go into extra=\[…\]"):
        launch.run()
    with pytest.raises(gpu.KernelError, match=r"go into extra=\[…\]"):
        launch.session().run()
    sglab.step(sglab.cuda(source)[1, 32], packed, extra=[x]).run()
    assert x.tolist() == [7.0] * 32


def test_a_template_without_an_instance_says_how_to_make_one() -> None:
    template = "template <typename T> __global__ void scale(T* x, T s) { x[threadIdx.x] *= s; }\n"
    with pytest.raises(gpu.GpuError, match=r"add template __global__ void scale<half>\(…\);"):
        sglab.cuda(template + "__global__ void fill(float* x) { x[0] = 1; }")["scale<half>"]
    with pytest.raises(gpu.GpuError, match=r"scale is a template without an instance: add .* scale<float>\(…\);"):
        sglab.cuda(template)[1, 32]
    with pytest.raises(gpu.GpuError, match=r"it has fill\. Did you mean 'fill'") as found:
        sglab.cuda(template + "__global__ void fill(float* x) { x[0] = 1; }")["fil_"]
    assert "template" not in str(found.value)


def test_a_launch_that_never_ends_is_not_sent_to_a_device_without_a_limit() -> None:
    waits = """extern "C" __global__ void waits(volatile int* flag) { while (!*flag) {} }"""
    launch = sglab.step(sglab.cuda(waits)[1, 32], torch.zeros(1, dtype=torch.int32))
    with pytest.raises(gpu.KernelError, match=r"never ends: .*of 'flag \(argument 0\)'\), which hold 0") as caught:
        launch.run()
    assert "max_instructions" not in str(caught.value)
