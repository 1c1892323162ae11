"""Lab 15: absorbed MLA decode, 16 heads that share one KV head of 128 + 32 dims; its first 128 are also the value.

Only kernels may compute: what Python computes from the tensors' values is not there when the launches are judged.
The class is ranked by the modelled time of all launches together, on a B200, for a batch of 200, 77, 130 and 16 tokens.

In Triton: from sglab.triton import triton_kernel, and @triton_kernel in the place of @triton.jit, which needs a GPU.
In CUDA C++: sglab.cuda(text)["entry"][grid, threads](tensors and numbers).
"""

HEADS, LATENT, ROPE, PAGE = 16, 128, 32, 16


def decode(q, kv, page_table, seq_lens, out, scale):
    """Fills out.

    Args:
        q: (requests, 16, 160) float16.
        kv: (pages, 16, 160) float16; pages that no request holds, and what is beyond a request's length, hold anything.
        page_table: (requests, most pages) int32.
        seq_lens: (requests,) int32, at least 1.
        out: (requests, 16, 128) float32.
        scale: of the scores, which are natural (base e).
    """
