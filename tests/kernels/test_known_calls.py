"""A call that a check has found right is not checked again; whatever differs from it is."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from sglab.kernels import (
    CascadeLevel,
    ContractError,
    append_paged_kv_cache,
    apply_rope_inplace_with_kvcache,
    cascade_attention,
    decode_attention_cpu,
    flash_attn_with_kvcache,
    known_calls,
)
from sglab.kernels.contract import Contract
from sglab.kernels.decode_attention.contract import DecodeArguments
from sglab.kernels.decode_attention.contract import check as check_decode
from sglab.kernels.gated_activation.contract import check as check_gated
from sglab.kernels.known_calls import call_is_known
from sglab.kernels.launch_cache import MOST, Known
from sglab.kernels.layernorm.contract import check as check_norm
from sglab.kernels.qk_norm_rope.contract import check as check_qk
from sglab.kernels.scoring import Scoring


class Checks:
    """How many calls were checked."""

    count = 0


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> Checks:
    counted, make = Checks(), Contract.__init__

    def counting(contract: Contract, operator: str) -> None:
        counted.count += 1
        make(contract, operator)

    monkeypatch.setattr(Contract, "__init__", counting)
    return counted


def decode(**changes: Any) -> DecodeArguments:
    given = {**TENSORS, **changes}
    scoring = Scoring(given.pop("sm_scale", 0.1), sinks=given.pop("sinks", None))
    return DecodeArguments(**given, scoring=scoring, lse=None)


TENSORS: dict[str, Any] = {
    "q": torch.zeros(2, 4, 16),
    "k_buffer": torch.zeros(9, 2, 16),
    "v_buffer": torch.zeros(9, 2, 16),
    "o": torch.zeros(2, 4, 16),
    "kv_indptr": torch.zeros(3, dtype=torch.int32),
    "kv_indices": torch.zeros(6, dtype=torch.int64),
    "attn_logits": torch.zeros(2, 4, 8, 16),
    "attn_lse": torch.zeros(2, 4, 8),
    "num_kv_splits": torch.ones(2, dtype=torch.int32),
    "max_kv_splits": 8,
}
WRONG: list[dict[str, Any]] = [
    {"q": torch.zeros(2, 3, 16)},
    {"q": TENSORS["q"].transpose(1, 2)},
    {"o": TENSORS["o"].half()},
    {"kv_indptr": TENSORS["kv_indptr"][:2]},
    {"kv_indices": TENSORS["kv_indices"].float()},
    {"max_kv_splits": 4},
    {"sm_scale": -0.1},
    {"sinks": torch.zeros(3)},
    {"k_scale": 0.0},
    {"v_scale": [1.0]},
]


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: next(iter(wrong)))
def test_a_decode(wrong: dict[str, Any], checks: Checks) -> None:
    for _ in range(3):
        check_decode(decode(), False)
    assert checks.count <= 1
    before = checks.count
    for _ in range(2):
        with pytest.raises(ContractError, match="must be"):
            check_decode(decode(**wrong), False)
    assert checks.count == before + 2


def test_a_decode_whose_tensors_moved_and_whose_indices_grew_is_the_same_call(checks: Checks) -> None:
    """A step later: every tensor is new, and there is a slot more for each request."""
    check_decode(decode(), False)
    before = checks.count
    moved = {name: value.clone() for name, value in TENSORS.items() if isinstance(value, torch.Tensor)}
    check_decode(decode(**{**moved, "kv_indices": torch.zeros(8, dtype=torch.int64)}), False)
    assert checks.count == before


def test_contents_are_read_where_they_are_asked_for(checks: Checks) -> None:
    check_decode(decode(), False)
    TENSORS["num_kv_splits"].fill_(9)
    TENSORS["kv_indptr"].copy_(torch.tensor([0, 3, 6]))
    try:
        check_decode(decode(), False)
        with pytest.raises(ContractError, match="num_kv_splits must be from 1 to max_kv_splits = 8"):
            check_decode(decode(), True)
    finally:
        TENSORS["num_kv_splits"].fill_(1)
        TENSORS["kv_indptr"].zero_()


def test_a_norm(checks: Checks) -> None:
    x, residual, weight = torch.zeros(2, 8), torch.zeros(2, 8), torch.ones(8)
    first, again = (check_norm("fused_add_rmsnorm", x, residual, weight, 1e-6, 1.0) for _ in range(2))
    assert checks.count == 1
    assert again.out is x
    assert (again.eps, again.offset) == (first.eps, first.offset) == (1e-6, 1.0)
    with pytest.raises(ContractError, match="x must be memory separate from residual"):
        check_norm("fused_add_rmsnorm", x, x, weight, 1e-6, 1.0)
    with pytest.raises(ContractError, match="eps must be finite"):
        check_norm("fused_add_rmsnorm", x, residual, weight, -1.0, 1.0)


def test_a_gated_activation(checks: Checks) -> None:
    outs = [check_gated("silu_and_mul", torch.zeros(3, 8), "silu").out for _ in range(3)]
    assert checks.count == 1
    assert [tuple(out.shape) for out in outs] == [(3, 4)] * 3
    with pytest.raises(ContractError, match="of an even number of columns"):
        check_gated("silu_and_mul", torch.zeros(3, 7), "silu")


def test_a_fused_store_whose_tensors_moved_is_held_against_the_caches_again() -> None:
    rows, cache = torch.zeros(3, 2, 16), torch.zeros(9, 2, 16)
    positions, slots, turns = torch.arange(3), torch.arange(1, 4), torch.zeros(9, 16)

    def call(key: torch.Tensor) -> None:
        parts = (positions, rows, key, rows.clone(), turns, cache, cache.clone(), slots)
        check_qk(*parts, None, None, 1e-6, True, False)

    for _ in range(3):
        call(rows.clone())
    with pytest.raises(ContractError, match="k_cache must be memory separate from key"):
        call(cache[:3])


def test_calls_that_never_end_are_forgotten() -> None:
    known = Known()
    for key in range(MOST + 1):
        known.add(key)
    assert MOST in known
    assert 0 not in known


def paged(**changes: Any) -> torch.Tensor:
    given: dict[str, Any] = {"check_values": False, "causal": True, **PAGED, **changes}
    out = flash_attn_with_kvcache(**given)
    assert isinstance(out, torch.Tensor)
    return out


PAGED: dict[str, Any] = {
    "q": torch.randn(2, 1, 4, 16),
    "k_cache": torch.randn(3, 4, 2, 16),
    "v_cache": torch.randn(3, 4, 2, 16),
    "cache_seqlens": torch.tensor([7, 3], dtype=torch.int32),
    "page_table": torch.tensor([[1, 0], [2, 0]], dtype=torch.int32),
}
WRONG_PAGED: list[tuple[dict[str, Any], str]] = [
    ({"q": torch.randn(2, 1, 3, 16)}, "divisible by"),
    ({"q": torch.randn(2, 1, 4, 16).half()}, "must be float16"),
    ({"v_cache": torch.randn(2, 4, 2, 16)}, "with pages = 3"),
    ({"page_table": torch.zeros(2, 2, dtype=torch.int64)}, "must be int32"),
    ({"cache_seqlens": torch.tensor([7], dtype=torch.int32)}, "batch = 2"),
    ({"window_size": (-2, 0)}, "window_size must be"),
    ({"softcap": -1.0}, "logit_cap must be"),
    ({"num_splits": 200}, "num_splits must be"),
    ({"sinks": torch.zeros(3)}, "sinks must be"),
]


@pytest.mark.parametrize(
    ("wrong", "message"), WRONG_PAGED, ids=lambda each: each if isinstance(each, str) else next(iter(each))
)
def test_a_public_call_like_one_before_is_not_checked_again_and_any_other_is(
    wrong: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = paged()
    looked: list[str] = []
    shape = Contract._shape

    def counting(contract: Contract, argument: str, *rest: Any) -> None:
        looked.append(argument)
        shape(contract, argument, *rest)

    monkeypatch.setattr(Contract, "_shape", counting)
    assert torch.equal(paged(), first) and not looked
    for _ in range(2):
        with pytest.raises(ContractError, match=message):
            paged(**wrong)
    assert torch.equal(paged(), first)


def test_a_known_call_whose_output_overlaps_its_input_is_refused() -> None:
    """Overlaps are of addresses, which no shape tells."""
    room = torch.randn(2, 2, 1, 4, 16)
    q, out = room[0], room[1]
    paged(q=q, out=out)
    paged(q=q, out=out)
    with pytest.raises(ContractError, match="out must be memory separate from q"):
        paged(q=q, out=q)


def test_a_known_calls_contents_are_checked_where_they_are_asked_for() -> None:
    paged()
    beyond = torch.tensor([[1, 9], [2, 0]], dtype=torch.int32)
    with pytest.raises(ContractError, match=r"page_table must be from 0 to 2; got page_table\[0, 1\] = 9"):
        paged(page_table=beyond, check_values=True)
    with pytest.raises(ContractError, match=r"page_table must be from 0 to 2"):
        paged(page_table=beyond, check_values=None)


def test_a_call_within_a_known_call_is_known_by_itself() -> None:
    """The flag of one call does not reach what its thread calls afterwards, also after an error."""
    paged()
    with pytest.raises(ContractError, match="num_splits must be"):
        paged(num_splits=-1)
    assert not call_is_known()


def test_an_operator_of_operators_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A known cascade's own operators are known with it; one with a level of another shape is not."""
    described: list[int] = []
    key = known_calls._key
    monkeypatch.setattr(known_calls, "_key", lambda *given: described.append(1) or key(*given))
    q, pages = torch.randn(3, 4, 16), torch.randn(8, 2, 4, 2, 16)
    shared = CascadeLevel(*(torch.tensor(each, dtype=torch.int32) for each in ([0, 3], [0, 2], [0, 1], [4])))
    own = CascadeLevel(
        *(torch.tensor(each, dtype=torch.int32) for each in ([0, 1, 2, 3], [0, 1, 2, 3], [2, 3, 4], [1, 2, 3]))
    )

    def attend(*levels: CascadeLevel) -> torch.Tensor:
        described.clear()
        options: dict[str, Any] = {"causal": True, "implementation": "reference", "check_values": False}
        made = cascade_attention(q, pages, levels, **options)
        assert isinstance(made, torch.Tensor)
        return made

    first = attend(shared, own)
    assert len(described) > 1
    attend(shared, own)
    assert torch.equal(attend(shared, own), first)
    assert len(described) == 1
    with pytest.raises(ContractError, match=r"qo_indptr|cu_seqlens_q|batch"):
        attend(shared, replace(own, kv_last_page_len=own.kv_last_page_len[:2]))
    attend(own, own)
    assert torch.equal(attend(shared, own), first)


NEW = torch.randn(2, 2, 1, 2, 16).unbind()
MOVED: dict[str, Any] = {
    "q": torch.randn(2, 1, 4, 16),
    "k_cache": torch.randn(3, 4, 2, 16),
    "v_cache": torch.randn(3, 4, 2, 16),
    "cache_seqlens": torch.tensor([2, 5], dtype=torch.int32),
    "page_table": torch.tensor([[0, 2], [1, 2]], dtype=torch.int32),
}


@pytest.mark.parametrize("new", [{}, {"k": NEW[0], "v": NEW[1]}], ids=["reads", "appends"])
@pytest.mark.parametrize(
    "options", [{}, {"sinks": torch.randn(4)}, {"return_softmax_lse": True}], ids=["plain", "sinks", "lse"]
)
def test_a_known_call_reads_its_own_tensors(new: dict[str, Any], options: dict[str, Any]) -> None:
    """Lengths, pages, keys and sinks of every call are its own: equal to a call that is checked whole."""
    first = {**PAGED, **new, **options, "k_cache": PAGED["k_cache"].clone(), "v_cache": PAGED["v_cache"].clone()}
    for _ in range(2):
        flash_attn_with_kvcache(**first, causal=True, check_values=False)
    others = {**MOVED, **{name: torch.randn(2, 1, 2, 16) for name in new}, **options}
    if "sinks" in options:
        others["sinks"] = torch.randn(4)
    served, whole = ({**others, "k_cache": MOVED["k_cache"].clone()} for _ in range(2))
    results = flash_attn_with_kvcache(**served, causal=True, check_values=False)
    wanted = flash_attn_with_kvcache(**whole, causal=True, check_values=True)
    torch.testing.assert_close(results, wanted, rtol=0, atol=0)
    assert torch.equal(served["k_cache"], whole["k_cache"])


def test_a_known_append_into_what_it_reads_is_refused() -> None:
    """Also where calls are served from the first one's arguments: nothing is written."""
    room = torch.randn(3, 4, 2, 16)
    inside = room[0, :2].unsqueeze(1)
    for _ in range(2):
        paged(k=torch.randn(2, 1, 2, 16), v=NEW[1], k_cache=room)
    before = room.clone()
    with pytest.raises(ContractError, match="flash_attn_with_kvcache: k_cache must be memory separate from k"):
        paged(k=inside, v=NEW[1], k_cache=room)
    assert torch.equal(room, before)


def test_a_known_append_of_pages(checks: Checks) -> None:
    """append_paged_kv_cache finds pages from each call's own indices, and no contract is looked at again."""
    made = [torch.zeros(2, 4, 2, 8) for _ in range(2)]

    def append(k: torch.Tensor, at: list[int], indices: list[int], cache: list[torch.Tensor]) -> None:
        where = (torch.tensor([0, 1]), torch.tensor(at))
        pages = (torch.tensor(indices, dtype=torch.int32), torch.tensor([0, 1, 2], dtype=torch.int32))
        last = torch.tensor([4, 4], dtype=torch.int32)
        append_paged_kv_cache(k, -k, *where, (cache[0], cache[1]), *pages, last, check_values=False)

    for _ in range(2):
        append(torch.randn(2, 2, 8), [0, 1], [0, 1], made)
    before, k = checks.count, torch.randn(2, 2, 8)
    append(k, [3, 2], [1, 0], made)
    assert checks.count == before
    assert torch.equal(made[0][1, 3], k[0]) and torch.equal(made[0][0, 2], k[1])
    assert torch.equal(made[1][1, 3], -k[0]) and torch.equal(made[1][0, 2], -k[1])


def test_what_would_keep_a_calls_tensor_for_others_is_no_template() -> None:
    arguments = decode(sinks=torch.zeros(4))
    tensors = [name for name, value in vars(arguments).items() if isinstance(value, torch.Tensor)]
    with pytest.raises(ValueError, match="DecodeArguments: scoring must be among what changes"):
        known_calls.Template(arguments, *tensors)
    with pytest.raises(ValueError, match="DecodeArguments: q, scoring must be"):
        known_calls.Template(arguments, *tensors[1:])


def test_a_known_rotation_whose_keys_lie_in_the_cache_is_refused() -> None:
    """From the third call on, too, which is served by less than its contract."""
    rows, cache, turns = torch.randn(2, 2, 8), torch.zeros(4, 2, 8), torch.randn(9, 8)
    positions, slots = torch.tensor([1, 5]), torch.tensor([2, 0])

    def rotate(k: torch.Tensor, v: torch.Tensor) -> None:
        caches = (cache, cache.clone())
        where = (turns, positions, slots)
        apply_rope_inplace_with_kvcache(rows.clone(), k, v, *caches, *where, is_neox=True, check_values=False)

    for _ in range(3):
        rotate(rows.clone(), rows.clone())
    for k, v, name in ((cache[:2], rows, "k"), (rows.clone(), cache[2:], "v")):
        before = cache.clone()
        with pytest.raises(ContractError, match=f"k_cache must be memory separate from {name}"):
            rotate(k, v)
        assert torch.equal(cache, before)


def test_a_known_decode_on_the_host_whose_output_lies_in_its_pool_is_refused() -> None:
    pool, q, logits = torch.randn(9, 2, 16), torch.randn(2, 2, 16), torch.empty(2, 2, 1, 17)
    where = (torch.tensor([[3, 4], [5, 6]]), torch.tensor([0, 1]), torch.tensor([2, 1]))

    def decode_into(output: torch.Tensor) -> None:
        decode_attention_cpu(
            *(q, pool, pool.clone(), output, None, None, None, logits, *where, 0.25), check_values=False
        )

    for _ in range(3):
        decode_into(torch.empty_like(q))
    for output, name in ((pool[7:], "k_buffer"), (q, "q")):
        before = output.clone()
        with pytest.raises(ContractError, match=f"output must be memory separate from {name}"):
            decode_into(output)
        assert torch.equal(output, before)
