"""How much attention has to do, from its shapes alone: FLOPs of QKᵀ and PV, bytes of Q, the KV cache and O.

The softmax's own arithmetic is left out, as attention papers do; what a kernel really executes is counted from its
event log (`sglab.roofline.count`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sglab.planning.mla_dims import HEAD_DIM, LATENT_DIM, NUM_HEADS
from sglab.roofline.work import Work

_DTYPES = {"float16": (2, "bf16"), "bfloat16": (2, "bf16"), "float8_e4m3fn": (1, "fp8"), "float32": (4, "fp32")}
"""dtype -> bytes of an element, the arithmetic that it is multiplied with."""


def decode(
    seq_lens: int | Sequence[int],
    *,
    num_heads: int = 32,
    num_kv_heads: int = 8,
    head_dim: int = 128,
    q_len: int = 1,
    dtype: Any = "bfloat16",
    kv_dtype: Any = None,
) -> Work:
    """Decode of a batch: each request's new tokens read its whole KV cache.

    Args:
        seq_lens: tokens of each request; a number: one request.
        num_kv_heads: equal to num_heads is MHA, 1 is MQA, between them GQA.
        q_len: new tokens per request: 1, or what a verification of drafts has.
        dtype: of Q and O: float16, bfloat16, float8_e4m3fn or float32.
        kv_dtype: of the KV cache; None: the same.

    Raises:
        ValueError: naming the argument.
    """
    lengths = _lengths("seq_lens", seq_lens)
    _heads(num_heads, num_kv_heads)
    q_len, head_dim = _whole("q_len", q_len), _whole("head_dim", head_dim)
    size, pipe = _dtype("dtype", dtype)
    kv_size, _ = _dtype("kv_dtype", dtype if kv_dtype is None else kv_dtype)
    rows = len(lengths) * q_len
    flops = 4.0 * num_heads * head_dim * q_len * sum(lengths)
    nbytes = 2.0 * num_kv_heads * head_dim * kv_size * sum(lengths) + 2.0 * num_heads * head_dim * size * rows
    return Work({pipe: flops}, nbytes)


def prefill(
    extend_lens: int | Sequence[int],
    prefix_lens: int | Sequence[int] = 0,
    *,
    num_heads: int = 32,
    num_kv_heads: int = 8,
    head_dim: int = 128,
    dtype: Any = "bfloat16",
) -> Work:
    """Prefill of a batch under a causal mask: new token i of a request sees its prefix and the tokens 0 … i.

    Args:
        extend_lens: new tokens of each request; a number: one request.
        prefix_lens: tokens of each that are in the KV cache already; a number: the same for all.
        num_heads, num_kv_heads, head_dim, dtype: as of `decode`.

    Raises:
        ValueError: naming the argument.
    """
    new = _lengths("extend_lens", extend_lens)
    before = [prefix_lens] * len(new) if isinstance(prefix_lens, int) else list(prefix_lens)
    if len(before) != len(new) or any(not isinstance(each, int) or each < 0 for each in before):
        raise ValueError(f"prefix_lens: expected {len(new)} integers from 0, as extend_lens has; got {prefix_lens!r}")
    _heads(num_heads, num_kv_heads)
    size, pipe = _dtype("dtype", dtype)
    pairs = sum(count * prefix + count * (count + 1) / 2 for count, prefix in zip(new, before, strict=True))
    keys = sum(new) + sum(before)
    flops = 4.0 * num_heads * _whole("head_dim", head_dim) * pairs
    return Work({pipe: flops}, 2.0 * head_dim * size * (num_kv_heads * keys + num_heads * sum(new)))


def mla_decode(
    seq_lens: int | Sequence[int],
    *,
    num_heads: int = NUM_HEADS,
    q_len: int = 1,
    dtype: Any = "bfloat16",
    kv_dtype: Any = None,
) -> Work:
    """Absorbed MLA decode: all heads read one row of 576 numbers per token, whose first 512 are the values, too.

    Args:
        seq_lens: tokens of each request; a number: one request.
        num_heads: query heads on this GPU: 128 of DeepSeek-V3 divided by the ranks that share them.
        q_len, dtype, kv_dtype: as of `decode`.

    Raises:
        ValueError: naming the argument.
    """
    lengths = _lengths("seq_lens", seq_lens)
    num_heads, q_len = _whole("num_heads", num_heads), _whole("q_len", q_len)
    size, pipe = _dtype("dtype", dtype)
    kv_size, _ = _dtype("kv_dtype", dtype if kv_dtype is None else kv_dtype)
    rows = len(lengths) * q_len
    flops = 2.0 * num_heads * (HEAD_DIM + LATENT_DIM) * q_len * sum(lengths)
    nbytes = float(HEAD_DIM * kv_size * sum(lengths) + num_heads * (HEAD_DIM + LATENT_DIM) * size * rows)
    return Work({pipe: flops}, nbytes)


def _lengths(name: str, given: int | Sequence[int]) -> list[int]:
    lengths = [given] if isinstance(given, int) else list(given)
    if not lengths or any(isinstance(each, bool) or not isinstance(each, int) or each < 1 for each in lengths):
        raise ValueError(f"{name}: expected an integer from 1, or a list of such; got {given!r}")
    return lengths


def _whole(name: str, value: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{name}: expected an integer from 1; got {value!r}")
    return value


def _heads(num_heads: int, num_kv_heads: int) -> None:
    if _whole("num_heads", num_heads) % _whole("num_kv_heads", num_kv_heads):
        raise ValueError(f"num_kv_heads: expected a divisor of num_heads={num_heads}; got {num_kv_heads}")


def _dtype(name: str, dtype: Any) -> tuple[int, str]:
    found = _DTYPES.get(str(dtype).removeprefix("torch."))
    if found is None:
        raise ValueError(f"{name}: expected one of {', '.join(_DTYPES)}; got {dtype!r}")
    return found
