"""Arguments as the emulator takes them: tensors on the CPU, copied from GPUs where they are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sglab.gpu.errors import LaunchError, missing


def is_array(value: Any) -> bool:
    """Whether a value is a numpy array with dimensions."""
    return type(value).__module__ == "numpy" and getattr(value, "ndim", 0) > 0


def as_tensor(value: Any) -> Any:
    """A numpy array as the torch tensor over the same memory; everything else as it is."""
    if not is_array(value):
        return value
    try:
        import torch
    except ImportError:
        raise missing("torch", "torch", "Passing a numpy array to a kernel") from None
    return torch.from_numpy(value)


def gpu_of(values: Iterable[Any]) -> int | None:
    """The number of the GPU that tensors among these are on; None where none is on one.

    Raises:
        LaunchError: they are on several devices.
    """
    found = {str(value.device): value.device for value in values if hasattr(value, "data_ptr")}
    if len(found) > 1:
        listed = ", ".join(sorted(found))
        raise LaunchError(f"all tensors of a launch must be on one device; got {listed}. Use .to(...)")
    for device in found.values():
        if device.type == "cuda":
            return device.index or 0
        if device.type != "cpu":
            raise LaunchError(f"kernels run on CPU and CUDA tensors; got one on {device}. Use .cpu()")
    return None


class HostCopies:
    """Copies of GPU tensors on the CPU. Tensors that share memory do so in their copies, and views keep their offsets,
    so that alignment stays what it was."""

    def __init__(self) -> None:
        self._storages: dict[int, Any] = {}

    def of(self, value: Any) -> Any:
        """The copy of a GPU tensor; of a descriptor, tuple or mapping with such; everything else as it is."""
        if isinstance(value, tuple):
            parts = [self.of(one) for one in value]
            return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
        if isinstance(value, Mapping):
            return {name: self.of(one) for name, one in value.items()}
        if hasattr(value, "base") and hasattr(value, "block_shape"):  # a Triton tensor descriptor
            import dataclasses

            return dataclasses.replace(value, base=self.of(value.base))
        if hasattr(value, "untyped_storage") and value.device.type == "cuda":
            return self._tensor(value)
        return value

    def __len__(self) -> int:
        return len(self._storages)

    def _tensor(self, tensor: Any) -> Any:
        import torch

        storage = tensor.untyped_storage()
        if storage.data_ptr() not in self._storages:
            self._storages[storage.data_ptr()] = storage.cpu()
        copy = torch.empty(0, dtype=tensor.dtype, device="cpu")
        return copy.set_(self._storages[storage.data_ptr()], tensor.storage_offset(), tensor.size(), tensor.stride())
