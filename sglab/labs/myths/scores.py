"""Statements on scores, masks and merges."""

from __future__ import annotations

import torch

from sglab.kernels import ContractError, decode_attention_fwd, merge_state, merge_state_v2, sparse_attn_func
from sglab.labs.mla_hopper import Call
from sglab.workbench import decode_batch, reference

from .seen import keys_seen
from .statement import Found, statement

HEADS, KEYS, DIM = 2, 40, 16


def _listed(seen: torch.Tensor) -> list[list[int]]:
    """Of each row, the keys that it sees."""
    return [torch.nonzero(row).flatten().tolist() for row in seen]


def _decode(**options: object) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """decode_attention_fwd of one random request: O [heads, dim], LSE [heads], scores [heads, keys], values."""
    random = torch.Generator().manual_seed(1)
    q, k, v = (torch.randn(n, HEADS, DIM, generator=random) for n in (1, KEYS, KEYS))
    out, lse, splits = torch.zeros(1, HEADS, DIM), torch.zeros(1, HEADS), 2
    parts = torch.zeros(1, HEADS, splits, DIM), torch.zeros(1, HEADS, splits)
    indices = torch.tensor([0, KEYS], dtype=torch.int32), torch.arange(KEYS, dtype=torch.int32)
    counts = torch.full((1,), splits, dtype=torch.int32)
    decode_attention_fwd(q, k, v, out, *indices, *parts, counts, splits, 1.0, lse=lse, **options)  # type: ignore[arg-type]
    scores = torch.einsum("hd,khd->hk", q[0].double(), k.double())
    return out[0].double(), lse[0].double(), scores, v.double()


def _mixed(scores: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    return torch.einsum("hk,khd->hd", scores.softmax(-1), values)


@statement(
    "b",
    a=(
        True,
        "With scores of a tenth it is nearly right. Look at the rows below the first: real scores are larger.",
    ),
    b=(False, "Small scores make all LSEs alike, and a merge that spoils them mixes nearly right. Test large ones."),
    c=(False, "More of the same does not help: the error is small for each of them. What would make it large?"),
)
def random_inputs_prove_a_merge() -> Found:
    """A merge whose output agrees with float64 within 0.01 on small inputs from `torch.randn` merges right."""
    random = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(n, 64, generator=random, dtype=torch.float64) for n in (1, 200, 200))
    scale = 64**-0.5
    found, errors = {}, []
    for size in (0.1, 1, 10, 60):
        scores = (q @ k.T)[0] * size
        truth = (scores * scale).softmax(-1) @ v
        halves = [(scores[:100], v[:100]), (scores[100:], v[100:])]
        outs = [((part * scale).softmax(-1) @ value).float()[None, None] for part, value in halves]
        sums = [torch.logsumexp((part - part.max()) * scale, 0) for part, _ in halves]
        twice = [total + scale * (scale * part.max()) for total, (part, _) in zip(sums, halves, strict=True)]
        lse = [each.float().view(1, 1) for each in twice]
        merged = merge_state_v2(outs[0], lse[0], outs[1], lse[1])[0][0, 0]
        errors.append(float((merged - truth).abs().max()))
        found[f"scores × {size}: largest error of the merged output"] = f"{errors[-1]:.4f}"
    assert errors[0] < 0.01
    return max(errors) < 0.01, found


@statement(
    "a",
    a=(False, "The newest token is the last key: everything is before it. With several query tokens it does matter."),
    b=(False, "The length of the request does end the keys, but that is no causal mask: it is the same for every row."),
    c=(True, "Look at the run with one query token: not a bit changes."),
)
def decode_needs_a_causal_mask() -> Found:
    """In decode, with one query token per request, it makes a difference whether the kernel applies a causal mask."""
    same = {}
    for tokens in (1, 4):
        call = Call([100, 300], query_tokens=tokens)
        same[tokens] = torch.equal(call.run(causal=True)[0], call.run(causal=False)[0])
    return not same[1], {f"bit-equal with and without, {tokens} query tokens": equal for tokens, equal in same.items()}


@statement(
    "c",
    a=(True, "Count the keys that change the output: one more."),
    b=(False, "The token itself is counted by some and not by others. Here the w keys before it come on top."),
    c=(False, "w keys before it, and itself. A model's `sliding_window` counts itself, so layers get one less."),
)
def window_of_w(window: int = 2) -> Found:
    """Where an attention layer of SGLang has `sliding_window_size = w`, a token sees w tokens, itself included."""
    batch = decode_batch([6], num_heads=HEADS, kind="mha", head_dim=8, page_size=1)
    batch.layer.sliding_window_size = window
    values, slots = batch.runner.token_to_kv_pool.get_value_buffer(0), batch.slots(0)

    def attend(rows: torch.Tensor) -> torch.Tensor:
        values[slots] = rows
        return reference(batch).o

    (seen,) = _listed(keys_seen(attend, values[slots].clone()))
    return len(seen) == window, {"window": window, "keys that the last of 6 tokens sees": seen}


@statement(
    "b",
    a=(True, "Compare the two errors: with a cap the plain softmax is far away."),
    b=(False, "A cap (such as 30 · tanh(s / 30) in Grok-1), then the mask, then base 2: that is the order."),
    c=(False, "The mask comes there, too, but even without one something else may bend the score."),
)
def scores_are_only_scaled(cap: float = 2.0) -> Found:
    """Between the product q · k and the softmax, a decode kernel does nothing but multiply by the scale and mask."""
    out, _, scores, values = _decode(logit_cap=cap)
    capped = float((out - _mixed(cap * torch.tanh(scores / cap), values)).abs().max())
    plain = float((out - _mixed(scores, values)).abs().max())
    found = {f"kernel with logit_cap={cap:g}, against cap · tanh(s / cap)": f"{capped:.1e}"}
    return plain < 1e-3, {**found, "against the softmax of s": f"{plain:.2f}"}


@statement(
    "a",
    a=(False, "A learned number per head: it takes weight in the softmax and gives no value back."),
    b=(False, "Keys are not touched at all. Compare the output with a sink to the one without: a factor per head."),
    c=(True, "StreamingLLM does keep the first tokens. The `sinks` of gpt-oss are something else: see the output."),
)
def sinks_are_tokens() -> Found:
    """The `sinks` that a kernel takes for gpt-oss are the first tokens of a request, kept when the window moves on."""
    sinks = torch.tensor([0.5, -2.0])
    with_sinks, lse, _, _ = _decode(sinks=sinks)
    plain, lse_plain, _, _ = _decode()
    factor = lse_plain.exp() / (lse_plain.exp() + sinks.double().exp())
    error = float((with_sinks - plain * factor[:, None]).abs().max())
    found = {"sinks": f"{tuple(sinks.shape)}: one number per head"}
    found["plain output × e^lse / (e^lse + e^sink)"] = f"{error:.0e} off"
    return error > 1e-4, {**found, "LSE changed by": f"{float((lse - lse_plain).abs().max()):.0e}"}


@statement(
    "b",
    a=(True, "Row 63 was offered column 100, and 100 is not among the keys that change it."),
    b=(False, "The pattern chooses among the keys before a token. Columns that lie later are masked away."),
    c=(False, "The columns do reach beyond the diagonal in the list: it is the causal mask that takes them away."),
)
def slashes_above_the_diagonal() -> Found:
    """In a causal prefill with a vertical-slash pattern, a token may see keys that stand after it."""
    random = torch.Generator().manual_seed(2)
    q, k, v = (torch.randn(1, 128, 1, 8, generator=random, dtype=torch.float64) for _ in range(3))
    columns = torch.tensor([3, 40, 100], dtype=torch.int32).expand(1, 1, 2, 3).contiguous()
    none, three = torch.zeros(1, 1, 2, dtype=torch.int32), torch.full((1, 1, 2), 3, dtype=torch.int32)
    no_blocks = torch.zeros(1, 1, 2, 1, dtype=torch.int32)

    listed = columns[0, 0, 0].tolist()

    def attend(values: torch.Tensor) -> torch.Tensor:
        all_values = v.float().clone()
        all_values[0, listed] = values
        out = sparse_attn_func(q.float(), k.float(), all_values, none, no_blocks, three, columns, causal=True)
        assert isinstance(out, torch.Tensor)
        return out[0]

    seen = [[listed[i] for i in row] for row in _listed(keys_seen(attend, v[0, listed].float()))]
    found = {f"columns {listed}: row {row} sees": seen[row] for row in (2, 3, 63, 99, 100)}
    return any(key > row for row, keys in enumerate(seen) for key in keys), found


@statement(
    "a",
    a=(True, "Each element is read before it is written, by the same thread. A shifted overlap is refused."),
    b=(True, "True, but the order of the arguments is not why: V and LSE of either side may be the output."),
    c=(False, "It may: compare with the merge into new memory. What is refused is memory that overlaps in part."),
)
def merge_in_place() -> Found:
    """Two partials may be merged into the very memory of one of them."""
    random = torch.Generator().manual_seed(3)
    v_a, v_b = (torch.randn(4, 2, 8, generator=random) for _ in "ab")
    s_a, s_b = (torch.randn(4, 2, generator=random) for _ in "ab")
    fresh = merge_state(v_a, s_a, v_b, s_b)[0]
    base = torch.cat((v_a, torch.zeros(1, 2, 8)))
    over = v_a.clone()
    merge_state(over, s_a, v_b, s_b, v_merged=over)
    try:
        merge_state(base[:4], s_a, v_b, s_b, v_merged=base[1:])
        shifted = "runs"
    except ContractError as error:
        shifted = str(error)
    return torch.equal(over, fresh), {"equal to new memory": torch.equal(over, fresh), "shifted by a row": shifted}
