"""NaN-aware comparison: max(0, nan) is 0 in Python, so a plain maximum of differences would hide a NaN."""

import torch


def assert_close(actual: torch.Tensor, expected: torch.Tensor, tolerance: float) -> None:
    """Require |actual − expected| ≤ tolerance · (1 + |expected|) everywhere, infinities and NaN in the same places."""
    actual, expected = actual.double().cpu(), expected.double().cpu()
    assert actual.shape == expected.shape, f"shape {tuple(actual.shape)}, expected {tuple(expected.shape)}"
    exact = (actual == expected) | (actual.isnan() & expected.isnan())
    near = (actual - expected).abs() <= tolerance * (1 + expected.abs())
    near &= actual.isfinite() & expected.isfinite()
    wrong = torch.nonzero(~(exact | near))
    if len(wrong):
        index = tuple(wrong[0].tolist())
        raise AssertionError(
            f"{len(wrong)} of {actual.numel()} differ by more than {tolerance}, the first at {index}: "
            f"{actual[index].item()}, expected {expected[index].item()}"
        )


ROUNDING = {torch.float32: 2e-6, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}
"""Tolerance of one result in each dtype: rounding of the result, and float32 arithmetic before it."""
