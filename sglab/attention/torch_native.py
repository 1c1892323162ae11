"""torch_native: PyTorch's scaled_dot_product_attention, request by request.

After SGLang 0.5.9 `torch_native_backend.py`. SGLang pads the queries of an extend to the full length and lets
`is_causal` mask them; this passes the mask of the new rows instead.
"""

from __future__ import annotations

import math

import torch

from sglab.attention.capabilities import Capabilities
from sglab.attention.info import ran
from sglab.attention.rows import Span
from sglab.attention.torch_backend import MODES, PerRequestBackend
from sglab.engine import ForwardMode, RadixAttention


class TorchNativeAttnBackend(PerRequestBackend):
    """SDPA has neither a logit cap nor a temperature: layers with either are refused (SGLang ignores both here).

    Nor has it sinks; with them the softmax is written out, in float32.
    """

    name = "torch_native"
    capabilities = Capabilities(
        modes=(*MODES, ForwardMode.TARGET_VERIFY, ForwardMode.DLLM_EXTEND),
        drafts="tree",
        deterministic=True,
        kv_dtypes=("float8_e4m3fn", "float8_e5m2", "fp4_mx_block16"),
        sliding_window=True,
        windows_in_trees=True,
        sinks=True,
        cross_attention=True,
        bidirectional=True,
        triton_helpers=False,
    )

    def attend_one(
        self,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        span: Span,
        layer: RadixAttention,
        sinks: torch.Tensor | None,
    ) -> torch.Tensor:
        operator = "scaled_dot_product_attention" if sinks is None else "softmax_with_sinks"
        ran(operator, "torch", q.device, "PyTorch runs where the tensors are")
        if sinks is None and span.mask is None and q.shape[2] == 1:
            return _attend_one_token(q, k, v, layer)
        grouped = layer.tp_q_head_num != layer.tp_k_head_num
        if layer.is_cross_attention:
            return _attention(q, k, v, None, layer.scaling, grouped)
        keys, positions = _positions(span)
        if span.mask is None:
            visible = (keys <= positions[:, None]) | (not layer.is_causal)
        else:
            visible = span.mask.to(torch.bool)
        if layer.sliding_window_size >= 0:
            visible = visible & (keys >= positions[:, None] - layer.sliding_window_size)  # other layers read the mask
        if sinks is not None:
            return softmax_with_sinks(q[0], k[0], v[0], visible, layer.scaling, sinks)[None]
        return _attention(q, k, v, visible, layer.scaling, grouped)


def _attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, visible: torch.Tensor | None, scaling: float, grouped: bool
) -> torch.Tensor:
    """scaled_dot_product_attention, whose kernel for a CPU gives zeros, not NaN, for a row of NaN logits."""
    out = torch.nn.functional.scaled_dot_product_attention(
        q, k, v, attn_mask=visible, scale=scaling, enable_gqa=grouped
    )
    if out.is_cuda or bool(out.any(-1).all()):
        return out
    keys = k.repeat_interleave(q.shape[1] // k.shape[1], 1) if grouped else k
    logits = q.float() @ keys.float().transpose(-1, -2)
    if visible is not None:
        logits = logits.masked_fill(~visible, 0.0)
    return out.masked_fill(~logits.isfinite().all(-1, keepdim=True), math.nan)


def _positions(span: Span) -> tuple[torch.Tensor, torch.Tensor]:
    """Where a request's tokens stand in its text, int64 [seq_len], and of these the new ones. Drafts of one level of a
    tree stand at the same place: behind as many drafts as they see."""
    keys = torch.arange(len(span.slots), device=span.slots.device)
    if span.mask is not None:
        depths = span.mask[:, span.first_position :].to(torch.int64).sum(-1) - 1
        keys = torch.cat((keys[: span.first_position], span.first_position + depths))
    return keys, keys[span.first_position :]


def softmax_with_sinks(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, visible: torch.Tensor, scaling: float, sinks: torch.Tensor
) -> torch.Tensor:
    """Attention whose denominator counts one more logit per head; in float32, as its sums over many keys need.

    Args:
        q: [heads, new, head_dim]; head h reads KV head h // group.
        k, v: [kv_heads, seq_len, dim].
        visible: bool [new, seq_len].
        sinks: float [heads].

    Returns:
        [heads, new, v_head_dim] in q's dtype.
    """
    grouped = q.float().unflatten(0, (len(k), -1))
    logits = torch.einsum("kgnd,ksd->kgns", grouped, k.float()).flatten(0, 1) * scaling
    logits = logits.masked_fill(~visible, -math.inf)
    denominator = torch.logaddexp(logits.logsumexp(-1), sinks.float()[:, None])
    weights = (logits - denominator[..., None]).exp().unflatten(0, (len(k), -1))
    return torch.einsum("kgns,ksd->kgnd", weights, v.float()).flatten(0, 1).to(q.dtype)


def _attend_one_token(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, layer: RadixAttention) -> torch.Tensor:
    """A decode: the heads that share a KV head become the rows of one query, so that no key is copied per head and no
    mask is needed."""
    if layer.sliding_window_size >= 0:
        k, v = k[:, :, -layer.sliding_window_size - 1 :], v[:, :, -layer.sliding_window_size - 1 :]
    rows = q.view(1, k.shape[1], -1, q.shape[3])
    out = _attention(rows, k, v, None, layer.scaling, grouped=False)
    return out.reshape(1, q.shape[1], 1, -1)  # on a GPU the heads may lie inside the rows
