"""Grid, block, cluster and shared memory of a launch: what is given, made complete and checked before anything runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, TypedDict

from sglab.gpu.architecture import MAX_BLOCK, MAX_GRID, MAX_THREADS, PLAIN_STATIC_SMEM, Architecture
from sglab.gpu.errors import LaunchError
from sglab.gpu.integers import integer
from sglab.gpu.signature import Dim3, Signature

Dims = int | Sequence[int]


@dataclass(frozen=True)
class LaunchConfig:
    """How a kernel is launched, but for its arguments: one value for launching, recording and stepping.

    Attributes:
        grid: CTAs along x, y, z.
        block: threads per CTA; None takes the kernel's .reqntid.
        cluster: CTAs per cluster; None takes the kernel's .reqnctapercluster, else one.
        smem: dynamic shared memory per CTA in bytes.
        overlaps: a programmatic dependent launch (see Launch).
    """

    grid: Dims
    block: Dims | None = None
    cluster: Dims | None = None
    smem: int = 0
    overlaps: bool = False


class LaunchOptions(TypedDict, total=False):
    """The fields of a LaunchConfig as keywords of a call, beside `block`."""

    grid: Dims
    cluster: Dims | None
    smem: int
    overlaps: bool


def launch_config(kernel: str, config: LaunchConfig | Dims | None, block: Dims | None, options: Any) -> LaunchConfig:
    """The configuration of a call: a LaunchConfig alone, or its fields.

    Raises:
        LaunchError: both are given, a field has no such name, or there is no grid.
    """
    if isinstance(config, LaunchConfig):
        if options or block is not None:
            given = ", ".join(["block"] * (block is not None) + sorted(options))
            raise LaunchError(f"{kernel}: a LaunchConfig says all of it; leave out {given}, or change the config")
        return config
    fields = dict(options)
    for name, value in (("grid", config), ("block", block)):
        if value is not None:
            if name in fields:
                raise LaunchError(f"{kernel}: {name} is given twice")
            fields[name] = value
    known = LaunchConfig.__dataclass_fields__
    if unknown := sorted(fields.keys() - known.keys()):
        raise LaunchError(
            f"{kernel}: a launch has no {', '.join(unknown)}; it takes {', '.join(known)}, args and extra"
        )
    if "grid" not in fields:
        raise LaunchError(f"{kernel}: grid is needed: the number of CTAs along x, y, z")
    return LaunchConfig(**fields)


@dataclass(frozen=True)
class Geometry:
    """CTAs along x, y, z; threads per CTA; CTAs per cluster; dynamic shared memory per CTA in bytes.

    CTAs have a linear index in the grid, x first, and a rank in their cluster, counted the same way; clusters have a
    linear index among the grid's. Indices may be integers or integer arrays.
    """

    grid: Dim3
    block: Dim3
    cluster: Dim3
    smem: int

    @property
    def ctas(self) -> int:
        """Of the grid."""
        return prod(self.grid)

    @property
    def ranks(self) -> int:
        """CTAs of a cluster."""
        return prod(self.cluster)

    @property
    def clusters(self) -> int:
        """Of the grid."""
        return self.ctas // self.ranks

    @property
    def warps(self) -> int:
        """Of a CTA."""
        return -(-prod(self.block) // 32)

    def coordinates(self, cta: Any) -> tuple[Any, Any, Any]:
        """x, y, z of a CTA."""
        return _coordinates(cta, self.grid)

    def linear(self, place: Sequence[Any]) -> Any:
        """The linear index of the CTA at x, y, z."""
        return _linear(place, self.grid)

    def holds(self, place: Sequence[int]) -> bool:
        """Whether there is a CTA at x, y, z."""
        return all(0 <= at < size for at, size in zip(place, self.grid, strict=True))

    def rank(self, cta: Any) -> Any:
        """The rank in its cluster of a CTA."""
        return _linear([at % size for at, size in zip(self.coordinates(cta), self.cluster, strict=True)], self.cluster)

    def cluster_of(self, cta: Any) -> Any:
        """The linear index of a CTA's cluster."""
        place = [at // size for at, size in zip(self.coordinates(cta), self.cluster, strict=True)]
        return _linear(place, [extent // size for extent, size in zip(self.grid, self.cluster, strict=True)])

    def neighbour(self, cta: Any, rank: Any) -> Any:
        """The linear index of the CTA with this rank in the cluster of `cta`."""
        steps = zip(self.coordinates(cta), self.cluster, _coordinates(rank, self.cluster), strict=True)
        return self.linear([at - at % size + step for at, size, step in steps])

    def cluster_ctas(self, cluster: int) -> list[int]:
        """Linear indices of a cluster's CTAs, by rank."""
        across = [extent // size for extent, size in zip(self.grid, self.cluster, strict=True)]
        corner = _coordinates(cluster, across)
        first = self.linear([at * size for at, size in zip(corner, self.cluster, strict=True)])
        return [self.neighbour(first, rank) for rank in range(self.ranks)]


def _coordinates(index: Any, extents: Sequence[int]) -> tuple[Any, Any, Any]:
    return index % extents[0], index // extents[0] % extents[1], index // (extents[0] * extents[1])


def _linear(place: Sequence[Any], extents: Sequence[int]) -> Any:
    x, y, z = place
    return x + extents[0] * (y + extents[1] * z)


def make_geometry(signature: Signature, arch: Architecture, config: LaunchConfig) -> Geometry:
    """Fills in what the kernel itself prescribes (.reqntid, .reqnctapercluster) and refuses what cannot run on `arch`.

    Raises:
        LaunchError: names the offending argument, its value, and what would do.
    """
    name = signature.entry
    geometry = Geometry(
        grid=_dim3(name, "grid", config.grid, MAX_GRID),
        block=_block(signature, config.block),
        cluster=_cluster(signature, config.cluster),
        smem=_smem(name, config.smem, arch),
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


def check_variables(name: str, target: str, static: int) -> None:
    """What a kernel declares in shared memory has a limit of its own in ptxas, by the .target it was compiled for."""
    if static > PLAIN_STATIC_SMEM and target[-1:] not in ("a", "f"):
        raise LaunchError(
            f"{name}: its variables in shared memory take {static} bytes; ptxas allows {PLAIN_STATIC_SMEM} for "
            f"{target} (more for targets such as sm_90a and sm_100a). Declare the array extern, without a size, "
            f"and give its bytes as dynamic shared memory: kernel[grid, block, {static}]"
        )


def _fits(sizes: Dim3, limits: Dim3) -> bool:
    return 1 <= sizes[0] <= limits[0] and 1 <= sizes[1] <= limits[1] and 1 <= sizes[2] <= limits[2]


def _dim3(kernel: str, argument: str, value: Any, limits: Dim3) -> Dim3:
    if type(value) is int and 1 <= value <= limits[0]:  # the commonest
        return value, 1, 1
    if type(value) is tuple and tuple(map(type, value)) == (int, int, int) and _fits(value, limits):
        return value
    given = isinstance(value, Sequence) and not isinstance(value, (str, bytes))
    sizes = [integer(size) for size in (value if given else (value,))]
    whole = [size for size in sizes if size is not None]
    if not 1 <= len(sizes) <= 3 or len(whole) < len(sizes):
        shown = f"a {type(value).__name__}" if hasattr(value, "__array__") else repr(value)  # not all its elements
        raise LaunchError(f"{kernel}: {argument} must be an integer or 1 to 3 integers; got {shown}")
    x, y, z = (*whole, 1, 1)[:3]
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
    size = integer(value)
    if size is None or size < 0:
        raise LaunchError(f"{name}: smem must be a number of bytes, 0 or more; got {value!r}")
    check_smem(name, arch, 0, size)
    return size
