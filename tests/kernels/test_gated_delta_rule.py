"""The gated delta rule: decoding, prefill, verification; Gated DeltaNet and KDA."""

import pytest
import torch

from sglab.kernels import ContractError, fused_gdn_gating, gated_delta_rule, update_state_after_verify
from sglab.kernels.registry import record_choices
from tests.support.kernels.compare import assert_close

STEPWISE = ["reference", "torch", "triton"]
IMPLEMENTATIONS = [*STEPWISE, "triton_chunks"]


def naive(q, k, v, g, beta, state):
    """One head of one request in float64: q, k (tokens, K), v (tokens, V), g (tokens,) or (tokens, K)."""
    q, k = (x / (x.square().sum(-1, keepdim=True) + 1e-6).sqrt() for x in (q, k))
    h, outputs, states = state.clone(), [], []
    for t in range(len(q)):
        h = torch.diag(g[t].exp().expand(len(h))) @ h
        h = h + torch.outer(k[t], beta[t] * (v[t] - k[t] @ h))
        outputs.append(q[t] @ h / q.shape[1] ** 0.5)
        states.append(h)
    return torch.stack(outputs), torch.stack(states)


def problem(lens, device, generator, key_heads=2, heads=4, K=16, V=24, per_dim=False, dtype=torch.float32):
    tokens = sum(lens)
    q, k = (torch.randn(tokens, key_heads, K, generator=generator).to(device, dtype) for _ in range(2))
    v = torch.randn(tokens, heads, V, generator=generator).to(device, dtype)
    g = -torch.rand(tokens, heads, *((K,) if per_dim else ()), generator=generator).to(device)
    beta = torch.rand(tokens, heads, generator=generator).to(device)
    states = torch.randn(len(lens) + 3, heads, K, V, generator=generator).to(device)
    rows = (torch.randperm(len(lens) + 2, generator=generator)[: len(lens)] + 1).to(device)
    cu = torch.tensor([0, *torch.tensor(lens).cumsum(0)], device=device)
    return q, k, v, g, beta, states, rows, cu


def check(given, before, o, after, steps=None, request_state=None, tolerance=1e-5):
    q, k, v, g, beta, _, rows, cu = (x.double().cpu() for x in given)
    group = v.shape[1] // k.shape[1]
    for request, slot in enumerate(rows.long().tolist()):
        now = slice(*cu.long()[request : request + 2].tolist())
        for head in range(v.shape[1]):
            start = before[slot, head].double().cpu() if request_state is None else request_state
            own = (q[now, head // group], k[now, head // group], v[now, head], g[now, head], beta[now, head])
            wanted, made = naive(*own, start)
            assert_close(o[now, head], wanted, tolerance)
            assert_close(after[slot, head], made[-1], tolerance)
            if steps is not None:
                assert_close(steps[request, : len(made), head], made, tolerance)


@pytest.mark.parametrize("per_dim", [False, True])
@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_ragged_batches(per_dim, implementation, device, generator) -> None:
    """Decoding and extends in one call; the longest spans chunks of 64 on the CPU."""
    given = problem([1, 7, 1, 70], device, generator, per_dim=per_dim)
    before = given[5].clone()
    o = gated_delta_rule(*given, implementation=implementation)
    check(given, before, o, given[5])
    untouched = [slot for slot in range(len(before)) if slot not in given[6].tolist()]
    assert_close(given[5][untouched], before[untouched], 0)


def alike(given, generator):
    """Every key the same, steps of 1, hardly any decay: powers of the chunk's system would grow without bound."""
    q, k, v, g, beta, *rest = given
    return [q, k[:1].expand_as(k), v, g * 1e-3, torch.ones_like(beta), *rest]


def resetting(given, generator):
    """Some gates forget all (−inf), some nearly all, some nothing."""
    q, k, v, g, beta, *rest = given
    drawn = torch.rand(g.shape, generator=generator).to(g.device)
    g = torch.where(drawn < 0.1, -torch.inf, torch.where(drawn < 0.2, -300.0, torch.where(drawn < 0.4, 0.0, g)))
    return [q, k, v, g, beta, *rest]


@pytest.mark.parametrize("change", [alike, resetting])
@pytest.mark.parametrize("per_dim", [False, True])
@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_gates_and_keys_at_their_limits(implementation, per_dim, change, device, generator) -> None:
    given = change(problem([70, 33], device, generator, per_dim=per_dim), generator)
    before = given[5].clone()
    o = gated_delta_rule(*given, implementation=implementation)
    check(given, before, o, given[5], tolerance=2e-5)


@pytest.mark.parametrize("per_dim", [False, True])
def test_chunk_edges(per_dim, device, generator) -> None:
    """Requests that end before, at and after a chunk's end, an empty one, a padded one, and strided rows."""
    lens = [*torch.randperm(3, generator=generator).add(31).tolist(), 0, 97, 5]
    q, k, v, g, beta, states, rows, cu = problem(lens, device, generator, per_dim=per_dim, K=20, V=40)
    q, k = torch.cat([q, k], -1).split(20, -1)
    v = torch.cat([v, torch.full_like(v, torch.nan)], -1)[..., :40]
    before, padded = states.clone(), rows.clone()
    padded[5] = -1
    o = gated_delta_rule(q, k, v, g, beta, states, padded, cu, implementation="triton_chunks")
    assert not o[-5:].any()
    assert_close(states[rows[3]], before[rows[3]], 0)
    assert_close(states[rows[5]], before[rows[5]], 0)
    kept = [0, 1, 2, 4]
    for request in kept:
        now = slice(*cu[request : request + 2].tolist())
        own = (
            q[now],
            k[now],
            v[now],
            g[now],
            beta[now],
            None,
            rows[request : request + 1],
            cu.new_tensor([0, lens[request]]),
        )
        check([x if x is not None else before for x in own], before, o[now], states)
    again = gated_delta_rule(
        *(q, k, v, g, beta, before.clone(), padded, cu), disable_state_update=True, implementation="triton_chunks"
    )
    assert torch.equal(again, o)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.bfloat16, 4e-2), (torch.float16, 5e-3)])
@pytest.mark.parametrize("per_dim", [False, True])
def test_chunks_of_half_precision(per_dim, dtype, tolerance, device, generator) -> None:
    """Against float64 on the same rounded inputs; a state beyond float16's range stays finite."""
    given = problem([3, 130], device, generator, per_dim=per_dim, dtype=dtype)
    given[5][given[6][0]] *= 1e6
    before = given[5].clone()
    o = gated_delta_rule(*given, implementation="triton_chunks")
    assert given[5].isfinite().all()
    wanted = gated_delta_rule(*given[:5], before, *given[6:], implementation="reference")
    assert_close(o[3:], wanted[3:], tolerance)
    assert_close(given[5][given[6][1]], before[given[6][1]], tolerance)
    assert_close(given[5][given[6][0]] / 1e6, before[given[6][0]] / 1e6, tolerance)


def test_what_chunks_refuse(device, generator) -> None:
    """Decoding and the states of drafts go token by token, also where "auto" chooses; the reason is recorded."""
    decoding = problem([1, 1], device, generator)
    with pytest.raises(ValueError, match="there are no chunks"):
        gated_delta_rule(*decoding, implementation="triton_chunks")
    with pytest.raises(ValueError, match="chunks make one state each"):
        steps = torch.zeros(2, 3, 4, 16, 24, device=device)
        given = problem([3, 2], device, generator)
        gated_delta_rule(*given, intermediate_states_buffer=steps, implementation="triton_chunks")
    with record_choices() as choices:
        gated_delta_rule(*decoding)
        gated_delta_rule(*given)
    taken = ["triton", "triton_chunks"] if device.type == "cuda" else ["torch", "torch"]
    assert [choice.implementation for choice in choices] == taken
    assert "there are no chunks" in choices[0].passed_over["triton_chunks"]


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_by_hand(implementation, device) -> None:
    """K = V = 1, q = k = 1, v = 2, decay and beta ½: o = 1, 1.25, 1.3125."""
    one = torch.ones(3, 1, 1, device=device)
    zero = torch.zeros(1, device=device)
    g, beta = fused_gdn_gating(zero, torch.zeros(3, 1, device=device), torch.zeros(3, 1, device=device), zero)
    assert_close(g.exp(), torch.full((3, 1), 0.5), 1e-6)
    state = torch.zeros(1, 1, 1, 1, device=device)
    given = (one, one, 2 * one, g, beta, state, torch.tensor([0], device=device), torch.tensor([0, 3], device=device))
    o = gated_delta_rule(*given, use_qk_l2norm_in_kernel=False, implementation=implementation)
    assert_close(o.flatten(), torch.tensor([1.0, 1.25, 1.3125]), 1e-6)
    assert_close(state.flatten(), torch.tensor([1.3125]), 1e-6)


@pytest.mark.parametrize("implementation", STEPWISE)
def test_verification_of_a_tree(implementation, device, generator) -> None:
    """Drafts 0 → 1 → 3 and 0 → 2 → 4: the state stays; afterwards the accepted draft's becomes it. Padding gives 0."""
    given = problem([5, 5, 2], device, generator)
    before, rows = given[5].clone(), given[6]
    rows[2] = -1
    parents = torch.tensor([[-1, 0, 0, 1, 2]] * 3, dtype=torch.int32, device=device)
    steps = torch.zeros(3, 5, 4, 16, 24, device=device)
    options = {"disable_state_update": True, "intermediate_states_buffer": steps, "retrieve_parent_token": parents}
    o = gated_delta_rule(*given, **options, implementation=implementation)
    assert_close(given[5], before, 0)
    assert not o[10:].any()
    for request in (0, 1):
        for path in ([0, 1, 3], [0, 2, 4]):
            tokens = [request * 5 + step for step in path]
            for head in range(4):
                own = [x[tokens, head // 2].double().cpu() for x in given[:2]]
                own += [x[tokens, head].double().cpu() for x in given[2:5]]
                wanted, made = naive(*own, before[rows[request], head].double().cpu())
                assert_close(o[tokens, head], wanted, 1e-5)
                assert_close(steps[request, path, head], made, 1e-5)
    update_state_after_verify(given[5], rows, steps, torch.tensor([4, -1, 1], device=device))
    assert_close(given[5][rows[0]], steps[0, 4], 0)
    assert_close(given[5][rows[1]], before[rows[1]], 0)


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_a_split_extend_equals_a_whole_one(implementation, device, generator) -> None:
    """And a request without an initial state does not see what the slot's former owner left."""
    given = problem([9], device, generator, dtype=torch.float32)
    states, fresh = given[5], torch.tensor([False], device=device)
    whole = gated_delta_rule(*given, has_initial_state=fresh, implementation=implementation)
    after = states.clone()
    states.fill_(7.0)
    parts = []
    for first, end in ((0, 4), (4, 9)):
        now = [x[first:end] for x in given[:5]]
        cu = torch.tensor([0, end - first], device=device)
        resumed = torch.tensor([first > 0], device=device)
        parts.append(
            gated_delta_rule(*now, states, given[6], cu, has_initial_state=resumed, implementation=implementation)
        )
    assert_close(torch.cat(parts), whole, 1e-5)
    assert_close(states[given[6]], after[given[6]], 1e-5)


def test_refusals(generator) -> None:
    given = problem([2, 1], torch.device("cpu"), generator)
    names = ("q", "k", "v", "g", "beta", "initial_state", "initial_state_indices", "cu_seqlens")
    call = dict(zip(names, given, strict=True))
    for change, message in (
        ({"g": -given[3]}, "g must be at most 0"),
        ({"initial_state_indices": torch.tensor([1, 1])}, "a state per request"),
        ({"initial_state_indices": torch.tensor([1, 9])}, "initial_state_indices must be below 5"),
        ({"v": given[2] / 0}, "v must be finite"),
        ({"initial_state": given[5] / 0}, "initial_state must be finite"),
        ({"q": given[0][:, :1]}, "k must be of shape"),
        ({"retrieve_parent_token": torch.zeros(2, 2).int()}, "intermediate_states_buffer must be given"),
    ):
        with pytest.raises(ContractError, match=message):
            gated_delta_rule(**{**call, **change})
