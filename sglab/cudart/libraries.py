"""Which libraries a CUDA program lacks, who needs them, and where they come from."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sglab.cudart.elf import Dynamic, dynamic_of
from sglab.gpu.errors import GpuError

_STATIC_RUNTIME = b"/cudart.shm."  # a name in NVIDIA's static runtime, which stripping leaves
_NAME = r"lib[\w.+-]*\.so(?:\.\d+)*"
_ABSENT = re.compile(rf"({_NAME}): cannot open shared object file")
_LISTED = re.compile(r"^\s*(\S+) => (not found|/\S+)", re.M)
_SEARCHED = re.compile(rf"find library=(\S*/)?({_NAME}) \[")
_OPENED = re.compile(rf"calling init: (\S*/)?({_NAME})$", re.M)
_RUNTIME = ("libcudart", "libcuda")  # sglab has these two itself

# By the name's beginning: the wheel of CUDA 13.
_WHEELS = {
    **dict.fromkeys(("libcublas", "libcublasLt", "libnvblas"), "nvidia-cublas"),
    "libcudnn": "nvidia-cudnn-cu13",
    "libcufft": "nvidia-cufft",
    "libcufftw": "nvidia-cufft",
    "libcufile": "nvidia-cufile",
    "libcupti": "nvidia-cuda-cupti",
    "libcurand": "nvidia-curand",
    **dict.fromkeys(("libcusolver", "libcusolverMg"), "nvidia-cusolver"),
    "libcusparse": "nvidia-cusparse",
    "libcusparseLt": "nvidia-cusparselt-cu13",
    "libcutensor": "cutensor-cu13",
    "libnccl": "nvidia-nccl-cu13",
    "libnpp": "nvidia-npp",
    "libnvJitLink": "nvidia-nvjitlink",
    "libnvToolsExt": "nvidia-nvtx",
    "libnvjpeg": "nvidia-nvjpeg",
    "libnvrtc": "nvidia-cuda-nvrtc",
    "libnvshmem": "nvidia-nvshmem-cu13",
    "libnvvm": "nvidia-nvvm",
}
_NUMBERED_BY_TOOLKIT = ("libcublas", "libcublasLt", "libnvblas", "libnvrtc", "libnvJitLink", "libnvjpeg", "libnpp")
_OF_THE_DRIVER = ("libnvidia-", "libcudadebugger", "libnvcuvid", "libnvoptix")
_WITHOUT_KERNELS = ("libcufile", "libcupti", "libnvJitLink", "libnvToolsExt", "libnvrtc", "libnvvm")
_TOOLKIT = 13  # whose runtime sglab stands in for


@dataclass(frozen=True)
class Missing:
    """A library that was not found. needed_by: what asks for it: the program, a library; nothing if it was opened."""

    name: str
    needed_by: tuple[str, ...] = ()

    def __str__(self) -> str:
        need = "needs" if len(self.needed_by) == 1 else "need"
        who = f", which {' and '.join(self.needed_by)} {need}" if self.needed_by else ""
        return f"{self.name}{who}: {remedy(self.name)}"


def is_of_a_gpu(name: str) -> bool:
    """Whether a library's name is one of CUDA's, NVIDIA's driver's, or of what comes with them."""
    return _stem(name) is not None or name.startswith((*_RUNTIME, *_OF_THE_DRIVER))


def _stem(name: str) -> str | None:
    """The entry of _WHEELS: also of libcudnn_ops, libnppial, libnvrtc-builtins."""
    fitting = (stem for stem in _WHEELS if re.match(rf"{stem}(?![A-Za-z])|libnpp", name) and name.startswith(stem))
    return max(fitting, key=len, default=None)


def remedy(name: str) -> str:
    """What to do about a library that is missing."""
    if name.startswith(_RUNTIME):
        return (
            f"sglab stands in for libcudart.so.{_TOOLKIT} and libcuda.so.1 alone. Compile the program again, with nvcc "
            f"{_TOOLKIT} and -cudart shared"
        )
    if name.startswith(_OF_THE_DRIVER):
        return "it comes with NVIDIA's driver, which needs a GPU. Build the program without it"
    stem = _stem(name)
    if stem is None:
        return "install the package that has it, or name its folder in LD_LIBRARY_PATH"
    found = re.search(r"\.so\.(\d+)", name)
    older = found and int(found[1]) < _TOOLKIT and stem in _NUMBERED_BY_TOOLKIT
    wheel = f"{_WHEELS[stem]}-cu{found[1]}" if found and older else _WHEELS[stem]
    text = f"pip install {wheel}, and name the folder of the library in LD_LIBRARY_PATH"
    if stem in _WITHOUT_KERNELS:
        return text
    return (
        f"{text}. Its kernels that have no PTX cannot run here, and fail when they are launched: what computes should "
        "come from the program's own source, CUTLASS or CUB"
    )


def missing_libraries(program: Path, env: Mapping[str, str]) -> list[Missing]:
    """What the dynamic linker would not find of a program, asked of itself with the environment of the run: so
    paths in the program, LD_LIBRARY_PATH and libraries' own needs count as when it runs."""
    dynamic = dynamic_of(program)
    if dynamic is None or not Path(dynamic.interpreter).name.startswith("ld-linux"):  # others would run it
        return []
    asked = subprocess.run(
        [dynamic.interpreter, str(program.resolve())],
        env={**env, "LD_TRACE_LOADED_OBJECTS": "1"},
        capture_output=True,
        text=True,
    )
    listed = dict(_LISTED.findall(asked.stdout))
    absent = [name for name, place in listed.items() if place == "not found"]
    users: dict[str, Dynamic | None] = {program.name: dynamic}
    users |= {name: dynamic_of(Path(place)) for name, place in listed.items() if place != "not found"}
    return [Missing(name, tuple(user for user, its in users.items() if its and name in its.needed)) for name in absent]


def require_libraries(program: Path, env: Mapping[str, str]) -> None:
    """Refuses a program before it runs that could not start or find sglab's runtime.

    Raises:
        GpuError: libraries are missing, which it names with what needs them and what to do; or NVIDIA's runtime is in
            the program.
    """
    if not program.is_file():
        return  # the system says so
    missing = missing_libraries(program, env)
    if missing:
        raise GpuError(f"{program.name} cannot start; missing here:\n" + _lines(missing))
    dynamic = dynamic_of(program)
    if dynamic is not None and _STATIC_RUNTIME in program.read_bytes():
        raise GpuError(
            f"{program.name} has NVIDIA's CUDA runtime in it (nvcc -cudart static, the default), and so cannot find "
            "sglab's. Compile it again with -cudart shared"
        )


def libraries_not_opened(output: str, searches: Iterable[str]) -> list[Missing]:
    """GPU libraries that a program looked for while it ran and did not get.

    Args:
        output: what it said.
        searches: what the dynamic linker said of its searches (LD_DEBUG=libs), by process.
    """
    names = dict.fromkeys(name for name in _ABSENT.findall(output) if is_of_a_gpu(name))
    for text in searches:
        opened = {name for _, name in _OPENED.findall(text)}
        wanted = (name for _, name in _SEARCHED.findall(text) if name not in opened and is_of_a_gpu(name))
        names |= dict.fromkeys(wanted)
    return [Missing(name) for name in names]


def said_of(missing: Sequence[Missing]) -> str:
    """Libraries that a program did not get, for people; nothing if there are none."""
    return f"sglab: the program looked for libraries that are not here:\n{_lines(missing)}\n" if missing else ""


def _lines(missing: Sequence[Missing]) -> str:
    return "\n".join(f"  {one}" for one in missing)
