"""Our own MLA decode on Hopper and Blackwell: csrc/kernels/sm90 and sm100/mla_decode.cu, and the split-KV combine after it."""
