"""LaunchList: a captured CUDA graph's kernels, copies and fills, launched one by one.

What a pass costs on the host besides its launches (modules, checks, choices, outputs, arguments) was spent while it was
captured. Unlike a replayed graph, every launch stands alone: a profiler, compute-sanitizer or a debugger sees each.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from graphlib import TopologicalSorter
from typing import Any

import torch

from sglab import _core
from sglab.engine.graphs.recorded_graph import GraphCaptureError
from sglab.gpu.cuda import driver, driver_function
from sglab.gpu.errors import GpuError

KEPT_ATTRIBUTES = ("COOPERATIVE", "CLUSTER_DIMENSION")
"""Of a kernel node, where they are set: what a launch is refused or wrong without. What else it may have are wishes (a
priority, how clusters are placed), which cost every launch time, or edges' (programmatic launch): a stream's order
holds without."""


class LaunchList:
    """Nodes in an order that their edges allow. `replay` launches them on torch's current stream.

    Args:
        graph: captured with `keep_graph=True`; its memory is that of its capture, and lives as long as this.

    Raises:
        GraphCaptureError: a node that is neither a kernel nor a copy nor a fill.

    Attributes:
        names: of the launches, in order.
        replays: how often it was replayed.
    """

    def __init__(self, graph: torch.cuda.CUDAGraph) -> None:
        self._graph, self._driver = graph, driver()
        self.names: list[str] = []
        self.replays = 0
        self._configurations: list[Any] = []
        self._steps: list[Callable[[int], None]] = []
        self._launches: Any = None
        for node in self._nodes(graph.raw_cuda_graph()):
            self._add(node)

    def replay(self) -> None:
        """Launch everything again.

        Raises:
            GpuError: the driver refused a launch, which is named.
        """
        stream = torch.cuda.current_stream().cuda_stream
        for step in self._steps:
            step(stream)
        self.replays += 1

    def _nodes(self, graph: int) -> Iterator[Any]:
        number = self._call("cuGraphGetNodes", graph)[1]
        nodes = {int(node): node for node in self._call("cuGraphGetNodes", graph, number)[0]}
        number = self._call("cuGraphGetEdges", graph)[-1]
        sources, targets, *_ = self._call("cuGraphGetEdges", graph, number)
        order: TopologicalSorter[int] = TopologicalSorter({node: [] for node in nodes})
        for source, target in zip(sources, targets, strict=True):
            order.add(int(target), int(source))
        return (nodes[node] for node in order.static_order())

    def _add(self, node: Any) -> None:
        kind = self._call("cuGraphNodeGetType", node)[0].name.removeprefix("CU_GRAPH_NODE_TYPE_")
        if kind == "KERNEL":
            self._add_kernel(node)
        elif kind == "MEMCPY":
            copy = self._call("cuGraphMemcpyNodeGetParams", node)[0]
            self._add_other("copy", lambda stream: self._call("cuMemcpy3DAsync", copy, stream))
        elif kind == "MEMSET":
            fill = self._call("cuGraphMemsetNodeGetParams", node)[0]
            bits, flat = 8 * fill.elementSize, fill.height == 1  # the driver takes no pitch for a single row
            function = f"cuMemsetD{bits}Async" if flat else f"cuMemsetD2D{bits}Async"
            place = (int(fill.dst),) if flat else (int(fill.dst), fill.pitch)
            values = (*place, fill.value, fill.width, *(() if flat else (fill.height,)))
            self._add_other("fill", lambda stream: self._call(function, *values, stream))
        elif kind != "EMPTY":
            raise GraphCaptureError(
                f"a pass with a node of type {kind}: its launches are kernels, copies and fills alone."
            )

    def _add_other(self, name: str, step: Callable[[int], object]) -> None:
        self._launches = None  # the kernels after it are another run of launches
        self.names.append(name)
        self._steps.append(step)  # type: ignore[arg-type]

    def _add_kernel(self, node: Any) -> None:
        d, given = self._driver, self._call("cuGraphKernelNodeGetParams", node)[0]
        config = d.CUlaunchConfig()
        config.gridDimX, config.gridDimY, config.gridDimZ = given.gridDimX, given.gridDimY, given.gridDimZ
        config.blockDimX, config.blockDimY, config.blockDimZ = given.blockDimX, given.blockDimY, given.blockDimZ
        config.sharedMemBytes = given.sharedMemBytes
        config.attrs = attributes = self._attributes(node)
        config.numAttrs = len(attributes)
        library = not int(given.func)  # a kernel of a library that no context was named for
        name = self._call("cuKernelGetName", given.kern) if library else self._call("cuFuncGetName", given.func)
        if self._launches is None:
            self._launches = _core.Launches(driver_function("cuLaunchKernelEx"))
            self._steps.append(functools.partial(self._run, self._launches, len(self.names)))
        function = int(given.kern if library else given.func)
        self._launches.add(config.getPtr(), function, given.kernelParams, given.extra)
        self._configurations.append(config)
        self.names.append(name[0].decode())

    def _attributes(self, node: Any) -> list[Any]:
        d, found = self._driver, []
        for name in KEPT_ATTRIBUTES:
            attribute = d.CUlaunchAttribute()
            attribute.id = getattr(d.CUlaunchAttributeID, f"CU_LAUNCH_ATTRIBUTE_{name}")
            attribute.value = value = self._call("cuGraphKernelNodeGetAttribute", node, attribute.id)[0]
            if value.clusterDim.x if name == "CLUSTER_DIMENSION" else value.cooperative:
                found.append(attribute)
        return found

    def _run(self, launches: Any, first: int, stream: int) -> None:
        status, made = launches.run(stream)
        if status:
            raise GpuError(f"{self.names[first + made]}: {self._driver.CUresult(status).name}")

    def _call(self, function: str, *arguments: Any) -> list[Any]:
        status, *results = getattr(self._driver, function)(*arguments)
        if status != self._driver.CUresult.CUDA_SUCCESS:
            raise GpuError(f"{function}: {status.name}")
        return results
