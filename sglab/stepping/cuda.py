"""CUDA C++ and PTX as kernels that launch where their tensors are: `sglab.cuda(source)[grid, block](x, out, n)`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from sglab.compilers.declared import declared_kernels
from sglab.compilers.load import cuda_module, is_cuda, is_ptx
from sglab.emulator.device import EmulatedDevice
from sglab.events.cluster.columns import readable
from sglab.gpu.errors import GpuError, LaunchError
from sglab.gpu.fault import KernelError
from sglab.gpu.geometry import LaunchConfig
from sglab.gpu.module import Kernel, Module
from sglab.gpu.names import source_name
from sglab.gpu.pointer_accesses import contradicts, float_pointers
from sglab.stepping.device import COPIED, DEFAULT_ARCH, arch_of, emulated, gpu, stepped_on
from sglab.stepping.host import HostCopies, as_tensor, gpu_of
from sglab.stepping.launch import KernelLaunch

GRIDS = "kernel[grid, block], kernel[grid, block, smem] or kernel[gpu.LaunchConfig(…)]"


def cuda(
    source: str | Path,
    arch: str | None = None,
    options: Sequence[str] = (),
    include: Sequence[str | Path] = (),
    name: str = "kernel.cu",
) -> Program:
    """CUDA C++ as kernels: `cuda(source)[grid, block](x, out, n)`; of several, `cuda(source)["name"][grid, block](…)`.

    Args:
        source: the text, or a .cu file. Text of one line is text.
        arch: what to compile for; None takes the GPU that the tensors are on, or a B200.
        options, include: for nvcc.
        name: of a text, in the debugger and in messages.

    Raises:
        CompileError: nvcc refused it.
        MissingDependencyError: there is no nvcc.
        GpuError: the source has no kernel, or is no source.
        LaunchError: arch is none; a kernel's name in its place is told where it belongs.
        FileNotFoundError: there is no such file.
    """
    path = _path(source, ".cu", "CUDA C++ text", is_cuda)
    text = str(source) if path is None else path.read_text("utf-8")
    kernels = {entry: [one.name for one in found] for entry, found in declared_kernels(text).items()}
    if arch in kernels:
        raise LaunchError(f'arch: "{arch}" is a kernel of the source: cuda(source)["{arch}"][grid, block](…)')

    def compiled(target: str) -> Module:
        return cuda_module(text if path is None else path, target, options, include, name)

    return Program(compiled, arch, kernels)


def ptx(source: str | Path, name: str = "<ptx>") -> Program:
    """PTX as kernels: the text, or a .ptx file. Used as `cuda` is; it runs on what its .target names.

    Raises:
        GpuError: the source is no PTX, or has no entry.
        FileNotFoundError: there is no such file.
    """
    path = _path(source, ".ptx", "PTX text, with .version and .target", is_ptx)
    module = Module(str(source), name) if path is None else Module(path.read_text("utf-8"), path.name, path.parent)
    return Program(lambda target: module, module.target, {}, typed=False)


def _path(source: str | Path, suffix: str, expected: str, is_text: Any) -> Path | None:
    """The file that is meant; None of a text."""
    if isinstance(source, str) and is_text(source):
        return None
    if isinstance(source, (str, Path)) and str(source).endswith(suffix) and len(str(source)) < 4096:
        path = Path(source)
        if not path.is_file():
            remedy = "Pass its path, or the text itself" if isinstance(source, str) else "Check the name and the folder"
            raise FileNotFoundError(f"source: {path} does not exist in {Path.cwd()}. {remedy}")
        return path
    shown = repr(source) if len(repr(source)) < 80 else f"{repr(source)[:77]}…"
    raise GpuError(f"source: expected {expected}, or a {suffix} file; got {shown}")


class Program(Mapping[str, "OwnKernel"]):
    """The kernels of one source by name; a part of a (mangled) name will do. With one kernel, `program[grid, block]` is
    that kernel's."""

    def __init__(self, compiled: Any, arch: str | None, names: Mapping[str, Sequence[str]], typed: bool = True) -> None:
        self._compiled, self._arch, self._names, self._typed = compiled, arch, names, typed
        self._modules: dict[str, Module] = {}
        module = self.module(arch or DEFAULT_ARCH)
        if not len(module):
            remedy = self._no_instance() or ". A kernel is declared as __global__ void name(…)"
            raise GpuError(
                f"{module.name}: the source has no kernel: no __global__ function and no .entry came out of it{remedy}"
            )

    def module(self, arch: str) -> Module:
        """The PTX for an architecture, unless one was given at the beginning."""
        arch = self._arch or arch
        if arch not in self._modules:
            self._modules[arch] = self._compiled(arch)
        return self._modules[arch]

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            try:
                return OwnKernel(self, self._any()[key].name)
            except GpuError as error:
                raise GpuError(f"{error}{self._no_instance(key)}") from None
        if len(self) > 1:
            names = [source_name(entry) for entry in self]
            listed = ", ".join(names)
            raise LaunchError(
                f"the source has {len(self)} kernels, {listed}: choose one, program[{names[0]!r}][grid, block]"
            )
        return OwnKernel(self, next(iter(self)))[key]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise LaunchError(f"a launch needs sizes: {GRIDS}, then the arguments")

    def __iter__(self) -> Iterator[str]:
        return iter(self._any())

    def __len__(self) -> int:
        return len(self._any())

    def _any(self) -> Module:
        return next(iter(self._modules.values()))

    def _no_instance(self, key: str = "") -> str:
        """What to add for a kernel that the source has as a template only: `key`, or any."""
        wanted = key.partition("<")[0]
        missing = [name for name in self._names if not any(_is(entry, name) for entry in self)]
        found = next((name for name in missing if name == wanted or not wanted), None)
        if found is None:
            return ""
        arguments = key[len(wanted) :] or "<float>"
        return f". {found} is a template without an instance: add template __global__ void {found}{arguments}(…);"

    def short_names(self) -> list[str]:
        """The kernels' names in the source, of those that came out once: a template's instances have one name."""
        return [name for name in self._names if sum(_is(entry, name) for entry in self) == 1]

    def names_of(self, kernel: Kernel) -> list[str]:
        """Its parameters' names in the source; none where it cannot be read."""
        for name, declared in self._names.items():
            if _is(kernel.name, name) and len(declared) == len(kernel.params):
                return list(declared)
        return []

    def check(self, kernel: Kernel, values: Sequence[Any]) -> None:
        """Holds tensors against the accesses of PTX that has no types for its pointers.

        Raises:
            LaunchError: a tensor is of another floating-point type or size than all accesses through its pointer.
        """
        if self._typed or len(values) != len(kernel.params):
            return
        accessed = float_pointers(kernel.module.ptx, kernel.name)
        for index, (parameter, value) in enumerate(zip(kernel.params, values, strict=True)):
            kind = accessed.get(parameter.name)
            tensor = getattr(value, "tensor", value)
            if kind is None or parameter.pointee or not hasattr(tensor, "element_size"):
                continue
            if why := contradicts(kind, str(tensor.dtype), tensor.element_size()):
                raise LaunchError(f"{kernel.name}: argument {index}, {parameter}: {why}")

    def __repr__(self) -> str:
        return f"<kernels {', '.join(map(source_name, self))} for {self._any().target}>"


class OwnKernel:
    """One kernel of a source, for whichever GPU its tensors are on."""

    def __init__(self, program: Program, name: str) -> None:
        self.program, self.name = program, name

    def __getitem__(self, grid: Any) -> Gridded:
        """`kernel[grid, block]`, `kernel[grid, block, smem]`, or `kernel[gpu.LaunchConfig(...)]`; sizes are integers or
        tuples of up to three, smem is dynamic shared memory in bytes."""
        if isinstance(grid, LaunchConfig):
            return Gridded(self, grid)
        if isinstance(grid, tuple) and len(grid) in (2, 3):
            return Gridded(self, LaunchConfig(grid[0], grid[1], smem=grid[2] if len(grid) == 3 else 0))
        raise LaunchError(f"{self.name}: expected {GRIDS}; got kernel[{grid!r}]")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise LaunchError(f"{self.name}: a launch needs sizes: {GRIDS}, then the arguments")

    def __repr__(self) -> str:
        return f"<kernel {source_name(self.name)}: {GRIDS.partition(',')[0]}, block](arguments)>"


class Gridded:
    """A kernel with the sizes of its launch: call it, or hand it to `sglab.step`."""

    def __init__(self, kernel: OwnKernel, config: LaunchConfig) -> None:
        self.kernel, self.config = kernel, config

    def __call__(self, *args: Any, extra: Sequence[Any] = ()) -> KernelLaunch:
        """Runs the kernel where its tensors are, on their GPU or on an emulated one, in place.

        Args:
            args: one per parameter; see Kernel.launch. numpy arrays are tensors here, too.
            extra: tensors that the kernel reaches through pointers inside structs or other tensors.

        Returns:
            the launch, which widgets open: from its beginning, on the memory that it found.

        Raises:
            LaunchError: an argument or a size does not fit.
            KernelError: the kernel failed.
        """
        values, more = [as_tensor(value) for value in args], [as_tensor(value) for value in extra]
        index = gpu_of([*values, *more])
        if index is None:
            target = self.kernel.program.module(DEFAULT_ARCH).target
            launch = self._prepared(values, more, emulated(target), shows=False)
            try:
                launch.report = launch.device.run(launch.launch)
            except KernelError as error:
                note = f"sglab.step({readable(self.kernel.name)}[…], …) opens this launch in the debugger"
                raise KernelError(f"{error}. {note}", error.fault, error.findings) from None
            return launch
        launch = self._prepared(values, more, None, shows=False)
        module = self.kernel.program.module(arch_of(index))
        module[self.kernel.name].launch(gpu(index), self.config, args=values, extra=more)
        return launch

    def prepare(self, args: Sequence[Any], extra: Sequence[Any], device: EmulatedDevice | None) -> KernelLaunch:
        """The launch, checked and packed but not run."""
        return self._prepared([as_tensor(value) for value in args], [as_tensor(value) for value in extra], device)

    def _prepared(
        self, values: list[Any], extra: list[Any], device: EmulatedDevice | None, shows: bool = True
    ) -> KernelLaunch:
        copies, index = HostCopies(), gpu_of([*values, *extra])
        values, extra = [copies.of(value) for value in values], [copies.of(value) for value in extra]
        module = self.kernel.program.module(str(device.arch) if device else arch_of(index))
        device = stepped_on(device, module.target)
        kernel = module[self.kernel.name]
        names = self.kernel.program.names_of(kernel)
        self.kernel.program.check(kernel, values)
        try:
            launch = kernel.prepare(device, self.config, args=values, extra=extra, names=names)
        except LaunchError as error:
            raise LaunchError(str(error).replace(kernel.name, readable(kernel.name))) from None
        names = names or [f"arg{index}" for index in range(len(kernel.params))]
        tensors = {name: one for name, one in zip(names, values, strict=True) if hasattr(one, "untyped_storage")}
        return KernelLaunch.of(device, launch, tensors, (COPIED,) if len(copies) else (), shows)

    def __repr__(self) -> str:
        return f"<{source_name(self.kernel.name)} with {self.config}>"


def _is(entry: str, name: str) -> bool:
    """Whether an entry of PTX is the function of this name in the source."""
    return entry == name or (entry.startswith("_Z") and f"{len(name)}{name}" in entry)
