"""Our own MLA decode on Hopper: csrc/kernels/sm90/mla_decode.cu and the split-KV combine behind it."""

from sglab.kernels.mla_sm90.decode import MlaSm90, mla_decode_sm90

__all__ = ["MlaSm90", "mla_decode_sm90"]
