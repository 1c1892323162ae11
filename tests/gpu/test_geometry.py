"""Grid, block, cluster and shared memory are completed from the kernel's directives and checked before a launch."""

from typing import Any

import pytest

from sglab.gpu import Architecture, LaunchError
from sglab.gpu.geometry import check_smem, make_geometry
from sglab.gpu.signature import Signature

SM100 = Architecture.parse("sm_100a")
FREE = Signature("free", (), None, None, None)
BOUND = Signature("bound", (), (128, 2, 1), None, (2, 1, 1))


def test_the_kernel_prescribes_block_and_cluster() -> None:
    geometry = make_geometry(BOUND, SM100, grid=4)
    assert (geometry.grid, geometry.block, geometry.cluster, geometry.smem) == ((4, 1, 1), (128, 2, 1), (2, 1, 1), 0)


@pytest.mark.parametrize(
    ("signature", "options", "message"),
    [
        (FREE, {"grid": 1}, "block is needed; the PTX has no .reqntid"),
        (FREE, {"grid": 0, "block": 32}, "grid along x must be 1 to 2147483647; got 0"),
        (FREE, {"grid": (1, 65536), "block": 32}, "grid along y must be 1 to 65535; got 65536"),
        (FREE, {"grid": (1, 1, 1, 1), "block": 32}, "grid must be an integer or 1 to 3 integers"),
        (FREE, {"grid": 2.0, "block": 32}, r"grid must be an integer or 1 to 3 integers; got 2\.0"),
        (FREE, {"grid": 1, "block": (64, 32)}, r"block \(64, 32, 1\) has 2048 threads; at most 1024"),
        (FREE, {"grid": 1, "block": (1, 1, 65)}, "block along z must be 1 to 64; got 65"),
        (BOUND, {"grid": 2, "block": 128}, r"block must be \(128, 2, 1\), the kernel's .reqntid; got \(128, 1, 1\)"),
        (BOUND, {"grid": 2, "cluster": 4}, r"cluster must be \(2, 1, 1\), the kernel's .reqnctapercluster"),
        (BOUND, {"grid": 3}, "grid along x must be a multiple of the cluster's 2; got 3. Use 4"),
        (FREE, {"grid": 32, "block": 32, "cluster": (16, 2)}, r"cluster .* has 32 CTAs; sm_100a allows at most 16"),
        (FREE, {"grid": 1, "block": 32, "smem": 232_449}, "232449 dynamic = 232449; sm_100a allows 232448 per CTA"),
        (FREE, {"grid": 1, "block": 32, "smem": -1}, "smem must be a number of bytes"),
    ],
)
def test_what_cannot_run_is_refused(signature: Signature, options: dict[str, Any], message: str) -> None:
    with pytest.raises(LaunchError, match=message):
        make_geometry(signature, SM100, **options)


def test_maxntid_bounds_the_product() -> None:
    signature = Signature("k", (), None, (64, 2, 1), None)
    assert make_geometry(signature, SM100, 1, 128).block == (128, 1, 1)
    with pytest.raises(LaunchError, match=r"160 threads; the kernel's .maxntid allows 128"):
        make_geometry(signature, SM100, 1, 160)


def test_clusters_begin_with_sm_90() -> None:
    with pytest.raises(LaunchError, match="sm_80 allows no clusters"):
        make_geometry(FREE, Architecture.parse("sm_80"), 2, 32, 2)


def test_static_and_dynamic_shared_memory_share_a_limit() -> None:
    check_smem("k", SM100, 1024, 231_424)
    with pytest.raises(LaunchError, match=r"1024 bytes static \+ 231425 dynamic = 232449"):
        check_smem("k", SM100, 1024, 231_425)


@pytest.mark.parametrize(
    ("device", "target", "runs"),
    [
        ("sm_100a", "sm_100a", True),
        ("sm_100a", "sm_90a", False),
        ("sm_100a", "sm_90", True),
        ("sm_90a", "sm_100", False),
        ("sm_103a", "sm_100f", True),
        ("sm_103a", "sm_100a", False),
        ("sm_120", "sm_100f", False),
    ],
)
def test_which_ptx_runs_where(device: str, target: str, runs: bool) -> None:
    assert Architecture.parse(device).runs(target) is runs


@pytest.mark.parametrize("text", ["sm_10", "b200", "sm_100x", ""])
def test_unknown_architectures_are_refused(text: str) -> None:
    with pytest.raises(LaunchError, match=r"arch must be one of sm_70 \(V100\)"):
        Architecture.parse(text)
