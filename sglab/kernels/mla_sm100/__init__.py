"""Our own MLA decode on Blackwell: csrc/kernels/sm100/mla_decode.cu and the split-KV combine behind it."""

from sglab.kernels.mla_sm100.decode import MlaSm100, mla_decode_sm100
from sglab.kernels.mla_sm100.work import TensorWork, tensor_work

__all__ = ["MlaSm100", "TensorWork", "mla_decode_sm100", "tensor_work"]
