"""NaN and infinities are found wherever they lie, in every dtype of a cache."""

import pytest

torch = pytest.importorskip("torch")

from sglab.kernels.finite import AT_ONCE, all_finite

NAN, INF = float("nan"), float("inf")
E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2
WIDE = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
SPOILT = [*((dtype, bad) for dtype in (*WIDE, E5M2) for bad in (NAN, INF, -INF)), (E4M3, NAN)]


@pytest.mark.parametrize(("dtype", "bad"), SPOILT)
@pytest.mark.parametrize("shape", [(1,), (7,), (4099,), (33, 2, 65)])
def test_one_element_is_enough(dtype: torch.dtype, bad: float, shape: tuple[int, ...]) -> None:
    values = torch.randn(shape).to(dtype)
    assert all_finite(values)
    flat = values.view(-1)
    for at in {0, len(flat) // 2, len(flat) - 1}:
        was = flat[at].clone()
        flat[at] = torch.tensor(bad).to(dtype)
        assert not all_finite(values)
        assert not all_finite(values[None].expand(2, *shape)), "a tensor that is not contiguous"
        flat[at] = was
    assert all_finite(values)


def test_8_bit_caches_are_read_by_parts_to_their_end() -> None:
    values = torch.ones(2 * AT_ONCE // 64 + 3, 64).to(E4M3)
    assert all_finite(values)
    values[-1, -1] = NAN
    assert not all_finite(values)


def test_the_largest_values_are_finite_and_nothing_is() -> None:
    for dtype in (*WIDE, E4M3, E5M2):
        assert all_finite(torch.full((5,), torch.finfo(dtype).max, dtype=torch.float64).to(dtype))
        assert all_finite(torch.empty(0, 4, dtype=dtype))
