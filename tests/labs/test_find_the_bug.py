"""Find the bug: every kernel fails as the notebook says and no worse, its questions judge, mended kernels pass."""

import pytest

torch = pytest.importorskip("torch")

from sglab.compilers.nvcc import find_nvcc
from sglab.compilers.source import SourceFinder
from sglab.gpu import GpuError
from sglab.labs import find_the_bug as lab

MENDED = {
    "sum_row": ("  if (threadIdx.x == 0) out", "  __syncthreads();\n  if (threadIdx.x == 0) out"),
    "mean_rows": ("sum += tile[row][lane]", "sum += first + row < n ? tile[row][lane] : 0"),
    "lse_of": ("+ scale * m", "+ m"),
    "ring": (
        "      ptx::mbarrier_arrive(empty[stage]);\n      sum += row[stage][lane];",
        "      sum += row[stage][lane];\n      ptx::mbarrier_arrive(empty[stage]);",
    ),
    "plus_one": ("  __syncthreads();", "  ptx::fence_proxy_async();\n  __syncthreads();"),
}


def has_nvcc() -> bool:
    try:
        find_nvcc()
    except GpuError:
        return False
    return True


@pytest.mark.parametrize(
    ("name", "size", "right", "kinds"),
    [
        ("sum_row", 4, False, {"uninitialised_read", "write_after_read_race"}),
        ("mean_rows", 16, True, set()),
        ("mean_rows", 12, False, set()),
        ("mean_rows", 3, True, {"uninitialised_read"}),
        ("lse_of", 60, False, set()),
        ("ring", 9, True, {"write_after_read_race"}),
        ("plus_one", 1, True, {"missing_proxy_fence"}),
    ],
)
def test_how_each_fails(name: str, size: float, right: bool, kinds: set[str]) -> None:
    launch = lab.Faulty(name, size, seed=3)
    report = launch.run(sanitize=True)
    assert (launch.error() <= lab.RIGHT) is right
    assert {finding.kind for finding in report.findings} == kinds


def test_questions() -> None:
    assert lab.partials_in_the_sum().check(1).right
    assert lab.first_wrong_length().check(9).right
    assert lab.doubly_scaled().check(10).right and lab.doubly_scaled().check(20).right is False
    assert lab.silent().check({"lse_of"}).right
    lines = lab.source("ring").splitlines()
    read, write = lab.lines_that_race().answer()
    text = (SourceFinder().find(lab.SOURCE).text or "").splitlines()
    assert "sum += row" in text[read - 1] and "row[stage][lane] = x" in text[write - 1] and len(lines) > 20


def careful(mean: object) -> bool:
    for n in (1, 8, 9, 20, 100):
        x = torch.randn(n, 3) * 100 + 3
        x[n // 2, 1] = 1e5
        if n == 9:
            x[3, 2] = torch.nan
        if not torch.allclose(mean(x).double(), x.double().mean(0), rtol=1e-4, atol=1e-4, equal_nan=True):  # type: ignore[operator]
            return False
    return True


def test_a_test_is_judged_by_whom_it_lets_pass() -> None:
    question = lab.a_test_of_mean()
    assert question.check(careful).right
    assert "7 of 7" in question.check(lambda mean: True).text
    assert question.check(lambda mean: False).right is False
    assert "ZeroDivisionError" in question.check(lambda mean: 1 / 0).text
    assert question.check().right is None

    def nice_sizes_only(mean: object) -> bool:
        x = torch.randn(16, 4)
        return bool(torch.allclose(mean(x), x.mean(0), atol=1e-2))  # type: ignore[operator]

    assert "lets 6 of 7" in question.check(nice_sizes_only).text


@pytest.mark.skipif(not has_nvcc(), reason="no nvcc")
@pytest.mark.parametrize("name", lab.NAMES)
def test_mending(name: str) -> None:
    faulty, (old, new) = lab.source(name), MENDED[name]
    assert faulty.count(old) == 1
    verdict = lab.mended(name).check(faulty.replace(old, new))
    assert verdict.right, verdict
    assert lab.mended(name).check(faulty).right is False


def test_what_is_no_kernel() -> None:
    assert lab.mended("ring").check().right is None
    assert lab.mended("ring").check(3).right is False
    with pytest.raises(ValueError, match="expected one of sum_row"):
        lab.mended("rings")
