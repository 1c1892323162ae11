"""FlashAttention's contract by the packages that hold its kernels, where one is installed on a GPU.

`flash_attn_interface` is FlashAttention 3's own package, `sgl_kernel.flash_attn` SGLang's build of it, which has sinks;
`flash_attn` is FlashAttention 2. Their functions' arguments differ by version, so a call passes those that a function
names, and is refused where it needs another. Sources: the interfaces of flash-attention (hopper/ and flash_attn/) and
of sgl-kernel, and SGLang 0.5.23 `kernels/ops/attention/flash_attention_v3.py`.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch

from sglab.gpu.launch_record import LaunchRecord
from sglab.kernels.flash_attn.contract import UNBOUNDED, FlashAttnArguments

HALVES = (torch.float16, torch.bfloat16)
MOST_DIMS = 256
FA2_PAGE = 256
"""FlashAttention 2 takes pages of a multiple of so many tokens."""


@dataclass(frozen=True)
class Package:
    """One package: its module, its generation, and the compute capabilities that its kernels are for."""

    module: str
    generation: int
    capabilities: tuple[int, ...]


PACKAGES = (
    Package("flash_attn_interface", 3, (8, 9)),
    Package("sgl_kernel.flash_attn", 3, (8, 9)),
    Package("flash_attn", 2, (8, 9, 10, 12)),
)
"""In the order in which they are asked."""


def refuses(a: FlashAttnArguments) -> str | None:
    """Why none of the packages can run a call, or None."""
    if a.device.type != "cuda":
        return "its kernels run on a GPU, and these tensors are on a CPU"
    here = installed()
    if not here:
        return "none of flash_attn_interface, sgl_kernel and flash_attn is installed"
    major = torch.cuda.get_device_capability(a.device)[0]
    reasons = [unfit(a, package, major) for package in here]
    return None if None in reasons else "; ".join(f"{p.module}: {why}" for p, why in zip(here, reasons, strict=True))


@cache
def installed() -> tuple[Package, ...]:
    """The packages that are here; a module within one that is not here has no specification."""

    def found(module: str) -> bool:
        outer = module.partition(".")[0]
        return importlib.util.find_spec(outer) is not None and importlib.util.find_spec(module) is not None

    return tuple(package for package in PACKAGES if found(package.module))


def unfit(a: FlashAttnArguments, package: Package, major: int) -> str | None:
    """Why a package cannot run a call, or None."""
    if major not in package.capabilities:
        return f"its kernels are for compute capability {', '.join(map(str, package.capabilities))}.x, not {major}.x"
    return _unfit_dtype(a, package) or _unfit_shape(a, package) or _unfit_options(a, package)


def _unfit_dtype(a: FlashAttnArguments, package: Package) -> str | None:
    eight = package.generation == 3 and a.q.dtype == torch.float8_e4m3fn
    if a.q.dtype not in HALVES and not eight:
        return f"it does not take {a.q.dtype} queries"
    if a.k.dtype != a.q.dtype:
        return f"keys must have the queries' dtype {a.q.dtype}, not {a.k.dtype}"
    if eight and a.out.dtype != torch.bfloat16:
        return f"its results beside 8-bit queries are bfloat16, not {a.out.dtype}"
    return None


def _unfit_shape(a: FlashAttnArguments, package: Package) -> str | None:
    dims = a.q.shape[-1], a.v.shape[-1]
    if max(dims[0], dims[1] if dims[0] > 64 else 0) > MOST_DIMS or any(dim % 8 for dim in dims):
        return f"it takes heads of multiples of 8 up to {MOST_DIMS} dims, not {dims}"
    wide = dims[0] <= 64 and dims[1] <= 512
    long = 128 < dims[0] <= 192 and 96 < dims[1] <= 128
    if dims[0] != dims[1] and (package.generation == 2 or not (wide or long)):
        return f"it does not take keys of {dims[0]} and values of {dims[1]} dims"
    if package.generation == 2 and a.page_table is not None and a.page_size % FA2_PAGE:
        return f"its pages are multiples of {FA2_PAGE} tokens, not {a.page_size}"
    return None


def _unfit_options(a: FlashAttnArguments, package: Package) -> str | None:
    if a.masking.prefix_lens is not None:
        return "it does not score items apart"
    if a.page_table is not None and a.first_key is not None:
        return "it takes no left padding beside a page table"
    if a.scoring.xai_temperature_len > 0:
        return "it has no temperature"
    if package.generation == 2 and a.page_table is None and torch.cuda.is_current_stream_capturing():
        return "the lengths of ragged keys are compared on the host, which a graph cannot wait for"
    try:
        named = _parameters(package, ragged=a.page_table is None)
    except (ImportError, AttributeError, OSError) as error:
        return f"it cannot be imported ({error})"
    missing = [name for name in needed(a) if name not in named]
    return f"its function has no {', '.join(missing)}" if missing else None


def needed(a: FlashAttnArguments) -> dict[str, Any]:
    """The arguments beyond the plain ones that a call needs."""
    given = {
        "qv": a.qv,
        "q_descale": a.q_descale,
        "k_descale": a.k_descale,
        "v_descale": a.v_descale,
        "sinks": a.scoring.sinks,
        "seqused_q": a.seqlens_q,
        "attention_chunk": a.masking.chunk if a.masking.chunk < UNBOUNDED else None,
    }
    return {name: value for name, value in given.items() if value is not None}


def run(a: FlashAttnArguments) -> tuple[LaunchRecord, ...]:
    """By the first package that takes the call. Its launches are not ours to record."""
    if not a.q.numel():
        return ()
    major = torch.cuda.get_device_capability(a.device)[0]
    package = next(package for package in installed() if unfit(a, package, major) is None)
    out, lse = call(a, package)
    unseen, padding = sees_nothing(a)  # there LSE is +inf or −inf, by version
    a.out.copy_(out.masked_fill((unseen | padding)[:, None, None], 0))
    of_sinks = lse.new_tensor(-torch.inf) if a.scoring.sinks is None else a.scoring.sinks.to(lse.dtype)[:, None]
    a.lse.copy_(torch.where(padding, -torch.inf, torch.where(unseen, of_sinks, lse)))
    a.natural_to_base()
    return ()


def call(a: FlashAttnArguments, package: Package) -> tuple[torch.Tensor, torch.Tensor]:
    """out (tokens, heads, v_dim) and the LSE (heads, tokens), as the package gives them."""
    ragged = a.page_table is None
    named = _parameters(package, ragged)
    left, right = (-1 if side >= UNBOUNDED else side for side in (a.masking.left, a.masking.right))
    options: dict[str, Any] = {
        "softmax_scale": a.scoring.sm_scale,
        "causal": right == 0,
        "window_size": (left, right),
        "softcap": a.scoring.logit_cap,
        **needed(a),
    }
    options |= {name: True for name in ("return_softmax_lse", "return_attn_probs") if name in named}
    if "num_splits" in named:
        options["num_splits"] = a.num_splits
    lengths: dict[str, Any]
    if ragged:
        lengths = _ragged_lengths(a, package, named)
        given = _function(package, ragged)(a.q, a.k[0], a.v[0], **lengths, **options)
    elif package.generation == 2:
        lengths = {
            "cu_seqlens_q": a.cu_seqlens_q,
            "cu_seqlens_k": torch.nn.functional.pad(a.seqlens_k.cumsum(0, dtype=torch.int32), (1, 0)),
            "max_seqlen_q": a.max_seqlen_q,
            "max_seqlen_k": a.capacity,
            "block_table": a.page_table,
        }
        given = _function(package, ragged)(a.q, a.k, a.v, **lengths, **options)
    else:
        lengths = {"cache_seqlens": a.seqlens_k, "page_table": a.page_table, "cu_seqlens_q": a.cu_seqlens_q}
        given = _function(package, ragged)(a.q, a.k, a.v, **lengths, max_seqlen_q=a.max_seqlen_q, **options)
    out, lse = given[:2]
    return out, lse


def _ragged_lengths(a: FlashAttnArguments, package: Package, named: frozenset[str]) -> dict[str, Any]:
    """Where requests' keys start and end in page 0.

    Raises:
        ValueError: some of a request's keys are left out, and the function has no seqused_k.
    """
    assert a.first_key is not None
    keys = a.k.shape[1]
    ends = torch.cat((a.first_key, a.first_key.new_full((1,), keys)))
    made: dict[str, Any] = {"cu_seqlens_q": a.cu_seqlens_q, "cu_seqlens_k": ends}
    made |= {"max_seqlen_q": a.max_seqlen_q, "max_seqlen_k": keys}
    if "seqused_k" in named:
        return {**made, "seqused_k": a.seqlens_k}
    if not torch.equal(ends.diff(), a.seqlens_k):
        raise ValueError(
            f"{a.operator}: seqused_k must be all of a request's keys for {package.module}; got fewer. "
            "Use implementation='auto'."
        )
    return made


def _function(package: Package, ragged: bool) -> Callable[..., Any]:
    """FlashAttention 2 reads pages through its function for ragged batches, which takes a block_table."""
    name = "flash_attn_varlen_func" if ragged or package.generation == 2 else "flash_attn_with_kvcache"
    return getattr(importlib.import_module(package.module), name)


def _parameters(package: Package, ragged: bool) -> frozenset[str]:
    return frozenset(inspect.signature(_function(package, ragged)).parameters)


def sees_nothing(a: FlashAttnArguments) -> tuple[torch.Tensor, torch.Tensor]:
    """bool (tokens,): queries that see no key, and those that are a request's padding."""
    counts = a.cu_seqlens_q.diff().long()
    request = torch.repeat_interleave(torch.arange(len(counts), device=a.device), counts, output_size=len(a.q))
    i = torch.arange(len(a.q), device=a.device) - a.cu_seqlens_q[:-1].long()[request]
    queries = (counts if a.seqlens_q is None else a.seqlens_q.long())[request]
    keys = a.seqlens_k.long()[request]
    p = i + keys - queries
    first, last = (p - a.masking.left).clamp(min=0), torch.minimum(p + a.masking.right, keys - 1)
    if a.masking.chunk < UNBOUNDED:
        start = p.div(a.masking.chunk, rounding_mode="floor") * a.masking.chunk
        first, last = torch.maximum(first, start), torch.minimum(last, start + a.masking.chunk - 1)
    return last < first, i >= queries
