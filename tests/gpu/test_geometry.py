"""Grid, block, cluster and shared memory are completed from the kernel's directives and checked before a launch."""

from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sglab import gpu
from sglab.gpu import Architecture, LaunchError
from sglab.gpu.geometry import Geometry, LaunchConfig, check_smem, launch_config, make_geometry
from sglab.gpu.signature import Signature

SM100 = Architecture.parse("sm_100a")
PLAIN = """
.version 8.0
.target {target}
.address_size 64
.visible .entry k() {{
  .shared .b8 a[{size}];
  .reg .b32 %r;
  mov.u32 %r, a;
  ret;
}}
"""
FREE = Signature("free", (), None, None, None)
BOUND = Signature("bound", (), (128, 2, 1), None, (2, 1, 1))


def test_the_kernel_prescribes_block_and_cluster() -> None:
    geometry = make_geometry(BOUND, SM100, LaunchConfig(grid=4))
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
        make_geometry(signature, SM100, LaunchConfig(**options))


def test_maxntid_bounds_the_product() -> None:
    signature = Signature("k", (), None, (64, 2, 1), None)
    assert make_geometry(signature, SM100, LaunchConfig(1, 128)).block == (128, 1, 1)
    with pytest.raises(LaunchError, match=r"160 threads; the kernel's .maxntid allows 128"):
        make_geometry(signature, SM100, LaunchConfig(1, 160))


def test_clusters_begin_with_sm_90() -> None:
    with pytest.raises(LaunchError, match="sm_80 allows no clusters"):
        make_geometry(FREE, Architecture.parse("sm_80"), LaunchConfig(2, 32, 2))


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


def test_clusters_are_boxes_of_the_grid() -> None:
    def ctas(grid: tuple[int, int, int], cluster: tuple[int, int, int], index: int) -> list[int]:
        return Geometry(grid, (32, 1, 1), cluster, 0).cluster_ctas(index)

    assert ctas((4, 2, 1), (2, 2, 1), 0) == [0, 1, 4, 5]
    assert ctas((4, 2, 1), (2, 2, 1), 1) == [2, 3, 6, 7]
    assert ctas((2, 1, 3), (2, 1, 1), 2) == [4, 5]


@given(
    cluster=st.tuples(*[st.integers(1, 4)] * 3),
    boxes=st.tuples(*[st.integers(1, 4)] * 3),
    threads=st.integers(1, 1024),
)
def test_indices_of_ctas_clusters_and_ranks_agree(
    cluster: tuple[int, int, int], boxes: tuple[int, int, int], threads: int
) -> None:
    grid = tuple(size * count for size, count in zip(cluster, boxes, strict=True))
    geometry = Geometry(grid, (threads, 1, 1), cluster, 0)  # type: ignore[arg-type]
    assert (geometry.ctas, geometry.clusters) == (prod(grid), prod(boxes))
    assert 32 * (geometry.warps - 1) < threads <= 32 * geometry.warps
    seen = [cta for index in range(geometry.clusters) for cta in geometry.cluster_ctas(index)]
    assert sorted(seen) == list(range(geometry.ctas))
    for index in range(geometry.clusters):
        for rank, cta in enumerate(geometry.cluster_ctas(index)):
            assert (geometry.cluster_of(cta), geometry.rank(cta)) == (index, rank)
            assert geometry.linear(geometry.coordinates(cta)) == cta
            assert geometry.holds(geometry.coordinates(cta))
            assert geometry.neighbour(cta, 0) == geometry.cluster_ctas(index)[0]
    every = np.arange(geometry.ctas)
    assert geometry.cluster_of(every).tolist() == [geometry.cluster_of(cta) for cta in range(geometry.ctas)]
    assert geometry.rank(every).tolist() == [geometry.rank(cta) for cta in range(geometry.ctas)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "k: grid is needed"),
        ({"config": 1, "options": {"grid": 2}}, "k: grid is given twice"),
        (
            {"config": 1, "options": {"blocks": 2}},
            "a launch has no blocks; it takes grid, block",
        ),
        ({"config": LaunchConfig(1), "block": 32}, "a LaunchConfig says all of it; leave out block"),
        ({"config": LaunchConfig(1), "options": {"smem": 4}}, "a LaunchConfig says all of it; leave out smem"),
    ],
)
def test_a_call_says_each_thing_once(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(LaunchError, match=message):
        launch_config("k", arguments.get("config"), arguments.get("block"), arguments.get("options", {}))


def test_a_config_is_the_same_as_its_fields() -> None:
    config = LaunchConfig((2, 8), 256, cluster=2, smem=512, overlaps=True)
    assert launch_config("k", config, None, {}) is config
    fields = {"grid": (2, 8), "block": 256, "cluster": 2, "smem": 512, "overlaps": True}
    assert launch_config("k", None, None, fields) == config
    assert launch_config("k", (2, 8), 256, {"cluster": 2, "smem": 512, "overlaps": True}) == config


@pytest.mark.parametrize(("target", "most"), [("sm_80", 49_152), ("sm_90", 49_152), ("sm_90a", 232_448)])
def test_variables_in_shared_memory_have_the_compilers_limit(target: str, most: int) -> None:
    """48 KiB, as ptxas 13.0 says for plain targets; those with a suffix may declare all of it."""
    device = gpu.EmulatedDevice("sm_90a")
    for size in (most, most + 1):
        ptx = PLAIN.format(target=target, size=size)
        if size <= most:
            gpu.load(ptx)["k"].launch(device, grid=1, block=32)
        else:
            with pytest.raises(LaunchError, match=rf"^k: .*{size} bytes.*{most}"):
                gpu.load(ptx)["k"].launch(device, grid=1, block=32)
