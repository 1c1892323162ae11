"""bfloat16 under Triton's interpreter.

The interpreter keeps bfloat16 values as uint16 and computes on those integers, which is silently wrong by any factor.
So a launch's bfloat16 tensors are widened to float32 first (exact), and what the kernel changed is rounded to bfloat16
afterwards (to nearest even). Rounding inside the kernel does not happen: results are at least as precise as on a GPU.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sglab.gpu.errors import LaunchError
from sglab.triton.routing import tensors


class Promotion:
    """float32 stand-ins for the storages behind a launch's bfloat16 tensors.

    Args:
        arguments: the launch's arguments with every bfloat16 tensor replaced; the others are the caller's own objects.
    """

    def __init__(self, kernel: str, arguments: Mapping[str, Any]) -> None:
        import torch

        self._torch = torch
        self._wide: dict[int, tuple[Any, Any]] = {}  # storage address -> (bfloat16 view, float32 stand-in)
        self._refuse_mixed(kernel, arguments)
        self.arguments = {name: self._replace(value) for name, value in arguments.items()}

    @property
    def active(self) -> bool:
        return bool(self._wide)

    def places(self, address: int, nbytes: int) -> tuple[int, int]:
        """Where the kernel finds what the caller has at an address: itself, or its stand-in."""
        for begin, (narrow, wide) in self._wide.items():
            offset = address - begin
            if 0 <= offset < narrow.nbytes:
                return wide.data_ptr() + 2 * offset, 2 * nbytes
        return address, nbytes

    def write_back(self) -> None:
        """Rounds into the caller's tensors what the kernel changed; untouched elements keep their exact bits."""
        for narrow, wide in self._wide.values():
            changed = wide.view(self._torch.int32) != narrow.float().view(self._torch.int32)
            narrow[changed] = wide[changed].bfloat16()

    def _refuse_mixed(self, kernel: str, arguments: Mapping[str, Any]) -> None:
        seen: dict[int, tuple[str, Any]] = {}
        for name, tensor in tensors(arguments):
            if not isinstance(tensor, self._torch.Tensor) or tensor.untyped_storage().nbytes() == 0:
                continue
            first, dtype = seen.setdefault(tensor.untyped_storage().data_ptr(), (name, tensor.dtype))
            if dtype != tensor.dtype and self._torch.bfloat16 in {dtype, tensor.dtype}:
                raise LaunchError(
                    f"{kernel}: {first} ({dtype}) and {name} ({tensor.dtype}) share memory, and Triton's interpreter "
                    "can run bfloat16 only on a widened copy. Use the emulator or a GPU, or clone one of them"
                )

    def _replace(self, value: Any) -> Any:
        if isinstance(value, tuple):
            items = [self._replace(item) for item in value]
            return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
        if hasattr(value, "base") and hasattr(value, "block_shape"):
            from triton.tools.tensor_descriptor import TensorDescriptor

            base = self._replace(value.base)
            return TensorDescriptor(base, value.shape, value.strides, value.block_shape, value.padding)
        if isinstance(value, self._torch.Tensor) and value.dtype == self._torch.bfloat16:
            return self._widen(value)
        return value

    def _widen(self, tensor: Any) -> Any:
        storage = tensor.untyped_storage()
        key = storage.data_ptr()
        if key not in self._wide:
            narrow = self._torch.empty(0, dtype=tensor.dtype).set_(storage)
            self._wide[key] = (narrow, narrow.float())
        return self._wide[key][1].as_strided(tensor.size(), tensor.stride(), tensor.storage_offset())
