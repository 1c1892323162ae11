"""Numba-CUDA kernels: their PTX needs no GPU."""

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("numba_cuda")
import numpy as np
from numba import cuda

import sglab
from sglab import gpu

SOURCE = Path(__file__).read_text().splitlines()

pytestmark = pytest.mark.filterwarnings("ignore:Grid size")


@cuda.jit
def _axpy(x, y, out, a):
    i = cuda.grid(1)
    if i < x.size:
        out[i] = a * x[i] + y[i]


@cuda.jit
def _transpose(x, out):
    tile = cuda.shared.array((16, 17), dtype=np.float32)
    i, j = cuda.grid(2)
    tile[cuda.threadIdx.y, cuda.threadIdx.x] = x[j, i]
    cuda.syncthreads()
    out[i, j] = tile[cuda.threadIdx.y, cuda.threadIdx.x]


def test_arrays_and_scalars_arrive_and_lines_are_the_authors() -> None:
    rng = np.random.default_rng()
    x, y, out = rng.random(300, np.float32), rng.random(300), np.zeros(300)
    launch = sglab.step(_axpy[3, 128], x, y, out, 2.5)
    assert launch.name == "_axpy" and list(launch.tensors) == ["x", "y", "out"]
    session = launch.session()
    line = session.run_to(opcode="st.global").at.instruction.source[1]
    assert "out[i] = a * x[i] + y[i]" in SOURCE[line - 1]
    session.run()
    np.testing.assert_allclose(out, 2.5 * x.astype(np.float64) + y, rtol=1e-15)


def test_strided_tensors_and_shared_memory() -> None:
    x, out = torch.randn(64, 48)[::2], torch.zeros(48, 32)
    launch = sglab.step(_transpose[(3, 2), (16, 16)], x, out)
    launch.session().run()
    assert torch.equal(out, x.T) and not launch.session().findings


def test_memory_has_the_parameters_names() -> None:
    x, out = np.zeros(64, np.float32), np.zeros(64, np.float32)
    with pytest.raises(gpu.KernelError, match=r"past the end of '(x|out) \(argument [01]\)'"):
        sglab.step(_transpose[(2, 2), (16, 16)], x.reshape(8, 8), out.reshape(8, 8)).run()


def test_wrong_arguments_are_named() -> None:
    x = np.zeros(8, np.float32)
    with pytest.raises(gpu.LaunchError, match="missing a required argument: 'out'"):
        sglab.step(_transpose[1, 1], x)
    with pytest.raises(gpu.LaunchError, match=r"give it sizes, kernel\[grid, block\]"):
        sglab.step(_transpose, x, x)
    with pytest.raises(gpu.CompileError, match="compiling the Numba kernel _axpy"):
        sglab.step(_axpy[1, 32], x, x, x, "text")


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA GPU")
def test_cuda_tensors_are_copied() -> None:
    x, out = torch.randn(300, device="cuda"), torch.zeros(300, device="cuda")
    launch = sglab.step(_axpy[3, 128], x, x, out, 2.0)
    launch.session().run()
    _axpy[3, 128](x, x, out, 2.0)
    assert torch.equal(launch.tensors["out"], out.cpu())


@pytest.mark.parametrize("library", ["libnvrtc", "libnvvm"])
def test_without_nvidias_compilers_it_says_what_to_install(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As cuda.pathfinder has it where numba-cuda was installed without [cu13]."""

    def fail(*_, **__):
        nothing = f"No such file: {library}.so.13 or {library}.so.12"
        raise RuntimeError(f'Failure finding "{library}.so.13 or {library}.so.12": {nothing}, {nothing}')

    monkeypatch.setattr(cuda, "compile_ptx", fail)
    with pytest.raises(gpu.CompileError) as caught:
        sglab.step(_axpy[1, 32], np.ones(32), np.ones(32), np.zeros(32), 2.0)
    assert f"_axpy for sm_100: {library} is not installed. It comes with: pip install 'sglab[numba]'" in str(
        caught.value
    )
    assert "No such file" not in str(caught.value)
