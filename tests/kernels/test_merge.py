"""The merges: what softmax over a union of keys must be, in both bases, and every rule at the infinities."""

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sglab.kernels import ContractError, merge_state, merge_state_in_place, merge_state_v2, merge_states
from tests.support.kernels.compare import ROUNDING, assert_close

INF, NAN = math.inf, math.nan
State = tuple[torch.Tensor, torch.Tensor]

RULES = {
    "merge_state": (merge_state, 2.0),
    "merge_state_v2": (merge_state_v2, math.e),
    "guarded": (lambda *args, **kwargs: merge_state_v2(*args, guarded=True, **kwargs), math.e),
}


@pytest.fixture(params=sorted(RULES))
def merge(request: pytest.FixtureRequest) -> Callable[..., State]:
    return RULES[request.param][0]


@pytest.fixture(params=sorted(RULES))
def rule(request: pytest.FixtureRequest) -> tuple[Callable[..., State], float]:
    return RULES[request.param]


def attention(logits: torch.Tensor, values: torch.Tensor, base: float) -> State:
    """Softmax-weighted mean of values (keys, dim) under logits (rows, keys), and its LSE, in float64."""
    return logits.softmax(-1) @ values, logits.logsumexp(-1) / math.log(base)


def random_state(shape: tuple[int, int, int], dtype: torch.dtype, device: torch.device, generator: object) -> State:
    v = torch.randn(shape, generator=generator).to(device, dtype)
    return v, (torch.randn(shape[:2], generator=generator) * 5).to(device)


class TestUnion:
    """Merging the parts of a set of keys gives attention over the whole set."""

    @pytest.mark.parametrize("split", [1, 7, 40])
    def test_two_parts(
        self, rule: tuple[Callable, float], split: int, implementation: str, device: torch.device, generator: object
    ) -> None:
        merge, base = rule
        logits = torch.randn(6, 41, generator=generator, dtype=torch.float64) * 8
        values = torch.randn(41, 24, generator=generator, dtype=torch.float64)
        halves = [attention(logits[:, part], values[part], base) for part in (slice(split), slice(split, None))]
        (v_a, s_a), (v_b, s_b) = [(v.view(2, 3, 24).float(), s.view(2, 3).float()) for v, s in halves]
        v, s = merge(*(x.to(device) for x in (v_a, s_a, v_b, s_b)), implementation=implementation)
        whole = attention(logits, values, base)
        assert_close(v.view(6, 24), whole[0], 2e-6)
        assert_close(s.view(6), whole[1], 2e-6)

    @pytest.mark.parametrize("base", [2, "e"])
    @pytest.mark.parametrize("parts", [1, 2, 5, 9])
    def test_n_parts(
        self, parts: int, base: object, implementation: str, device: torch.device, generator: object
    ) -> None:
        logits = torch.randn(6, 45, generator=generator, dtype=torch.float64) * 8
        values = torch.randn(45, 16, generator=generator, dtype=torch.float64)
        number = 2.0 if base == 2 else math.e
        states = [
            attention(logits[:, keys], values[keys], number)
            for keys in torch.randperm(45, generator=generator).tensor_split(parts)
        ]
        v = torch.stack([v.view(2, 3, 16) for v, _ in states], dim=1).float().to(device)
        s = torch.stack([s.view(2, 3) for _, s in states], dim=1).float().to(device)
        v_merged, s_merged = merge_states(v, s, base=base, implementation=implementation)
        whole = attention(logits, values, number)
        assert_close(v_merged.view(6, 16), whole[0], 2e-6)
        assert_close(s_merged.view(6), whole[1], 2e-6)

    def test_large_lse_does_not_overflow(self, merge: Callable, implementation: str, device: torch.device) -> None:
        """exp(95) overflows float32; the shifted formula never forms it. A division by exp(max) would inflate V."""
        v = torch.ones(1, 1, 8, device=device)
        s = torch.full((1, 1), 95.0, device=device)
        v_merged, s_merged = merge(v, s, v, s + 1, implementation=implementation)
        assert_close(v_merged, v, 1e-6)
        assert 96 < s_merged.item() < 97

    def test_base_2_lse_in_a_natural_merge_weighs_wrongly(self, implementation: str) -> None:
        """The classic mix-up: log2 values read as natural ones give shares (0.130, 0.870) for (0.211, 0.789)."""
        s_a, s_b = torch.zeros(1, 1), torch.full((1, 1), math.log2(0.789 / 0.211))
        v_a, v_b = torch.zeros(1, 1, 4), torch.ones(1, 1, 4)
        right, _ = merge_state(v_a, s_a, v_b, s_b, implementation=implementation)
        wrong, _ = merge_state_v2(v_a, s_a, v_b, s_b, implementation=implementation)
        assert right[0, 0, 0].item() == pytest.approx(0.789, abs=1e-3)
        assert wrong[0, 0, 0].item() == pytest.approx(0.870, abs=1e-3)


class TestTriton:
    """The Triton kernels against the float64 reference, on shapes that fill no tile evenly."""

    @pytest.mark.parametrize("dtype", list(ROUNDING))
    @pytest.mark.parametrize("shape", [(1, 1, 1), (3, 5, 72), (2, 16, 128), (33, 4, 512)])
    def test_pairs(
        self, merge: Callable, dtype: torch.dtype, shape: tuple[int, int, int], device: torch.device, generator: object
    ) -> None:
        if device.type == "cuda":
            shape = (shape[0] * 31, *shape[1:])
        inputs = (*random_state(shape, dtype, device, generator), *random_state(shape, dtype, device, generator))
        v, s = merge(*inputs, implementation="triton")
        wanted_v, wanted_s = merge(*inputs, implementation="reference")
        assert v.dtype is dtype
        assert_close(v, wanted_v, ROUNDING[dtype])
        assert_close(s, wanted_s, 2e-6)

    @pytest.mark.parametrize("dtype", list(ROUNDING))
    @pytest.mark.parametrize("shape", [(1, 1, 1, 8), (5, 3, 7, 72), (2, 6, 16, 128), (1, 256, 2, 64)])
    def test_states(
        self, dtype: torch.dtype, shape: tuple[int, int, int, int], device: torch.device, generator: object
    ) -> None:
        v = torch.randn(shape, generator=generator).to(device, dtype)
        s = (torch.randn(shape[:3], generator=generator) * 5).to(device)
        result = merge_states(v, s, implementation="triton")
        wanted = merge_states(v, s, implementation="reference")
        assert_close(result[0], wanted[0], ROUNDING[dtype])
        assert_close(result[1], wanted[1], 2e-6)

    def test_no_rows_at_all(self, merge: Callable, implementation: str, device: torch.device) -> None:
        v, s = torch.empty(0, 4, 64, device=device), torch.empty(0, 4, device=device)
        assert merge(v, s, v, s, implementation=implementation)[0].shape == (0, 4, 64)


finite = st.floats(-120, 120, width=32)
lse = st.one_of(finite, st.just(-INF))


def one_state(value: float, weight: float) -> State:
    """A state of one head whose V is `value` in every element, 0 where nothing was attended to."""
    return torch.full((1, 1, 4), 0.0 if weight == -INF else value), torch.full((1, 1), weight)


Law = Callable[..., None]


def law(test: Law) -> Law:
    """Try a test on three random states, some of them empty."""
    test = given(parts=st.lists(st.tuples(st.floats(-8, 8, width=32), lse), min_size=3, max_size=3))(test)
    return settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])(test)


@pytest.mark.parametrize("name", ["merge_state", "guarded"])
class TestAlgebra:
    """Merging is associative and commutative, and (0, −inf) is its neutral element: order never matters."""

    @law
    def test_associative(self, name: str, implementation: str, parts: list[tuple[float, float]]) -> None:
        merge = RULES[name][0]
        a, b, c = (one_state(*part) for part in parts)
        left = merge(*merge(*a, *b, implementation=implementation), *c, implementation=implementation)
        right = merge(*a, *merge(*b, *c, implementation=implementation), implementation=implementation)
        assert_close(left[0], right[0], 1e-4)
        assert_close(left[1], right[1], 1e-5)

    @law
    def test_commutative(self, name: str, implementation: str, parts: list[tuple[float, float]]) -> None:
        merge = RULES[name][0]
        a, b, _ = (one_state(*part) for part in parts)
        ab, ba = merge(*a, *b, implementation=implementation), merge(*b, *a, implementation=implementation)
        assert_close(ab[0], ba[0], 1e-6)
        assert_close(ab[1], ba[1], 1e-6)

    @law
    def test_neutral_element(self, name: str, implementation: str, parts: list[tuple[float, float]]) -> None:
        merge = RULES[name][0]
        state = one_state(*parts[0])
        merged = merge(*state, *one_state(1.0, -INF), implementation=implementation)
        assert_close(merged[0], state[0], 1e-6)
        assert_close(merged[1], state[1], 1e-6)

    @law
    def test_n_at_once_equals_one_after_another(
        self, name: str, implementation: str, parts: list[tuple[float, float]]
    ) -> None:
        merge, base = RULES[name]
        states = [one_state(*part) for part in parts]
        chain = merge(
            *merge(*states[0], *states[1], implementation=implementation), *states[2], implementation=implementation
        )
        v, s = (torch.stack(each, dim=1) for each in zip(*states, strict=True))
        at_once = merge_states(v, s, base=2 if base == 2 else "e", implementation=implementation)
        assert_close(at_once[0], chain[0], 1e-4)
        assert_close(at_once[1], chain[1], 1e-5)


AT_INFINITIES = [
    # s_a, s_b → V and LSE by rule, for V_a = 3 and V_b = 5
    ((-INF, 1.0), {"merge_state": (5, 1), "merge_state_v2": (5, 1), "guarded": (5, 1)}),
    ((1.0, -INF), {"merge_state": (3, 1), "merge_state_v2": (3, 1), "guarded": (3, 1)}),
    ((-INF, -INF), {"merge_state": (0, -INF), "merge_state_v2": (NAN, NAN), "guarded": (0, -INF)}),
    ((INF, 1.0), {"merge_state": (0, NAN), "merge_state_v2": (5, 1), "guarded": (5, 1)}),
    ((INF, -INF), {"merge_state": (0, NAN), "merge_state_v2": (NAN, NAN), "guarded": (0, -INF)}),
    ((INF, INF), {"merge_state": (0, NAN), "merge_state_v2": (NAN, NAN), "guarded": (0, -INF)}),
    ((NAN, 1.0), {"merge_state": (5, 1), "merge_state_v2": (NAN, NAN), "guarded": (NAN, NAN)}),
    ((NAN, NAN), {"merge_state": (0, NAN), "merge_state_v2": (NAN, NAN), "guarded": (NAN, NAN)}),
]


@pytest.mark.parametrize(("lses", "outcomes"), AT_INFINITIES)
@pytest.mark.parametrize("name", sorted(RULES))
def test_infinities(lses: tuple[float, float], outcomes: dict, name: str, implementation: str, device: object) -> None:
    v_a, v_b = torch.full((1, 2, 8), 3.0, device=device), torch.full((1, 2, 8), 5.0, device=device)
    s_a, s_b = (torch.full((1, 2), each, device=device) for each in lses)
    v, s = RULES[name][0](v_a, s_a, v_b, s_b, implementation=implementation)
    wanted_v, wanted_s = outcomes[name]
    assert_close(v, torch.full_like(v, wanted_v), 1e-6)
    assert_close(s, torch.full_like(s, wanted_s), 1e-6)


@pytest.mark.parametrize("name", sorted(RULES))
def test_nan_in_an_empty_partial_spreads_unless_guarded(name: str, implementation: str, device: object) -> None:
    v_a, v_b = torch.full((1, 1, 8), NAN, device=device), torch.ones(1, 1, 8, device=device)
    s_a, s_b = torch.full((1, 1), -INF, device=device), torch.zeros(1, 1, device=device)
    v, _ = RULES[name][0](v_a, s_a, v_b, s_b, implementation=implementation)
    assert bool(v.isnan().all()) == (name != "guarded")
    assert name != "guarded" or torch.equal(v, v_b)


@pytest.mark.parametrize("base", [2, "e"])
def test_no_states_or_only_empty_ones_give_zero(base: object, implementation: str, device: object) -> None:
    for count in (0, 1, 4):
        v, s = torch.ones(3, count, 2, 16, device=device), torch.full((3, count, 2), -INF, device=device)
        v_merged, s_merged = merge_states(v, s, base=base, implementation=implementation)
        assert v_merged.shape == (3, 2, 16)
        assert not v_merged.any()
        assert (s_merged == -INF).all()


class TestOutputs:
    @pytest.mark.parametrize("kind", ["cuda", "triton"])
    @pytest.mark.parametrize("head_dim", [128, 130, 512])
    @pytest.mark.parametrize(("v_from", "s_from"), [(0, 0), (2, 2), (0, 2), (2, 0), (None, 0), (0, None)])
    def test_either_output_may_be_either_sides_input(
        self,
        merge: Callable,
        v_from: int | None,
        s_from: int | None,
        head_dim: int,
        kind: str,
        device: torch.device,
        generator: object,
    ) -> None:
        """Rows that more than one warp works on in Triton, and vectors of 16 bytes or single elements in CUDA."""
        inputs = [*random_state((7, 3, head_dim), torch.float32, device, generator)]
        inputs += random_state((7, 3, head_dim), torch.float32, device, generator)
        wanted = merge(*inputs, implementation="reference")
        outputs = [None if v_from is None else inputs[v_from], None if s_from is None else inputs[s_from + 1]]
        given = merge(*inputs, *outputs, implementation=kind)
        for result, output, expected in zip(given, outputs, wanted, strict=True):
            assert output is None or result is output
            assert_close(result, expected, 2e-6)

    @pytest.mark.parametrize("target", [0, 2])
    def test_an_input_may_be_the_output(
        self, merge: Callable, target: int, implementation: str, device: torch.device, generator: object
    ) -> None:
        shape = (5, 3, 512) if device.type == "cpu" else (4096, 16, 512)
        inputs = [*random_state(shape, torch.float32, device, generator)]
        inputs += random_state(shape, torch.float32, device, generator)
        wanted = merge(*inputs, implementation="reference")
        given = merge(*inputs, inputs[target], inputs[target + 1], implementation=implementation)
        assert given[0] is inputs[target]
        assert_close(inputs[target], wanted[0], 2e-6)
        assert_close(inputs[target + 1], wanted[1], 2e-6)

    def test_wide_partials_may_merge_into_a_narrow_output(self, implementation: str, device: object) -> None:
        v, s = torch.full((2, 2, 16), 1.001, device=device), torch.zeros(2, 2, device=device)
        out = torch.empty(2, 2, 16, dtype=torch.float16, device=device)
        merge_state(v, s, v, s, out, implementation=implementation)
        assert torch.equal(out, v.half())

    def test_masked_tokens_keep_their_state(self, implementation: str, device: object, generator: object) -> None:
        v, s = random_state((4, 3, 32), torch.float32, device, generator)
        v_other, s_other = random_state((4, 3, 32), torch.float32, device, generator)
        wanted_v, wanted_s = merge_state(v, s, v_other, s_other, implementation="reference")
        mask = torch.tensor([True, False, False, True], device=device)
        before = v.clone(), s.clone()
        merge_state_in_place(v, s, v_other, s_other, mask, implementation=implementation)
        assert_close(v[mask], wanted_v[mask], 2e-6)
        assert_close(s[mask], wanted_s[mask], 2e-6)
        assert torch.equal(v[~mask], before[0][~mask])
        assert torch.equal(s[~mask], before[1][~mask])


STORAGE = torch.zeros(1000)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"v_b": torch.ones(3, 2, 8)}, ["v_b", "tokens = 4, as v_a has", "(3, 2, 8)"]),
        ({"v_b": torch.ones(4, 2, 8).half()}, ["v_b must be float32, as v_a is", "float16"]),
        ({"v_a": torch.ones(4, 2, 8).double()}, ["v_a must be float32 or float16 or bfloat16", "float64"]),
        ({"s_a": torch.ones(4, 2).half()}, ["s_a must be float32", "float16"]),
        ({"s_b": torch.ones(2, 4)}, ["s_b", "tokens = 4", "(2, 4)"]),
        ({"v_a": torch.ones(2, 4, 8).transpose(0, 1)}, ["v_a must be contiguous", ".contiguous()"]),
        (
            {"v_merged": STORAGE[:64].view(4, 2, 8), "v_a": STORAGE[8:72].view(4, 2, 8)},
            ["v_merged", "v_a itself", "224"],
        ),
        (
            {"v_merged": STORAGE[:64].view(4, 2, 8), "s_merged": STORAGE[56:64].view(4, 2)},
            ["s_merged must be memory separate from v_merged", "32 bytes"],
        ),
    ],
)
def test_explains_bad_input_and_changes_nothing(merge: Callable, change: dict, words: list[str]) -> None:
    arguments = {
        "v_a": torch.ones(4, 2, 8),
        "s_a": torch.ones(4, 2),
        "v_b": torch.ones(4, 2, 8),
        "s_b": torch.ones(4, 2),
        "s_merged": torch.zeros(4, 2),
    }
    arguments |= change
    with pytest.raises(ContractError) as error:
        merge(**arguments)
    assert all(word in str(error.value) for word in words), str(error.value)
    assert not arguments["s_merged"].any()
    assert not STORAGE.any()


def test_a_mask_may_not_lie_in_an_output() -> None:
    v, s = torch.zeros(4, 2, 8), torch.zeros(4, 2)
    with pytest.raises(ContractError, match="s_merged must be memory separate from mask"):
        merge_state_in_place(v, s, v + 1, s + 1, s.view(torch.bool).flatten()[:4])
    assert not v.any() and not s.any()


def test_merge_states_explains_bad_input() -> None:
    with pytest.raises(ContractError, match=r"merge_states: s must be of shape .* num_states = 3, as v has"):
        merge_states(torch.ones(4, 3, 2, 8), torch.ones(4, 2, 2))
    with pytest.raises(ValueError, match=r"base must be 2 or 'e'; got 10"):
        merge_states(torch.ones(4, 3, 2, 8), torch.ones(4, 3, 2), base=10)
