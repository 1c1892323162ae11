"""Our own MLA decode on Hopper and Blackwell: csrc/kernels/sm90 and sm100/mla_decode.cu, and the combine of splits."""

from sglab.kernels.mla.sm90 import MlaSm90, mla_decode_sm90
from sglab.kernels.mla.sm100 import MlaSm100, mla_decode_sm100
from sglab.kernels.mla.table import KERNELS, MlaKernel, kernel_for
from sglab.kernels.mla.tensor_work import TensorWork, tensor_work

__all__ = [
    "KERNELS",
    "MlaKernel",
    "MlaSm90",
    "MlaSm100",
    "TensorWork",
    "kernel_for",
    "mla_decode_sm90",
    "mla_decode_sm100",
    "tensor_work",
]
