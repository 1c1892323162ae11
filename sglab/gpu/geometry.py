"""Grid, block, cluster and shared memory of a launch: what is given, made complete and checked before anything runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from sglab.gpu.architecture import MAX_BLOCK, MAX_GRID, MAX_THREADS, Architecture
from sglab.gpu.errors import LaunchError
from sglab.gpu.signature import Dim3, Signature

Dims = int | Sequence[int]


@dataclass(frozen=True)
class Geometry:
    """CTAs along x, y, z; threads per CTA; CTAs per cluster; dynamic shared memory per CTA in bytes."""

    grid: Dim3
    block: Dim3
    cluster: Dim3
    smem: int


def make_geometry(
    signature: Signature,
    arch: Architecture,
    grid: Dims,
    block: Dims | None = None,
    cluster: Dims | None = None,
    smem: int = 0,
) -> Geometry:
    """Fills in what the kernel itself prescribes (.reqntid, .reqnctapercluster) and refuses what cannot run on `arch`.

    raises LaunchError: names the offending argument, its value, and what would do
    """
    name = signature.entry
    geometry = Geometry(
        grid=_dim3(name, "grid", grid, MAX_GRID),
        block=_block(signature, block),
        cluster=_cluster(signature, cluster),
        smem=_smem(name, smem, arch),
    )
    _check_cluster(name, geometry, arch)
    return geometry


def check_smem(name: str, arch: Architecture, static: int, dynamic: int) -> None:
    """Static and dynamic shared memory share one limit."""
    limit = arch.limits.smem
    if static + dynamic > limit:
        raise LaunchError(
            f"{name}: shared memory is {static} bytes static + {dynamic} dynamic = {static + dynamic}; {arch} allows "
            f"{limit} per CTA. Use fewer stages or smaller tiles"
        )


def _dim3(kernel: str, argument: str, value: Any, limits: Dim3) -> Dim3:
    given = isinstance(value, Sequence) and not isinstance(value, (str, bytes))
    sizes = (value,) if hasattr(value, "__index__") else tuple(value) if given else ()
    counts = all(hasattr(size, "__index__") and not isinstance(size, bool) for size in sizes)
    if not 1 <= len(sizes) <= 3 or not counts:
        raise LaunchError(f"{kernel}: {argument} must be an integer or 1 to 3 integers; got {value!r}")
    x, y, z = (*(size.__index__() for size in sizes), 1, 1)[:3]
    for axis, size, limit in zip("xyz", (x, y, z), limits, strict=True):
        if not 1 <= size <= limit:
            raise LaunchError(f"{kernel}: {argument} along {axis} must be 1 to {limit}; got {size}")
    return x, y, z


def _block(signature: Signature, value: Dims | None) -> Dim3:
    required, most, name = signature.reqntid, signature.maxntid, signature.entry
    if value is None:
        if required is None:
            raise LaunchError(f"{name}: block is needed; the PTX has no .reqntid to take it from")
        return required
    block = _dim3(name, "block", value, MAX_BLOCK)
    threads = prod(block)
    if threads > MAX_THREADS:
        raise LaunchError(f"{name}: block {block} has {threads} threads; at most {MAX_THREADS} fit a CTA")
    if required is not None and block != required:
        raise LaunchError(f"{name}: block must be {required}, the kernel's .reqntid; got {block}")
    if most is not None and threads > prod(most):
        raise LaunchError(f"{name}: block {block} has {threads} threads; the kernel's .maxntid allows {prod(most)}")
    return block


def _cluster(signature: Signature, value: Dims | None) -> Dim3:
    required = signature.reqnctapercluster
    if value is None:
        return required or (1, 1, 1)
    cluster = _dim3(signature.entry, "cluster", value, (16, 16, 16))
    if required is not None and cluster != required:
        raise LaunchError(
            f"{signature.entry}: cluster must be {required}, the kernel's .reqnctapercluster; got {cluster}"
        )
    return cluster


def _check_cluster(name: str, geometry: Geometry, arch: Architecture) -> None:
    size, limit = prod(geometry.cluster), arch.limits.cluster
    if size > limit:
        remedy = f"at most {limit} CTAs" if limit > 1 else "no clusters (they begin with sm_90)"
        raise LaunchError(f"{name}: cluster {geometry.cluster} has {size} CTAs; {arch} allows {remedy}")
    for axis, grid, cluster in zip("xyz", geometry.grid, geometry.cluster, strict=True):
        if grid % cluster:
            raise LaunchError(
                f"{name}: grid along {axis} must be a multiple of the cluster's {cluster}; got {grid}. "
                f"Use {-(-grid // cluster) * cluster}"
            )


def _smem(name: str, value: Any, arch: Architecture) -> int:
    if not hasattr(value, "__index__") or value.__index__() < 0:
        raise LaunchError(f"{name}: smem must be a number of bytes, 0 or more; got {value!r}")
    check_smem(name, arch, 0, value.__index__())
    return value.__index__()
