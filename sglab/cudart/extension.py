"""CUDA C++ host code as a library in this process, its launches on an emulated device."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sglab.compilers.cache import cached, content_key
from sglab.compilers.nvcc import find_nvcc, nvcc_version, run_nvcc
from sglab.cudart.runtime import LIBRARY, Visit, host_runtime
from sglab.emulator.device import EmulatedDevice
from sglab.gpu.architecture import Architecture
from sglab.gpu.progress import announced


class HostExtension:
    """A shared library built by nvcc: host functions with a C interface, kernels as PTX.

    with extension.on(device, tensors=[x]) as visit:
        extension.library.scale(ctypes.c_void_p(x.data_ptr()), 3)
    visit.reports
    """

    def __init__(self, path: Path) -> None:
        host_runtime()  # its functions must be there before the library needs them
        # DEEPBIND: a CUDA build of torch may have brought NVIDIA's runtime under the same names.
        self.library = ctypes.CDLL(str(path), mode=os.RTLD_NOW | os.RTLD_LOCAL | os.RTLD_DEEPBIND)

    @contextmanager
    def on(self, device: EmulatedDevice, tensors: Sequence[Any] = ()) -> Iterator[Visit]:
        """Within it, what the library launches runs on `device` and may touch `tensors`."""
        with host_runtime().gpu_is(device, tensors, compiled_here=True) as visit:
            yield visit


def build_extension(
    name: str,
    source: str,
    arch: str = "sm_100a",
    options: Sequence[str] = (),
    include: Sequence[str | Path] = (),
    depends: Mapping[str, str] | None = None,
    expect: str = "",
) -> HostExtension:
    """Compiles CUDA C++ with host functions declared extern "C". Kept until source, options or `depends` change.

    Args:
        include: folders for #include; their content does not count for the cache.
        depends: what else the result depends on, such as the versions of included libraries.
        expect: shown to a waiting user, such as "about 70 s and 5 GB, once".

    Raises:
        CompileError: with nvcc's output.
        MissingDependencyError: there is no nvcc.
    """
    number = str(Architecture.parse(arch)).removeprefix("sm_")
    nvcc = find_nvcc()
    flags = [
        *("-std=c++20", "-O3", "-lineinfo", "-shared", "-Xcompiler", "-fPIC", "-cudart", "none", "--no-compress"),
        *("-gencode", f"arch=compute_{number},code=compute_{number}"),
        *options,
    ]
    key = content_key(nvcc_version(nvcc), name, source, *flags, sorted((depends or {}).items()))
    paths = [f"-I{Path(folder).resolve()}" for folder in include]

    def build(folder: Path) -> None:
        (folder / f"{name}.cu").write_text(source)
        linked = [f"-L{LIBRARY.parent}", f"-l{LIBRARY.stem.removeprefix('lib')}"]
        command = [str(nvcc), *flags, *paths, f"{name}.cu", "-o", f"{name}.so", *linked]
        with announced(f"compiling {name} for {arch} with nvcc{f' ({expect})' if expect else ''}"):
            run_nvcc(command, name, folder)

    return HostExtension(cached("extension", key, build) / f"{name}.so")
