"""Launches Triton kernels as compiled PTX on the emulator."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from sglab.compilers.triton_aot import TritonProgram, compile_triton
from sglab.emulator.device import EmulatedDevice
from sglab.gpu.architecture import Architecture
from sglab.gpu.arguments import Allocation, Held
from sglab.gpu.device import Launch
from sglab.gpu.errors import LaunchError
from sglab.gpu.geometry import Geometry, LaunchConfig, make_geometry
from sglab.gpu.module import Kernel, Module
from sglab.gpu.signature import Dim3
from sglab.triton.kept import MOST
from sglab.triton.packing import ParameterPlan
from sglab.triton.routing import storages, tensors
from sglab.triton.specialize import Bound, Specializer, language_is_interpreted

_ABSENT = object()


@dataclass(frozen=True)
class Compiled:
    """One specialisation of a Triton kernel, ready to launch."""

    program: TritonProgram
    kernel: Kernel
    plan: ParameterPlan

    def geometry(self, arch: Architecture, grid: Dim3) -> Geometry:
        program = self.program
        ctas = (grid[0] * program.num_ctas, *grid[1:])
        config = LaunchConfig(ctas, 32 * program.num_warps, (program.num_ctas, 1, 1), program.smem)
        return make_geometry(self.kernel.signature, arch, config)


class Repeatable:
    """A call of plain values and tensors: another one that differs in the tensors' memory alone is launched by it.

    Args:
        values: by parameter, in order; the first `positional` were passed by position, all tensors among them.
    """

    def __init__(self, compiled: Compiled, values: dict[str, Any], positional: int) -> None:
        self._compiled = compiled
        self._names = tuple(values)
        self._rest = tuple(values.values())[positional:]
        self._tensors = [(i, name) for i, (name, one) in enumerate(values.items()) if hasattr(one, "data_ptr")]
        self._numbers, self._addresses = compiled.plan.numbers(values.values())
        self._launches: dict[tuple[Architecture, Dim3], Launch] = {}

    def values(self, args: tuple[Any, ...]) -> dict[str, Any]:
        """The values of all parameters."""
        return dict(zip(self._names, (*args, *self._rest), strict=True))

    def on(self, device: EmulatedDevice, args: tuple[Any, ...], grid: Dim3) -> Launch:
        """The launch of a call with these arguments by position; the grid is not empty."""
        scratch, spans, memory = _scratch(self._compiled.program, grid)
        numbers, held = self._numbers.copy(), []
        for place, (i, name) in zip(self._addresses, self._tensors, strict=True):
            tensor = args[i]
            numbers[place] = address = tensor.data_ptr()
            held.append(Held(name, tensor, address))
            storage = tensor.untyped_storage()
            if nbytes := storage.nbytes():
                spans.append(Allocation(storage.data_ptr(), nbytes, name))
        params = self._compiled.plan.pack_again(numbers, scratch)
        known = self._launches.get(key := (device.arch, grid))
        if known is None:
            if len(self._launches) >= MOST:
                self._launches.clear()
            geometry = self._compiled.geometry(device.arch, grid)
            known = self._launches[key] = Launch(self._compiled.kernel, geometry, b"", ())
        return known.of(params, tuple(spans), (args, memory), tuple(held))


class EmulatedLauncher:
    """Compiles a Triton kernel as its arguments demand, keeps the results, and launches them."""

    def __init__(self, kernel: Any) -> None:
        self._kernel = kernel
        self._compiled: dict[tuple[int, str], Compiled] = {}

    def refusal(self, device: EmulatedDevice, specializer: Specializer, bound: Bound) -> str | None:
        """Why the emulator cannot run this launch; None if it can. Compiles the kernel if that is still to be done.

        Raises:
            CompileError: Triton refuses the kernel, as it would for a GPU.
        """
        if language_is_interpreted():
            return "TRITON_INTERPRET was set when Triton was imported, so nothing can be compiled"
        lacking = device.unsupported(self._get(device, specializer, bound).kernel)
        return f"the emulator lacks {', '.join(lacking)}" if lacking else None

    def launch(self, device: EmulatedDevice, specializer: Specializer, bound: Bound, grid: Dim3) -> Any:
        """Runs the kernel; returns the emulator's report, or None for an empty grid."""
        return None if 0 in grid else device.run(self.prepare(device, specializer, bound, grid))

    def prepare(self, device: EmulatedDevice, specializer: Specializer, bound: Bound, grid: Dim3) -> Launch:
        """The launch, compiled and packed but not run; the grid is not empty."""
        compiled = self._get(device, specializer, bound)
        scratch, spans, memory = _scratch(compiled.program, grid)
        spans += [Allocation(s.data_ptr(), s.nbytes(), name) for name, s in storages(bound.values) if s.nbytes()]
        params = compiled.plan.pack(bound.values.values(), scratch, device.encode)
        kept = [*bound.values.values(), memory]
        held = tuple(Held(name, tensor, tensor.data_ptr()) for name, tensor in tensors(bound.values))
        geometry = compiled.geometry(device.arch, grid)
        return Launch(compiled.kernel, geometry, params, tuple(spans), keep=kept, tensors=held)

    def repeatable(self, device: EmulatedDevice, specializer: Specializer, bound: Bound, positional: int) -> Repeatable:
        """The call, so that others of its kind need no binding; its first arguments were passed by position."""
        return Repeatable(self._get(device, specializer, bound), bound.values, positional)

    def _get(self, device: EmulatedDevice, specializer: Specializer, bound: Bound) -> Compiled:
        key = (device.arch.capability, bound.key)
        if key not in self._compiled:
            specialization = specializer.specialization(bound)
            program = compile_triton(self._kernel, specialization, device.arch.capability)
            kernel = Module(program.ptx, f"{self._kernel.__name__} (Triton)")[program.entry]
            types = list(specialization.signature.values())
            plan = ParameterPlan(types, program.descriptors, kernel.signature)
            self._compiled[key] = Compiled(program, kernel, plan)
        self.check_globals()
        return self._compiled[key]

    def check_globals(self) -> None:
        """Triton compiles global constants in; like Triton, refuse to continue with outdated ones.

        Raises:
            LaunchError: one has another value now.
        """
        for (name, _), (value, namespace) in self._kernel.used_global_vals.items():
            if namespace.get(name, _ABSENT) != value:
                raise LaunchError(
                    f"{self._kernel.__name__}: the global {name} was {value} when the kernel was compiled and is now "
                    f"{namespace.get(name, 'gone')}; pass it as an argument"
                )


def _scratch(program: TritonProgram, grid: Dim3) -> tuple[int, list[Allocation], Any]:
    """Global memory that the kernel asks for by itself: its address, it as an allocation, and what keeps it alive."""
    if not program.scratch:
        return 0, [], None
    import torch

    nbytes = program.scratch * program.num_ctas * prod(grid)
    memory = torch.zeros(nbytes + program.scratch_align, dtype=torch.uint8)
    address = -(-memory.data_ptr() // program.scratch_align) * program.scratch_align
    return address, [Allocation(address, nbytes, "Triton's scratch memory")], memory
