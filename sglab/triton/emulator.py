"""Launches Triton kernels as compiled PTX on the emulator."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from sglab.compilers.triton_aot import TritonProgram, compile_triton
from sglab.emulator.device import EmulatedDevice
from sglab.gpu.arguments import Allocation, Held
from sglab.gpu.device import Launch
from sglab.gpu.errors import LaunchError
from sglab.gpu.geometry import LaunchConfig, make_geometry
from sglab.gpu.module import Kernel, Module
from sglab.gpu.signature import Dim3
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
        program = compiled.program
        scratch, spans, memory = _scratch(program, grid)
        spans += [Allocation(s.data_ptr(), s.nbytes(), name) for name, s in storages(bound.values) if s.nbytes()]
        params = compiled.plan.pack(bound.values.values(), scratch, device.encode)
        cluster = (program.num_ctas, 1, 1)
        ctas = (grid[0] * program.num_ctas, *grid[1:])
        signature = compiled.kernel.signature
        geometry = make_geometry(
            signature, device.arch, LaunchConfig(ctas, 32 * program.num_warps, cluster, program.smem)
        )
        kept = [*bound.values.values(), memory]
        held = tuple(Held(name, tensor, tensor.data_ptr()) for name, tensor in tensors(bound.values))
        return Launch(compiled.kernel, geometry, params, tuple(spans), keep=kept, tensors=held)

    def _get(self, device: EmulatedDevice, specializer: Specializer, bound: Bound) -> Compiled:
        key = (device.arch.capability, bound.key)
        if key not in self._compiled:
            specialization = specializer.specialization(bound)
            program = compile_triton(self._kernel, specialization, device.arch.capability)
            kernel = Module(program.ptx, f"{self._kernel.__name__} (Triton)")[program.entry]
            types = list(specialization.signature.values())
            plan = ParameterPlan(types, program.descriptors, kernel.signature)
            self._compiled[key] = Compiled(program, kernel, plan)
        self._check_globals()
        return self._compiled[key]

    def _check_globals(self) -> None:
        """Triton compiles global constants in; like Triton, refuse to continue with outdated ones."""
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
