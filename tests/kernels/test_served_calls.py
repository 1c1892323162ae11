"""Calls that are served from one like them give, bit for bit, what a call that is checked whole gives."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any
from unittest import mock

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sglab.kernels import (
    CascadeLevel,
    ContractError,
    append_paged_kv_cache,
    apply_rope_inplace_with_kvcache,
    batch_prefill_with_paged_kv_cache,
    batch_prefill_with_ragged_kv_cache,
    cascade_attention,
    decode_attention_cpu,
    extend_attention_fwd,
    flash_attn_varlen_func,
    flash_attn_with_kvcache,
    known_calls,
    merge_state,
    merge_state_v2,
    store_cache,
)
from sglab.kernels.registry import EVERYWHERE, Implementation, Operator

PAGES, PAGE = 6, 4
Draw = Callable[[st.SearchStrategy[Any]], Any]
Made = tuple[Callable[..., Any], list[Any], dict[str, Any]]
PROPERTY = settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])


def ints(*values: int) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int32)


class Drawn:
    """Tensors of drawn shapes, dtypes and strides; contents are new in every call."""

    def __init__(self, draw: Draw) -> None:
        self.draw = draw
        self.kv_heads, group = draw(st.sampled_from([(1, 1), (1, 2), (2, 1), (2, 2)]))
        self.heads = self.kv_heads * group
        self.dim = draw(st.sampled_from([8, 16]))
        self.dtype = draw(st.sampled_from([torch.float32, torch.bfloat16]))
        self.wide, self.shifted = draw(st.booleans()), draw(st.booleans())

    def rows(self, *shape: int, dtype: torch.dtype | None = None) -> torch.Tensor:
        """In their own memory, or in that of wider rows, or 4 bytes from where it starts."""
        dtype = dtype or self.dtype
        if self.wide:
            return torch.randn(*shape[:-1], 2 * shape[-1]).to(dtype)[..., : shape[-1]]
        return self.dense(*shape, dtype=dtype)

    def dense(self, *shape: int, dtype: torch.dtype | None = None) -> torch.Tensor:
        dtype = dtype or self.dtype
        count, before = torch.Size(shape).numel(), 4 // dtype.itemsize if self.shifted else 0
        return torch.randn(count + before).to(dtype)[before:].view(shape)

    def heads_of(self, *before: int, kv: bool = False) -> torch.Tensor:
        return self.rows(*before, self.kv_heads if kv else self.heads, self.dim)

    def cache(self) -> torch.Tensor:
        return self.rows(PAGES, PAGE, self.kv_heads, self.dim)

    def attention(self, sinks: bool = True) -> dict[str, Any]:
        options: dict[str, Any] = {"causal": self.draw(st.booleans()), "check_values": False}
        if sinks and self.draw(st.booleans()):
            options["sinks"] = torch.randn(self.heads)
        return options


def varlen(drawn: Drawn) -> Made:
    queries = ints(0, 2, 5)
    q, options = drawn.heads_of(5), drawn.attention()
    options["return_softmax_lse"] = drawn.draw(st.booleans())
    options["softcap"] = drawn.draw(st.sampled_from([0.0, 3.0]))
    options["window_size"] = drawn.draw(st.sampled_from([(-1, -1), (2, 0)]))
    options["max_seqlen_q"] = 3
    how = drawn.draw(st.sampled_from(["paged", "ragged", "used", "padded", "descaled"]))
    if how == "paged":
        table = torch.randperm(PAGES)[:4].view(2, 2).int()
        options |= {"seqused_k": torch.randint(3, 9, (2,)).int(), "page_table": table}
        return flash_attn_varlen_func, [q, drawn.cache(), drawn.cache(), queries, None], options
    split = int(torch.randint(3, 6, (1,)))
    if how == "used":
        options["seqused_k"] = torch.randint(1, 4, (2,)).int()
    elif how == "padded":
        options["seqused_q"] = torch.randint(0, 3, (2,)).int()
    elif how == "descaled":
        options["k_descale"] = torch.rand(2, drawn.kv_heads) + 0.5
    k, v = drawn.heads_of(9, kv=True), drawn.heads_of(9, kv=True)
    return flash_attn_varlen_func, [q, k, v, queries, ints(0, split, 9)], options


def kvcache(drawn: Drawn) -> Made:
    new = drawn.draw(st.sampled_from([0, 1, 2]))
    q, options = drawn.heads_of(2, drawn.draw(st.sampled_from([1, 2]))), drawn.attention()
    options["return_softmax_lse"] = drawn.draw(st.booleans())
    if drawn.draw(st.booleans()):
        options["page_table"] = torch.randperm(PAGES)[:4].view(2, 2).int()
    options["cache_seqlens"] = torch.randint(0, 3, (2,)).int() if new else torch.randint(2, 5, (2,)).int()
    tokens = [drawn.heads_of(2, new, kv=True), drawn.heads_of(2, new, kv=True)] if new else []
    return flash_attn_with_kvcache, [q, drawn.cache(), drawn.cache(), *tokens], options


def paged_prefill(drawn: Drawn) -> Made:
    options = drawn.attention() | {"return_lse": drawn.draw(st.booleans())}
    options["kv_layout"] = layout = drawn.draw(st.sampled_from(["NHD", "HND"]))
    options["logits_soft_cap"] = drawn.draw(st.sampled_from([0.0, 3.0]))
    caches = (drawn.cache(), drawn.cache())
    if layout == "HND":
        caches = (caches[0].transpose(1, 2).contiguous(), caches[1].transpose(1, 2).contiguous())
    pages = [ints(0, 1, 3), torch.randperm(PAGES)[:3].int(), torch.randint(2, 5, (2,)).int()]
    return batch_prefill_with_paged_kv_cache, [drawn.heads_of(3), caches, ints(0, 1, 3), *pages], options


def ragged_prefill(drawn: Drawn) -> Made:
    options = drawn.attention() | {"return_lse": drawn.draw(st.booleans())}
    k, v = drawn.heads_of(7, kv=True), drawn.heads_of(7, kv=True)
    keys = ints(0, int(torch.randint(2, 4, (1,))), 7)
    return batch_prefill_with_ragged_kv_cache, [drawn.heads_of(3), k, v, ints(0, 1, 3), keys], options


def cascade(drawn: Drawn) -> Made:
    options = drawn.attention(sinks=False) | {"return_lse": drawn.draw(st.booleans())}
    order = torch.randperm(PAGES).int()
    shared = CascadeLevel(ints(0, 3), ints(0, 2), order[:2], torch.randint(1, 5, (1,)).int())
    own = CascadeLevel(ints(0, 1, 3), ints(0, 1, 3), order[2:5], torch.randint(2, 5, (2,)).int())
    levels = [shared, own] if drawn.draw(st.booleans()) else [own]
    return cascade_attention, [drawn.heads_of(3), (drawn.cache(), drawn.cache()), levels], options


def merge(drawn: Drawn) -> Made:
    """The second state, or outputs, may be missing, the first state's memory or their own."""
    function = drawn.draw(st.sampled_from([merge_state, merge_state_v2]))
    v, s = ([drawn.dense(3, drawn.heads, drawn.dim) for _ in range(2)], [torch.randn(3, drawn.heads) for _ in range(2)])
    options: dict[str, Any] = {"guarded": drawn.draw(st.booleans())} if function is merge_state_v2 else {}
    outputs = drawn.draw(st.sampled_from(["made", "given", "one", "in place"]))
    if outputs in ("given", "one"):
        options["v_merged"] = torch.empty_like(v[0])
    if outputs == "given":
        options["s_merged"] = torch.empty_like(s[0])
    if outputs == "in place":
        options |= {"v_merged": v[0], "s_merged": s[0]}
    return function, [v[0], s[0], v[1], s[1]], options


def store(drawn: Drawn) -> Made:
    flat = drawn.draw(st.booleans())
    width = (drawn.kv_heads * drawn.dim,) if flat or drawn.wide else (drawn.kv_heads, drawn.dim)
    tokens = [drawn.rows(3, *width), drawn.rows(3, *width)]
    caches = [drawn.rows(9, *width), drawn.rows(9, *width)]
    slots = torch.randperm(9)[:3].to(drawn.draw(st.sampled_from([torch.int32, torch.int64])))
    options: dict[str, Any] = {"check_values": False, "size_limit": drawn.draw(st.sampled_from([0, 5]))}
    options["reserved_skip_index"] = drawn.draw(st.sampled_from([0, 3]))
    return store_cache, [*tokens, *caches, slots], options


def scales(drawn: Drawn, tokens: int) -> dict[str, Any]:
    """Numbers, or one of every head, or of every token and head."""
    how = drawn.draw(st.sampled_from(["number", "heads", "tokens"]))
    if how == "number":
        return {"k_scale": 2.0, "v_scale": 0.5}
    shape = (drawn.kv_heads,) if how == "heads" else (tokens, drawn.kv_heads)
    return {"k_scale": torch.rand(shape) + 0.5, "v_scale": torch.rand(shape) + 0.5}


def append(drawn: Drawn) -> Made:
    caches = (drawn.cache(), drawn.cache())
    tokens = [drawn.heads_of(3, kv=True), drawn.heads_of(3, kv=True)]
    where = [ints(0, 1, 1), torch.stack([torch.randint(4, (1,)), *torch.randperm(8)[:2, None]]).flatten().int()]
    pages = [torch.randperm(PAGES)[:3].int(), ints(0, 1, 3), ints(4, 4)]
    return append_paged_kv_cache, [*tokens, *where, caches, *pages], {"check_values": False, **scales(drawn, 3)}


def rotate(drawn: Drawn) -> Made:
    """Into caches of slots or of slots and heads; v of heads or flat."""
    slots, dim = 9, drawn.dim
    width = (drawn.kv_heads * dim,) if drawn.draw(st.booleans()) else (drawn.kv_heads, dim)
    caches = [drawn.dense(slots, *width), drawn.dense(slots, *width)]
    v = drawn.dense(3, drawn.kv_heads, dim)
    if drawn.draw(st.booleans()):
        v = v.flatten(1)
    turns = torch.randn(16, dim // drawn.draw(st.sampled_from([1, 2])))
    where = [torch.randint(16, (3,)), torch.randperm(slots)[:3]]
    options = {"is_neox": drawn.draw(st.booleans()), "check_values": False, **scales(drawn, 3)}
    return (
        apply_rope_inplace_with_kvcache,
        [drawn.heads_of(3), drawn.heads_of(3, kv=True), v, *caches, turns, *where],
        options,
    )


def extend(drawn: Drawn) -> Made:
    options = drawn.attention()
    del options["causal"]
    options["logit_cap"] = drawn.draw(st.sampled_from([0.0, 3.0]))
    options["sliding_window_size"] = drawn.draw(st.sampled_from([-1, 2]))
    options["skip_prefix_custom_mask"] = drawn.draw(st.booleans())
    if drawn.draw(st.booleans()):
        options["lse"] = torch.empty(5, drawn.heads)
    if drawn.draw(st.booleans()):
        options |= {"k_scale": torch.rand(drawn.kv_heads) + 0.5, "v_scale": torch.rand(drawn.kv_heads) + 0.5}
    mask, starts = None, None
    if drawn.draw(st.booleans()):
        offset = drawn.draw(st.sampled_from([0, 1]))
        mask, starts = torch.rand(40) < 0.7, torch.tensor([0, 2 * (3 + offset)])
        options["window_kv_offsets"] = ints(offset, offset) if offset else None
    new = [
        drawn.heads_of(5),
        drawn.heads_of(5, kv=True),
        drawn.heads_of(5, kv=True),
        torch.empty(5, drawn.heads, drawn.dim),
    ]
    new[3] = new[3].to(drawn.dtype)
    pool = [drawn.rows(9, drawn.kv_heads, drawn.dim), drawn.rows(9, drawn.kv_heads, drawn.dim)]
    where = [ints(0, 2, 5), ints(0, 1, 4), torch.randperm(9)[:4]]
    causal = drawn.draw(st.booleans())
    return extend_attention_fwd, [*new, *pool, *where, mask, causal, starts, 3], options


def decode_on_host(drawn: Drawn) -> Made:
    """Over a request's own keys, those after an encoder's, or the encoder's."""
    q, out = drawn.heads_of(2), torch.empty(2, drawn.heads, drawn.dim, dtype=drawn.dtype)
    pool = [drawn.rows(9, drawn.kv_heads, drawn.dim), drawn.rows(9, drawn.kv_heads, drawn.dim)]
    tokens: list[torch.Tensor | None] = [None, None, None]
    if drawn.draw(st.booleans()):
        new = [drawn.rows(2, drawn.kv_heads, drawn.dim), drawn.rows(2, drawn.kv_heads, drawn.dim)]
        tokens = [*new, torch.randperm(9)[:2]]
    logits = torch.empty(2, drawn.heads, 2, drawn.dim + 1)
    where = [logits, torch.randint(9, (3, 6)), torch.randperm(3)[:2], torch.randint(1, 4, (2,))]
    options: dict[str, Any] = {"sm_scale": 0.3, "check_values": False}
    options["logit_cap"] = drawn.draw(st.sampled_from([0.0, 3.0]))
    options["sliding_window"] = drawn.draw(st.sampled_from([0, 2]))
    if drawn.draw(st.booleans()):
        options |= {"encoder_lens": torch.randint(0, 3, (2,)), "is_cross_attn": drawn.draw(st.booleans())}
    if drawn.draw(st.booleans()):
        options["sinks"] = torch.randn(drawn.heads)
    return decode_attention_cpu, [q, *pool, out, *tokens, *where], options


KINDS = [varlen, kvcache, paged_prefill, ragged_prefill, cascade, merge, store, append, rotate, extend, decode_on_host]


def repeated(choices: Iterator[Any], _: st.SearchStrategy[Any]) -> Any:
    """What was drawn before, in the order in which it was."""
    return next(choices)


def copied(value: Any, memory: dict[int, Any]) -> Any:
    """With memory of its own and the same strides; what was one tensor stays one."""
    if isinstance(value, torch.Tensor):
        if id(value) not in memory:
            base = value._base if value._base is not None else value
            memory[id(value)] = base.clone().as_strided(value.shape, value.stride(), value.storage_offset())
        return memory[id(value)]
    if isinstance(value, (list, tuple)):
        return type(value)(copied(each, memory) for each in value)
    if isinstance(value, dict):
        return {name: copied(each, memory) for name, each in value.items()}
    return value


def outcome(call: Made) -> tuple[Any, ...]:
    """The result or the error, and all tensors afterwards."""
    function, arguments, options = call
    try:
        result = function(*arguments, **options)
    except (ContractError, ValueError) as error:
        return (str(error), *arguments)
    given = [each for each in (*arguments, *options.values()) if isinstance(each, torch.Tensor)]
    return (result, *given, *(each for each in arguments if isinstance(each, tuple)))


def same(a: Any, b: Any) -> bool:
    if isinstance(a, torch.Tensor):
        return isinstance(b, torch.Tensor) and a.dtype == b.dtype and a.shape == b.shape and equal_bits(a, b)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(same(one, other) for one, other in zip(a, b, strict=True))
    return bool(a == b)


def equal_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    return torch.equal(a.nan_to_num(1e30), b.nan_to_num(1e30)) and torch.equal(a.isnan(), b.isnan())


@pytest.mark.parametrize("make", KINDS, ids=lambda make: make.__name__)
@PROPERTY
@given(data=st.data())
def test_whatever_was_called_before(make: Callable[[Drawn], Made], data: st.DataObject) -> None:
    """Every call of drawn kinds in a drawn order: also after those of other shapes, dtypes, strides and options, for
    what they left is kept from one example to the next."""
    drawn = Drawn(data.draw)
    choices: list[Any] = []

    def remembered(strategy: st.SearchStrategy[Any]) -> Any:
        choices.append(data.draw(strategy))
        return choices[-1]

    drawn.draw = remembered
    calls = [make(drawn)]
    for _ in range(3):  # like it, with other contents
        drawn.draw = partial(repeated, iter(choices[:]))
        calls.append(make(drawn))
    for function, arguments, options in calls:
        memory: dict[int, Any] = {}
        whole: Made = (function, copied(arguments, memory), copied(options, memory))
        with mock.patch.object(known_calls, "_key", lambda *_: None):
            wanted = outcome(whole)
        assert same(outcome((function, arguments, options)), wanted)


@pytest.mark.parametrize("make", KINDS, ids=lambda make: make.__name__)
def test_the_third_call_is_served_without_a_look_at_its_contract(
    make: Callable[[Drawn], Made], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise what is tested above would not be what is meant."""
    served: list[str] = []
    serve = known_calls.Served._serve

    def counting(self: known_calls.Served[Any], changing: dict[str, Any]) -> None:
        served.append(type(self).__name__)
        serve(self, changing)

    monkeypatch.setattr(known_calls.Served, "_serve", counting)
    known_calls.forget()
    for turn in range(4):
        drawn = Drawn(lambda strategy: next(iter(getattr(strategy, "elements", (False,)))))
        function, arguments, options = make(drawn)
        function(*arguments, **options)
        assert bool(served) == (turn >= 2)


NESTED = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(0, 2),
        st.sampled_from([0.0, 1.0, 0.5, "a", "b", torch.float32, torch.float16]),
        st.builds(
            lambda shape, dtype, turned, device, skipped: torch.empty(sum(shape) + 99, dtype=dtype, device=device)[
                skipped:
            ].as_strided(shape, (1, shape[0]) if turned else (shape[1], 1), skipped),
            st.sampled_from([(2, 3), (3, 2), (2, 2)]),
            st.sampled_from([torch.float32, torch.float16, torch.bfloat16]),
            st.booleans(),
            st.sampled_from(["cpu", "meta"]),
            st.sampled_from([0, 1, 8]),
        ),
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.lists(inner, max_size=3).map(tuple)),
    max_leaves=4,
)
CALLS = st.tuples(st.lists(NESTED, max_size=3).map(tuple), st.dictionaries(st.sampled_from("abc"), NESTED, max_size=2))


def plainly(value: Any) -> Any:
    """All that a call's parts differ in, as nested as they are."""
    if isinstance(value, torch.Tensor):
        place = value.data_ptr() % known_calls.ALIGNMENT
        return "tensor", tuple(value.shape), value.stride(), str(value.dtype), str(value.device), place
    if isinstance(value, (list, tuple)):
        return type(value).__name__, tuple(map(plainly, value))
    return type(value).__name__, value


@settings(deadline=None, max_examples=300)
@given(CALLS, CALLS)
def test_two_calls_have_one_key_if_and_only_if_they_differ_in_nothing_that_checks_read(
    one: tuple[Any, dict[str, Any]], other: tuple[Any, dict[str, Any]]
) -> None:
    described = [(plainly(args), tuple((n, plainly(v)) for n, v in options.items())) for args, options in (one, other)]
    keys = [known_calls._key(*call) for call in (one, other)]
    assert None not in keys
    assert (keys[0] == keys[1]) == (described[0] == described[1])


CHANGES: list[tuple[tuple[Any, ...], tuple[Any, ...]]] = [
    ((torch.zeros(2, 2),), (torch.zeros(2, 2).T,)),
    ((torch.zeros(4),), (torch.zeros(4, dtype=torch.int32),)),
    ((torch.zeros(4, device="cpu"),), (torch.zeros(4, device="meta"),)),
    ((torch.zeros(8)[:4],), (torch.zeros(8)[1:5],)),
    ((1,), (True,)),
    ((1,), (1.0,)),
    (((1, 2),), ([1, 2],)),
    (((1,), (2,)), ((1, 2), ())),
    (("a", None), ("a",)),
]


@pytest.mark.parametrize(("one", "other"), CHANGES, ids=range(len(CHANGES)))
def test_what_is_close_is_not_the_same(one: tuple[Any, ...], other: tuple[Any, ...]) -> None:
    assert known_calls._key(one, {}) == known_calls._key(one, {})
    assert known_calls._key(one, {}) != known_calls._key(other, {})


class Count:
    """The arguments of an operator of this test, which says in `by` what ran."""

    def __init__(self, x: torch.Tensor) -> None:
        self.device, self.by = x.device, ""


def slow(arguments: Count) -> tuple[()]:
    arguments.by = "slow"
    return ()


def fast(arguments: Count) -> tuple[()]:
    arguments.by = "fast"
    return ()


def test_an_implementation_that_comes_later_is_chosen_by_calls_that_were_known() -> None:
    operator = Operator("late", Implementation("slow", f"{__name__}:slow", EVERYWHERE))

    @known_calls.checked_once
    def late(x: torch.Tensor) -> str:
        arguments = Count(x)
        operator(arguments)
        run = operator.chosen(arguments, "auto")

        def served(x: torch.Tensor) -> str:
            again = Count(x)
            run(again)
            return again.by

        known_calls.next_time(lambda: served)
        return arguments.by

    x = torch.zeros(2)
    assert [late(x) for _ in range(3)] == ["slow"] * 3
    operator.register(Implementation("fast", f"{__name__}:fast", EVERYWHERE))
    assert [late(x) for _ in range(4)] == ["fast"] * 4


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no NVIDIA GPU")
def test_a_served_call_runs_on_the_stream_of_its_own() -> None:
    """Not on that of the call that was checked: it sees what the stream it is called on wrote before."""
    shape, side = (64, 8, 128), torch.cuda.Stream()
    v, s = torch.zeros(2, *shape, device="cuda"), torch.zeros(2, *shape[:2], device="cuda")
    for _ in range(3):
        merge_state(v[0], s[0], v[1], s[1])
    torch.cuda.synchronize()
    for turn in range(1, 4):
        with torch.cuda.stream(side):
            torch.cuda._sleep(50_000_000)
            v.fill_(turn)
            merged, _ = merge_state(v[0], s[0], v[1], s[1])
        side.synchronize()
        assert bool((merged == turn).all())
