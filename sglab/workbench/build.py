"""One line to data: `decode_batch` and `extend_batch` build pools, run the real allocator and fill live tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sglab.engine import BadArgumentError, ForwardMode, arguments
from sglab.workbench.batch import Batch
from sglab.workbench.options import BatchKeywords, BatchOptions, with_options

if TYPE_CHECKING:
    from typing_extensions import Unpack


@with_options
def decode_batch(
    seq_lens: Sequence[int],
    num_heads: int = BatchOptions.num_heads,
    num_kv_heads: int | None = BatchOptions.num_kv_heads,
    **options: Unpack[BatchKeywords],
) -> Batch:
    """A batch that decodes one token per request, ready for `sglab.attend`.

    Args:
        seq_lens: KV length of each request, the new token included; at least 1.
        num_heads: query heads of this rank.
        num_kv_heads: KV heads; MLA has 1, MHA as many as query heads unless given.
        kind: "mla" (absorbed: one row of kv_lora_rank + qk_rope_head_dim per token) or "mha" (also GQA and MQA).
        page_size: slots per page; 1 allocates token by token.
        dtype: "float16", "bfloat16" or "float32", of queries and pool.
        seed: of all random tensors; equal seeds give equal tensors on every device.
        layout: "contiguous": pages in order. "fragmented": other requests came and went before, in the same allocator.
        shared_prefix: leading tokens that all requests share, through the radix tree (whole pages are shared).
        head_dim, v_head_dim: MHA's. kv_lora_rank, qk_rope_head_dim: MLA's.
        sm_scale: multiplies q . k; (128 + qk_rope_head_dim)**-0.5 for MLA, head_dim**-0.5 for MHA unless given.
        logit_cap: 0 or the cap of tanh capping.
        pool_tokens: slots of the KV pool, a multiple of page_size; some more than needed unless given.
        max_context_len: width of a req_to_token row; max_running_requests: its rows.
        layer_num: layers of the KV pool; the batch runs layer 0.
        device: where everything lives.

    Raises:
        BadArgumentError: an argument nothing could serve. PoolExhaustedError: pool_tokens or the rows do not suffice.
    """
    lengths = arguments.lengths("seq_lens", seq_lens, 1)
    made = BatchOptions(num_heads, num_kv_heads, **options)
    return made.build(lengths, [1] * len(lengths), ForwardMode.DECODE)


@with_options
def extend_batch(
    seq_lens: Sequence[int],
    prefix_lens: int | Sequence[int] = 0,
    num_heads: int = BatchOptions.num_heads,
    num_kv_heads: int | None = BatchOptions.num_kv_heads,
    *,
    decode_seq_lens: Sequence[int] = (),
    **options: Unpack[BatchKeywords],
) -> Batch:
    """A batch that extends each request from `prefix_lens` cached tokens to `seq_lens`.

    Args:
        prefix_lens: tokens already in the pool, one number for all or one each; below seq_lens.
        decode_seq_lens: decoding requests in the same pass: the batch is MIXED, they extend by one token each.

    The other arguments and the errors are those of `decode_batch`.
    """
    lengths = arguments.lengths("seq_lens", seq_lens, 1)
    same = isinstance(prefix_lens, int)
    prefixes = arguments.lengths("prefix_lens", [prefix_lens] * len(lengths) if same else prefix_lens, 0)
    decoding = arguments.lengths("decode_seq_lens", decode_seq_lens, 1) if len(decode_seq_lens) else []
    if len(prefixes) != len(lengths) or any(p >= s for p, s in zip(prefixes, lengths, strict=True)):
        raise BadArgumentError(
            "prefix_lens",
            f"one per request, each below its seq_len {lengths}",
            prefixes,
            "Extend by at least one token.",
        )
    new_tokens = [s - p for p, s in zip(prefixes, lengths, strict=True)] + [1] * len(decoding)
    mode = ForwardMode.MIXED if decoding else ForwardMode.EXTEND
    made = BatchOptions(num_heads, num_kv_heads, **options)
    return made.build(lengths + decoding, new_tokens, mode)
