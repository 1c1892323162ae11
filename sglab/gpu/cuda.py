"""An NVIDIA GPU through the CUDA driver: the same PTX, compiled by the driver, launched on torch's current stream."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from functools import cache
from typing import Any

from sglab.gpu import core
from sglab.gpu.architecture import Architecture
from sglab.gpu.device import Launch
from sglab.gpu.entry_text import meets_as_a_grid
from sglab.gpu.errors import GpuError, LaunchError, missing
from sglab.gpu.fault import KernelError
from sglab.gpu.geometry import check_smem
from sglab.gpu.progress import announced
from sglab.gpu.ptx import Entry, Ptx
from sglab.gpu.tensor_map import TiledEncoding

_LOG_BYTES = 16_384


@cache
def driver() -> Any:
    """cuda.bindings.driver, with a driver behind it."""
    try:
        from cuda.bindings import driver as bindings
    except ImportError:
        raise missing("cuda-bindings", "gpu", "CudaDevice") from None
    try:
        (status,) = bindings.cuInit(0)
    except RuntimeError as error:  # libcuda.so is not there
        raise GpuError(_no_gpu(str(error).splitlines()[0])) from None
    if status != bindings.CUresult.CUDA_SUCCESS:
        raise GpuError(_no_gpu(status.name))
    return bindings


@cache
def driver_function(name: str) -> int:
    """The address of a driver's function, as of CUDA 12.

    Raises:
        GpuError: an older driver, which has none of this name.
    """
    status, address, *_ = driver().cuGetProcAddress(name.encode(), 12_000, 0)
    if status != driver().CUresult.CUDA_SUCCESS or not address:
        raise GpuError(f"{name} is not there ({status.name}): sglab launches through the driver of CUDA 12 or newer")
    return int(address)


def _no_gpu(reason: str) -> str:
    return (
        f"no NVIDIA GPU can be used here ({reason}): CudaDevice needs a GPU and its driver. "
        "gpu.EmulatedDevice('sm_100a') runs the same PTX on this machine's CPU"
    )


def current_stream(index: int) -> int:
    """torch's, of GPU `index`, without the object that `torch.cuda.current_stream` makes of it at every call."""
    import torch

    return int(torch._C._cuda_getCurrentRawStream(index))


@dataclass
class _Bound:
    """A launch as the driver takes it: `pointers` lead to each parameter's place in `buffer`, which holds `params`. A
    launch and those moved from it share one.

    Attributes:
        addresses: of configuration, function and pointers.
    """

    addresses: tuple[int, int, int]
    function: Any
    configuration: Any
    pointers: Any
    buffer: Any
    params: bytes


class CudaDevice:
    """GPU number `index`. It shares torch's context, so tensors on `cuda:index` can be passed as they are.

    Raises:
        GpuError: there is no such GPU, or no driver.
        MissingDependencyError: cuda-bindings is not installed.
    """

    def __init__(self, index: int = 0) -> None:
        self._driver = driver()
        count = self._call("cuDeviceGetCount")
        if not 0 <= index < count:
            raise GpuError(f"CudaDevice: index must be 0 to {count - 1}; got {index}")
        self.index = index
        self._handle = self._call("cuDeviceGet", index)
        attribute = self._driver.CUdevice_attribute
        major = self._attribute(attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)
        minor = self._attribute(attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)
        self.arch = Architecture.parse(f"sm_{major}{minor}{'a' if major >= 9 else ''}")
        self.sms: int = self._attribute(attribute.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)
        self._context = self._call("cuDevicePrimaryCtxRetain", self._handle)
        self._launcher = core.Launcher(*self._entries())
        self._functions: dict[tuple[int, str], tuple[Any, int]] = {}
        self._modules: dict[int, tuple[Any, Any]] = {}  # id of our Module -> (it, the driver's)

    @property
    def torch_device(self) -> str:
        return f"cuda:{self.index}"

    @property
    def name(self) -> str:
        text = self._call("cuDeviceGetName", 128, self._handle).split(b"\0")[0].decode()
        return f"{text} ({self.torch_device})"

    def encode(self, encoding: TiledEncoding) -> bytes:
        d, e = self._driver, encoding
        tensor_map = self._call(
            "cuTensorMapEncodeTiled",
            d.CUtensorMapDataType(e.data_type),
            len(e.global_dim),
            e.address,
            [d.cuuint64_t(value) for value in e.global_dim],
            [d.cuuint64_t(value) for value in e.global_strides],
            [d.cuuint32_t(value) for value in e.box_dim],
            [d.cuuint32_t(value) for value in e.element_strides],
            d.CUtensorMapInterleave(e.interleave),
            d.CUtensorMapSwizzle(e.swizzle),
            d.CUtensorMapL2promotion(e.l2_promotion),
            d.CUtensorMapFloatOOBfill(e.oob_fill),
        )
        return b"".join(int(word).to_bytes(8, "little") for word in tensor_map.opaque)

    def run(self, launch: Launch) -> None:
        launch.check_memory()
        bound = launch.bound.get(self)
        if bound is None:
            self._call("cuCtxSetCurrent", self._context)
            bound = launch.bound[self] = self._bind(launch)
        if bound.params is not launch.params:
            ctypes.memmove(bound.buffer, launch.params, len(launch.params))
            bound.params = launch.params
        configuration, function, pointers = bound.addresses
        if status := self._launcher.run(configuration, function, pointers, current_stream(self.index)):
            self.require_success("cuLaunchKernelEx", status)

    def moved_launches(self, tensors: int) -> core.MovedLaunches:
        """Room for launches whose tensors' addresses are put in when they are made (see CudaRelocation)."""
        return core.MovedLaunches(*self._entries(), tensors)

    def _entries(self) -> tuple[int, int, int]:
        return driver_function("cuLaunchKernelEx"), driver_function("cuCtxSetCurrent"), int(self._context)

    def configured(self, launch: Launch) -> tuple[Any, Any]:
        """The driver's function for a launch, loaded, and how it is launched."""
        self._call("cuCtxSetCurrent", self._context)
        return self._function(launch), self._configuration(launch)

    def load(self, kernel: Entry) -> None:
        """Has the driver compile the kernel now, as it cannot while a CUDA graph is captured."""
        self._call("cuCtxSetCurrent", self._context)
        self._loaded(kernel)

    def synchronize(self) -> None:
        self._call("cuCtxSetCurrent", self._context)
        self._call("cuCtxSynchronize", failure=KernelError)

    def _bind(self, launch: Launch) -> _Bound:
        buffer = ctypes.create_string_buffer(launch.params, max(1, len(launch.params)))
        offsets = [parameter.offset for parameter in launch.kernel.params]
        pointers = (ctypes.c_void_p * max(1, len(offsets)))(*(ctypes.addressof(buffer) + offset for offset in offsets))
        function, configuration = self._function(launch), self._configuration(launch)
        addresses = (configuration.getPtr(), int(function), ctypes.addressof(pointers))
        return _Bound(addresses, function, configuration, pointers, buffer, launch.params)

    def _configuration(self, launch: Launch) -> Any:
        d, geometry = self._driver, launch.geometry
        config = d.CUlaunchConfig()
        config.gridDimX, config.gridDimY, config.gridDimZ = geometry.grid
        config.blockDimX, config.blockDimY, config.blockDimZ = geometry.block
        config.sharedMemBytes = geometry.smem
        attributes = []
        # st.async is an illegal instruction where the launch names no cluster, even one of a single CTA.
        if geometry.cluster != (1, 1, 1) or "st.async" in launch.kernel.module.ptx:
            attribute = d.CUlaunchAttribute()
            attribute.id = d.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
            cluster = attribute.value.clusterDim
            cluster.x, cluster.y, cluster.z = geometry.cluster
            attributes.append(attribute)
        if launch.overlaps:
            attribute = d.CUlaunchAttribute()
            attribute.id = d.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
            attribute.value.programmaticStreamSerializationAllowed = 1
            attributes.append(attribute)
        if meets_as_a_grid(launch.kernel.module.ptx, launch.kernel.name):  # without this there is no barrier to meet at
            attribute = d.CUlaunchAttribute()
            attribute.id = d.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_COOPERATIVE
            attribute.value.cooperative = 1
            attributes.append(attribute)
        config.attrs, config.numAttrs = attributes, len(attributes)
        return config

    def _function(self, launch: Launch) -> Any:
        """The driver's function for a launch whose shared memory fits."""
        function, static = self._loaded(launch.kernel)
        check_smem(launch.kernel.name, self.arch, static, launch.geometry.smem)
        return function

    def _loaded(self, kernel: Entry) -> tuple[Any, int]:
        """(function, bytes of static shared memory)"""
        key = (id(kernel.module), kernel.name)
        if key not in self._functions:
            self._functions[key] = self._prepared(kernel)
        return self._functions[key]

    def _prepared(self, kernel: Entry) -> tuple[Any, int]:
        """(function, bytes of static shared memory); it may use all shared memory and clusters of any size."""
        names = self._driver.CUfunction_attribute
        function = self._call("cuModuleGetFunction", self._module(kernel.module), kernel.name.encode())
        static = self._call("cuFuncGetAttribute", names.CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, function)
        opted_in = names.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        self._call("cuFuncSetAttribute", function, opted_in, self.arch.limits.smem - static)
        if self.arch.limits.cluster > 1:
            any_size = names.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED
            self._call("cuFuncSetAttribute", function, any_size, 1)
        return function, static

    def _module(self, module: Ptx) -> Any:
        if id(module) not in self._modules:
            log = bytes(_LOG_BYTES)  # cuda-bindings wants bytes, and the driver writes into them
            option = self._driver.CUjit_option
            options = [option.CU_JIT_ERROR_LOG_BUFFER, option.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES]
            try:
                with announced(f"the driver compiles {module.name} for {self.arch}"):  # and keeps the result
                    text = module.ptx.encode() + b"\0"
                    loaded = self._call("cuModuleLoadDataEx", text, 2, options, [log, _LOG_BYTES])
            except GpuError as error:
                raise LaunchError(
                    f"{module.name}: the driver refused the PTX: {error} {log.rstrip(bytes(1)).decode()}"
                ) from None
            self._modules[id(module)] = (module, loaded)
        return self._modules[id(module)][1]

    def _attribute(self, attribute: Any) -> int:
        return self._call("cuDeviceGetAttribute", attribute, self._handle)

    def _call(self, function: str, *arguments: Any, failure: type[GpuError] = GpuError) -> Any:
        """Calls the driver; its error becomes ours, its only result comes back bare."""
        status, *results = getattr(self._driver, function)(*arguments)
        self._check(function, status, failure)
        return results[0] if results else None

    def require_success(self, function: str, status: int) -> None:
        """
        Raises:
            GpuError: the driver's function gave another CUresult.
        """
        self._check(function, self._driver.CUresult(status))

    def _check(self, function: str, status: Any, failure: type[GpuError] = GpuError) -> None:
        if status != self._driver.CUresult.CUDA_SUCCESS:
            _, text = self._driver.cuGetErrorString(status)
            raise failure(f"{function}: {status.name}, {text.decode() if text else 'no description'}")

    def __repr__(self) -> str:
        return f"<{self.name}>"
