"""Triton kernels that launch where their tensors live: a GPU, the emulator, or Triton's interpreter.

@triton_kernel
def _add(x_ptr, y_ptr, n, BLOCK: tl.constexpr): ...

record = _add[(triton.cdiv(n, 128),)](x, y, n, BLOCK=128, num_warps=4)
record.route, record.reason
"""

from sglab.gpu.launch_record import LaunchRecord
from sglab.triton.kernel import triton_kernel

__all__ = ["LaunchRecord", "triton_kernel"]
