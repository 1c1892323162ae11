"""flash-linear-attention: recurrences over tokens in Triton, in chunks and step by step; each held against one loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from tools.compatibility.case import Case
from tools.compatibility.families import Family, installed
from tools.compatibility.operators import SHORT, normal, operator
from tools.compatibility.triton_host import pretend

BATCH, TOKENS, HEADS, DIM = 1, 130, 2, 64
BF16, FP32 = torch.bfloat16, torch.float32
LOOSE = 4
"""Of the dtype's tolerance: states are rounded between chunks, and float32 products are made of tf32."""


def family() -> Family:
    version = installed("flash-linear-attention")
    pretend()
    torch.cuda.is_available = lambda: True
    torch.cuda.device_count = lambda: 1
    import fla.ops as ops

    cases = [case for name, *rest in _RULES for case in _rule(ops, name, *rest)]
    return Family("flash-linear-attention (Triton)", version, [*cases, *_attention(ops)])


def _heads(*last: int) -> torch.Tensor:
    return normal(BATCH, TOKENS, HEADS, *last)


def _unit() -> torch.Tensor:
    return F.normalize(_heads(DIM), dim=-1)


def _decay(*last: int) -> torch.Tensor:
    """Logarithms of decays."""
    return F.logsigmoid(_heads(*last) + 2)


def _qkv() -> dict[str, torch.Tensor]:
    return {"q": _heads(DIM), "k": _unit(), "v": _heads(DIM)}


def _rows(**made: Callable[[], torch.Tensor]) -> Callable[[], dict[str, torch.Tensor]]:
    return lambda: {**_qkv(), **{name: make() for name, make in made.items()}}


def _recurrence(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    g: torch.Tensor | None = None,
    beta: torch.Tensor | None = None,
    erased: torch.Tensor | None = None,
    bonus: torch.Tensor | None = None,
    scale: float = DIM**-0.5,
) -> torch.Tensor:
    """What all of these rules are, token by token: a state decays, forgets and takes in k vᵀ; q times it goes out.

    Args:
        g: log decays, of a head or of each of its key dims.
        beta: how much of what the state says of a key is replaced; without it, keys add up.
        erased: (2, ...) the two factors of a rank-one matrix by which the state is multiplied, added to the decay.
        bonus: (heads, dims), by which a token's own key counts more.
    """
    state, out = q.new_zeros(q.shape[0], q.shape[2], k.shape[-1], v.shape[-1]), []
    for i in range(q.shape[1]):
        key, value, before = k[:, i, :, :, None], v[:, i, :, None], state
        if g is not None:
            decay = g[:, i].exp()
            state = state * (decay[..., None] if g.dim() == 4 else decay[..., None, None])
        if erased is not None:
            a, b = erased[0][:, i, :, :, None], erased[1][:, i, :, :, None]
            state = state + b * (a * before).sum(-2, keepdim=True)
        if beta is not None:
            value = beta[:, i, :, None, None] * (value - (key * state).sum(-2, keepdim=True))
        taken = key * value
        seen = before + bonus[..., None] * taken if bonus is not None else state + taken
        state = state + taken
        out.append((scale * q[:, i, :, :, None] * seen).sum(-2))
    return torch.stack(out, 1)


def _rwkv7(r: Any, w: Any, k: Any, v: Any, a: Any, b: Any) -> torch.Tensor:
    return _recurrence(r, k, v, w, erased=(a, b), scale=1.0)  # type: ignore[arg-type]


def _retention(q: Any, k: Any, v: Any) -> torch.Tensor:
    heads = torch.arange(HEADS, dtype=torch.float64)
    return _recurrence(q, k, v, (1 - 2.0 ** (-5 - heads)).log().expand(*q.shape[:3]))


def _removing() -> dict[str, torch.Tensor]:
    key = _unit()
    share = _heads(DIM).sigmoid()
    first = {"r": _heads(DIM), "w": -0.6 * _heads(DIM).sigmoid(), "k": _unit(), "v": _heads(DIM)}
    return {**first, "a": -key, "b": key * share}


_RULES: tuple[Any, ...] = (
    ("chunk_linear_attn", _qkv, _recurrence, {"normalize": False}),
    ("fused_chunk_linear_attn", _qkv, _recurrence, {"normalize": False}),
    ("fused_recurrent_linear_attn", _qkv, _recurrence, {"normalize": False}),
    ("chunk_retention", _qkv, _retention),
    ("fused_recurrent_retention", _qkv, _retention),
    ("parallel_retention", _qkv, _retention),
    ("chunk_simple_gla", _rows(g=_decay), _recurrence),
    ("fused_chunk_simple_gla", _rows(g=_decay), _recurrence),
    ("fused_recurrent_simple_gla", _rows(g=_decay), _recurrence),
    ("parallel_simple_gla", _rows(g=_decay), _recurrence),
    ("chunk_gla", _rows(g=lambda: _decay(DIM)), _recurrence),
    ("fused_recurrent_gla", _rows(gk=lambda: _decay(DIM)), lambda q, k, v, gk: _recurrence(q, k, v, gk)),
    ("chunk_delta_rule", _rows(beta=lambda: _heads().sigmoid()), lambda q, k, v, beta: _recurrence(q, k, v, beta=beta)),
    (
        "fused_recurrent_delta_rule",
        _rows(beta=lambda: _heads().sigmoid()),
        lambda q, k, v, beta: _recurrence(q, k, v, beta=beta),
    ),
    ("chunk_gated_delta_rule", _rows(g=_decay, beta=lambda: _heads().sigmoid()), _recurrence),
    ("fused_recurrent_gated_delta_rule", _rows(g=_decay, beta=lambda: _heads().sigmoid()), _recurrence, {}, False),
    ("chunk_kda", _rows(g=lambda: _decay(DIM), beta=lambda: _heads().sigmoid()), _recurrence),
    ("fused_recurrent_kda", _rows(g=lambda: _decay(DIM), beta=lambda: _heads().sigmoid()), _recurrence, {}, False),
    ("chunk_rwkv7", _removing, _rwkv7),
    ("fused_recurrent_rwkv7", _removing, _rwkv7, {"scale": 1.0}, False),
    (
        "chunk_rwkv6",
        lambda: {
            "r": _heads(DIM), "k": _unit(), "v": _heads(DIM), "w": _decay(DIM), "u": normal(HEADS, DIM),
        },
        lambda r, k, v, w, u: _recurrence(r, k, v, w, bonus=u),
    ),
    (
        "fused_recurrent_rwkv6",
        lambda: {
            "r": _heads(DIM), "k": _unit(), "v": _heads(DIM), "w": _decay(DIM), "u": normal(HEADS, DIM),
        },
        lambda r, k, v, w, u: _recurrence(r, k, v, w, bonus=u),
    ),
)  # fmt: skip
"""Name, what its arguments are, the same in plain torch, further arguments, whether it has a backward pass."""


_BF16_ONLY = ("chunk_delta_rule",)
"""Its host code refuses float32."""


def _rule(
    ops: Any,
    name: str,
    make: Callable[[], dict[str, torch.Tensor]],
    reference: Any,
    how: dict[str, Any] | None = None,
    gradients: bool = True,
) -> list[Case]:
    function = getattr(ops, name)

    def case(dtype: torch.dtype) -> Case:
        drawn = make()

        def made() -> list[torch.Tensor]:
            exact = ("g", "gk", "w", "beta")
            return [one if key in exact else one.to(dtype) for key, one in make().items()]

        def call(*args: torch.Tensor) -> Any:
            result = function(**dict(zip(drawn, args, strict=True)), **(how or {}))
            return result[0] if isinstance(result, tuple) else result

        def expected(*args: torch.Tensor) -> Any:
            return reference(**dict(zip(drawn, args, strict=True)))

        loose = LOOSE if dtype == BF16 else 100
        return operator(f"{name}, {SHORT[dtype]}", made, call, expected, loose, gradients, rounds_to=dtype)

    return [case(BF16)] if name in _BF16_ONLY else [case(BF16), case(FP32)]


def _attention(ops: Any) -> list[Case]:
    """Softmax attention of other kinds."""

    def seen(scores: torch.Tensor) -> torch.Tensor:
        hidden = torch.ones(TOKENS, TOKENS, dtype=torch.bool).triu(1)
        return scores.masked_fill(hidden, -torch.inf)

    def scores(q: Any, k: Any) -> torch.Tensor:
        return torch.einsum("bqhd,bkhd->bhqk", q, k) * DIM**-0.5

    def weighed(weights: Any, v: Any) -> torch.Tensor:
        return torch.einsum("bhqk,bkhd->bqhd", weights, v)

    def forgetting(q: Any, k: Any, v: Any, g: Any) -> torch.Tensor:
        sums = g.cumsum(1).transpose(1, 2)
        return weighed(seen(scores(q, k) + sums[..., :, None] - sums[..., None, :]).softmax(-1), v)

    def stick_breaking(q: Any, k: Any, v: Any) -> torch.Tensor:
        logits = scores(q, k)
        before = torch.ones(TOKENS, TOKENS, dtype=torch.bool).tril(-1)
        left = F.logsigmoid(-logits).masked_fill(~before, 0.0)
        later = left.flip(-1).cumsum(-1).flip(-1) - left
        return weighed((F.logsigmoid(logits) + later).exp().masked_fill(~before, 0.0), v)

    def rows(*more: Callable[[], torch.Tensor]) -> Callable[[], list[torch.Tensor]]:
        return lambda: [*(one.to(BF16) for one in (_heads(DIM), _heads(DIM), _heads(DIM))), *(make() for make in more)]

    def first(result: Any) -> Any:
        return result[0] if isinstance(result, tuple) else result

    return [
        operator(
            "parallel_attn, bf16",
            rows(),
            lambda q, k, v: first(ops.parallel_attn(q, k, v)),
            lambda q, k, v: weighed(seen(scores(q, k)).softmax(-1), v),
            LOOSE,
            True,
            rounds_to=BF16,
        ),
        operator(
            "parallel_forgetting_attn, bf16",
            rows(_decay),
            lambda q, k, v, g: first(ops.parallel_forgetting_attn(q, k, v, g)),
            forgetting,
            LOOSE,
            True,
            rounds_to=BF16,
        ),
        operator(
            "parallel_stickbreaking_attn, bf16",
            rows(),
            lambda q, k, v: first(ops.parallel_stickbreaking_attn(q, k, v)),
            stick_breaking,
            LOOSE,
            True,
            rounds_to=BF16,
        ),
    ]
