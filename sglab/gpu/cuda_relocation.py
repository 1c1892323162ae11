"""Launches that were packed once, on other tensors on a GPU: one call into C++ puts addresses in and makes them all."""

from __future__ import annotations

from collections.abc import Sequence

from sglab.gpu.cuda import CudaDevice, current_stream
from sglab.gpu.relocation import Relocation


class CudaRelocation:
    """Several launches of one call.

    Args:
        device: where they run.
        relocations: of the launches, in order, all made for the same tensors.
        tensors: how many these are.
    """

    def __init__(self, device: CudaDevice, relocations: Sequence[Relocation], tensors: int) -> None:
        self._device, self._relocations = device, tuple(relocations)
        self._launches = device.moved_launches(tensors)
        self._configurations = []  # which the launches point to
        for each in self._relocations:
            function, configuration = device.configured(each.launch)
            self._configurations.append(configuration)
            offsets = [parameter.offset for parameter in each.launch.kernel.params]
            maps = [(offset, tensor, into) for offset, _, tensor, into in each.maps]
            address = configuration.getPtr(), int(function)
            self._launches.add(*address, each.launch.params, offsets, each.pointers, maps)

    def run(self, addresses: Sequence[int]) -> None:
        """Make all launches on torch's current stream.

        Args:
            addresses: of the tensors, in the order in which they were given; 0 for what is none.

        Raises:
            GpuError: the driver refused one; those behind it were not made.
        """
        stream = current_stream(self._device.index)
        while (status := self._launches.run(addresses, stream)) < 0:
            for launch, number, address in self._launches.missing(addresses):
                self._launches.know(launch, number, address, self._relocations[launch].encoded(number, address))
        if status:
            self._device.require_success("cuLaunchKernelEx", status)
