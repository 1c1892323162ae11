"""Liger-Kernel: Triton kernels for training, forward and backward."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from tools.compatibility.case import Case
from tools.compatibility.families import Family, installed
from tools.compatibility.operators import SHORT, normal, operator
from tools.compatibility.triton_host import pretend

ROWS, WIDTH = 8, 256
VOCABULARY = 512


def family() -> Family:
    version = installed("liger_kernel")
    pretend()
    from liger_kernel.ops import dyt

    dyt.infer_device = lambda: "cuda"
    return Family("Liger-Kernel (Triton)", version, [*_elementwise(), *_norms(), *_losses(), *_rotary(), *_attention()])


def _elementwise() -> list[Case]:
    from liger_kernel.transformers import functional as liger

    cases = []
    for dtype in (torch.float32, torch.bfloat16):

        def pair(dtype: torch.dtype = dtype) -> list[torch.Tensor]:
            return [normal(ROWS, WIDTH, dtype=dtype), normal(ROWS, WIDTH, dtype=dtype)]

        def one(dtype: torch.dtype = dtype) -> list[torch.Tensor]:
            return [normal(ROWS, WIDTH, dtype=dtype)]

        def dyt(dtype: torch.dtype = dtype) -> list[torch.Tensor]:
            return [*one(dtype), normal(1, dtype=dtype), normal(WIDTH, dtype=dtype), normal(WIDTH, dtype=dtype)]

        kind = SHORT[dtype]
        cases += [
            operator(f"swiglu, {kind}", pair, liger.liger_swiglu, lambda a, b: F.silu(a) * b, 2, True),
            operator(
                f"geglu, {kind}", pair, liger.liger_geglu, lambda a, b: F.gelu(a, approximate="tanh") * b, 2, True
            ),
            operator(f"relu squared, {kind}", one, liger.liger_relu_squared, lambda x: F.relu(x) ** 2, 2, True),
            operator(f"softmax, {kind}", one, liger.liger_softmax, lambda x: x.softmax(-1), 2, True),
            operator(f"sparsemax, {kind}", one, liger.liger_sparsemax, _sparsemax, 2, True),
            operator(f"DyT, {kind}", dyt, liger.liger_dyt, lambda x, a, g, b: g * torch.tanh(a * x) + b, 4, True),
        ]
    return cases


def _norms() -> list[Case]:
    from liger_kernel.transformers import functional as liger

    eps = 1e-5
    cases = []
    for dtype in (torch.float32, torch.bfloat16):

        def affine(dtype: torch.dtype = dtype) -> list[torch.Tensor]:
            return [normal(ROWS, WIDTH, dtype=dtype), *(normal(WIDTH, dtype=dtype) for _ in range(2))]

        def scaled(dtype: torch.dtype = dtype) -> list[torch.Tensor]:
            return affine(dtype)[:2]

        def residual(dtype: torch.dtype = dtype) -> list[torch.Tensor]:
            return [normal(ROWS, WIDTH, dtype=dtype), *affine(dtype)[:2]]

        def poly(dtype: torch.dtype = dtype) -> list[torch.Tensor]:
            return [normal(ROWS, WIDTH, dtype=dtype), normal(3, dtype=dtype), normal(dtype=dtype)]

        def group(dtype: torch.dtype = dtype) -> list[torch.Tensor]:
            return [normal(2, 8, 64, dtype=dtype), normal(8, dtype=dtype), normal(8, dtype=dtype)]

        kind = SHORT[dtype]
        cases += [
            operator(
                f"layer norm, {kind}",
                affine,
                lambda x, w, b: liger.liger_layer_norm(x, w, b, eps),
                lambda x, w, b: F.layer_norm(x, x.shape[-1:], w, b, eps),
                4,
                True,
            ),
            operator(
                f"RMS norm, {kind}",
                scaled,
                lambda x, w: liger.liger_rms_norm(x, w, eps, in_place=False),
                lambda x, w: _rms(x, eps) * w,
                4,
                True,
            ),
            operator(
                f"fused add and RMS norm, {kind}",
                residual,
                lambda x, r, w: liger.liger_fused_add_rms_norm(x, r, w, eps, in_place=False),
                lambda x, r, w: (_rms(x + r, eps) * w, x + r),
                8,
                True,
            ),
            operator(
                f"poly norm, {kind}",
                poly,
                lambda x, w, b: liger.liger_poly_norm(x, w, b, eps, in_place=False),
                lambda x, w, b: sum(w[i] * _rms(x ** (3 - i), eps) for i in range(3)) + b,
                8,
                True,
            ),
            operator(
                f"group norm, {kind}",
                group,
                lambda x, w, b: liger.liger_group_norm(x, w, b, 8, 4, eps),
                lambda x, w, b: F.group_norm(x, 4, w, b, eps),
                8,
                True,
            ),
        ]
    return cases


def _losses() -> list[Case]:
    from liger_kernel.transformers import functional as liger

    def logits() -> list[torch.Tensor]:
        target = torch.randint(0, VOCABULARY, (ROWS,))
        target[1] = -100
        return [normal(ROWS, VOCABULARY), target]

    def head() -> list[torch.Tensor]:
        x, weight = normal(ROWS, 64), normal(VOCABULARY, 64, scale=0.1)
        return [x, weight, torch.randint(0, VOCABULARY, (ROWS,))]

    def distributions() -> list[torch.Tensor]:
        return [normal(ROWS, VOCABULARY).log_softmax(-1), normal(ROWS, VOCABULARY).log_softmax(-1)]

    def probabilities() -> list[torch.Tensor]:
        return [normal(ROWS, VOCABULARY).softmax(-1), normal(ROWS, VOCABULARY).softmax(-1)]

    def targets() -> list[torch.Tensor]:
        return [normal(ROWS, VOCABULARY).log_softmax(-1), normal(ROWS, VOCABULARY).softmax(-1)]

    def jsd(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        mean = torch.log((x.exp() + y.exp()) / 2)
        kl = (
            F.kl_div(mean, x, log_target=True, reduction="sum") + F.kl_div(mean, y, log_target=True, reduction="sum")
        ) / 2
        return kl / len(x)

    return [
        operator("cross entropy", logits, liger.liger_cross_entropy, F.cross_entropy, 2, True),
        operator(
            "cross entropy with label smoothing",
            logits,
            lambda x, t: liger.liger_cross_entropy(x, t, label_smoothing=0.1),
            lambda x, t: F.cross_entropy(x, t, label_smoothing=0.1),
            2,
            True,
        ),
        operator(
            "cross entropy with soft cap",
            logits,
            lambda x, t: liger.liger_cross_entropy(x, t, softcap=5.0),
            lambda x, t: F.cross_entropy(5.0 * torch.tanh(x / 5.0), t),
            4,
            True,
        ),
        operator(
            "fused linear and cross entropy",
            head,
            liger.liger_fused_linear_cross_entropy,
            lambda x, w, t: F.cross_entropy(x @ w.T, t),
            4,
            True,
        ),
        operator("Jensen-Shannon divergence", distributions, lambda x, y: liger.liger_jsd(x, y.detach()), jsd, 4),
        operator("KL divergence", targets, liger.liger_kl_div, lambda x, y: F.kl_div(x, y), 4),
        operator(
            "total variation distance",
            probabilities,
            liger.liger_tvd,
            lambda p, q: (p - q).abs().mean() / 2,
            4,
        ),
    ]


def _rotary() -> list[Case]:
    from liger_kernel.transformers import functional as liger

    tokens, heads, dim = 6, 4, 32

    def inputs(dtype: torch.dtype) -> list[torch.Tensor]:
        angles = torch.outer(torch.arange(tokens), 10_000 ** (-torch.arange(0, dim, 2) / dim)).repeat(1, 2)[None]
        q, k = normal(2, heads, tokens, dim, dtype=dtype), normal(2, heads // 2, tokens, dim, dtype=dtype)
        return [q, k, angles.cos().to(dtype), angles.sin().to(dtype)]

    def turned(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        low, high = x.chunk(2, -1)
        return x * cos[:, None] + torch.cat([-high, low], -1) * sin[:, None]

    return [
        operator(
            f"rotary embedding, {SHORT[dtype]}",
            lambda dtype=dtype: inputs(dtype),
            liger.liger_rope,
            lambda q, k, cos, sin: (turned(q, cos, sin), turned(k, cos, sin)),
            2,
        )
        for dtype in (torch.float32, torch.bfloat16)
    ]


def _attention() -> list[Case]:
    from liger_kernel.transformers import functional as liger

    def inputs() -> list[torch.Tensor]:
        return [normal(4, 2, ROWS, 64), normal(64), torch.ones(64)]

    def residuals(values: torch.Tensor, query: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        scores = torch.einsum("nbtd,d->nbt", _rms(values, 1e-6) * weight, query)
        return torch.einsum("nbt,nbtd->btd", scores.softmax(0), values)

    return [operator("attention over residuals", inputs, liger.liger_attn_res, residuals, 8)]


def _rms(x: torch.Tensor, eps: float) -> torch.Tensor:
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + eps)


def _sparsemax(x: torch.Tensor) -> Any:
    """Projection on the simplex (Martins and Astudillo, 2016, algorithm 1)."""
    descending = x.sort(-1, descending=True).values
    sums = descending.cumsum(-1) - 1
    ranks = torch.arange(1, x.shape[-1] + 1, dtype=x.dtype)
    support = (descending * ranks > sums).sum(-1, keepdim=True)
    return (x - sums.gather(-1, support - 1) / support).clamp(min=0)
