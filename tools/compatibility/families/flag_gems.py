"""FlagGems: torch's operators as Triton kernels, each held against torch's own in float64."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F

from tools.compatibility.case import Case
from tools.compatibility.families import Family, installed
from tools.compatibility.operators import SHORT, normal, operator
from tools.compatibility.triton_host import pretend

Make = Callable[[], Sequence[Any]]
SHAPE = (33, 130)

# Operators of one tensor, and what maps normally distributed values into their domain.
_ANY: tuple[str, ...] = (
    *("abs", "angle", "atan", "ceil", "cos", "cosh", "erf", "exp", "exp2", "expm1", "neg"),
    *("reciprocal", "round", "sigmoid", "signbit", "sin", "square", "tan", "tanh"),
    *("isfinite", "isinf", "isnan", "isneginf", "logical_not", "nan_to_num"),
)
_POSITIVE = ("log", "log10", "rsqrt", "sqrt")
_UNIT = ("acos", "logit")
_ACTIVATIONS: tuple[str, ...] = (
    "celu",
    "elu",
    "gelu",
    "glu",
    "log_sigmoid",
    "relu",
    "relu6",
    "selu",
    "silu",
    "softplus",
)
_SOFT = ("hardsigmoid", "softshrink")
_BINARY: tuple[str, ...] = (
    *("add", "sub", "mul", "true_divide", "fmin", "atan2", "hypot", "copysign", "logaddexp"),
    *("eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or", "logical_xor"),
)


def family() -> Family:
    version = installed("flag_gems")
    pretend()
    os.environ["GEMS_VENDOR"] = "nvidia"
    torch.cuda.device_count = lambda: 1
    from flag_gems import ops

    _compile_each_time()
    return Family("FlagGems (Triton)", version, [*_pointwise(ops), *_reductions(ops), *_shapes(ops), *_products(ops)])


def _compile_each_time() -> None:
    """FlagGems launches a kernel that it knows without Triton, on a GPU: it is made to forget."""
    from flag_gems.utils.libentry import LibEntry

    run = LibEntry.run

    def forgetful(self: Any, *args: Any, **kwargs: Any) -> Any:
        self.kernel_cache = tuple({} for _ in self.kernel_cache)
        return run(self, *args, **kwargs)

    LibEntry.run = forgetful


def _pointwise(ops: Any) -> list[Case]:
    cases = []
    for dtype in (torch.float32, torch.float16):
        some = _drawn(dtype, 1)
        two = _drawn(dtype, 2)
        kind = SHORT[dtype]
        positive = _mapped(some, lambda x: x.abs() + 0.1)
        unit = _mapped(some, lambda x: x.sigmoid() * 0.9 + 0.05)
        groups = ((_ANY, some), (_POSITIVE, positive), (_UNIT, unit))
        cases += [_same(ops, name, make, kind) for names, make in groups for name in names]
        cases += [
            operator(f"{name}, {kind}", some, getattr(ops, name), getattr(F, name.replace("log_sig", "logsig")), 2)
            for name in (*_ACTIVATIONS, *_SOFT)
        ]
        cases += [_same(ops, name, two, kind) for name in _BINARY]
        cases += [
            operator(f"lerp_tensor, {kind}", _drawn(dtype, 3), ops.lerp_tensor, torch.lerp, 4),
            operator(f"addcmul, {kind}", _drawn(dtype, 3), ops.addcmul, torch.addcmul, 2),
            operator(f"clamp, {kind}", some, lambda x: ops.clamp(x, -0.5, 0.5), lambda x: x.clamp(-0.5, 0.5), 2),
            operator(f"masked_fill, {kind}", _masked(some), _with(ops.masked_fill, 3.0), _with(torch.masked_fill, 3.0)),
        ]
    integers = _integers(2)
    cases += [
        operator("bitwise_and_tensor", integers, ops.bitwise_and_tensor, torch.bitwise_and),
        operator("bitwise_or_tensor", integers, ops.bitwise_or_tensor, torch.bitwise_or),
        operator("bitwise_not", _integers(1), ops.bitwise_not, torch.bitwise_not),
        operator("floor_divide", integers, ops.floor_divide, torch.floor_divide),
        operator("remainder", integers, ops.remainder, torch.remainder),
    ]
    return cases


def _reductions(ops: Any) -> list[Case]:
    some = _drawn(torch.float32, 1)

    def along(name: str, tolerance: float = 4) -> Case:
        reference = getattr(torch, name)
        return operator(
            f"{name} along a dimension", some, _with(getattr(ops, name), -1), _with(reference, -1), tolerance
        )

    def whole(name: str, tolerance: float = 8) -> Case:
        return operator(f"{name} of everything", some, getattr(ops, name), getattr(torch, name), tolerance)

    shape = SHAPE[-1:]

    def affine() -> list[torch.Tensor]:
        return [normal(*SHAPE), normal(*shape), normal(*shape)]

    def grouped() -> list[torch.Tensor]:
        return [normal(2, 8, 5, 5), normal(8), normal(8)]

    return [
        *(along(name) for name in ("softmax", "log_softmax", "cumsum", "cummax", "cummin", "argmax", "argmin")),
        *(whole(name) for name in ("sum", "mean", "max", "min", "argmax", "argmin", "all", "any", "var_mean", "std")),
        operator("argmin, whole tiles", lambda: [normal(32, 128)], lambda x: ops.argmin(x, 1), lambda x: x.argmin(1)),
        operator("amax", some, lambda x: ops.amax(x, [1]), lambda x: x.amax(1)),
        operator("sum_dim", some, lambda x: ops.sum_dim(x, [0]), lambda x: x.sum(0), 8),
        operator("mean_dim", some, lambda x: ops.mean_dim(x, [1]), lambda x: x.mean(1), 8),
        operator("max_dim", some, lambda x: ops.max_dim(x, 1), lambda x: x.max(1)),
        operator("min_dim", some, lambda x: ops.min_dim(x, 0), lambda x: x.min(0)),
        operator("prod", _mapped(some, lambda x: 1 + x / 100), ops.prod, torch.prod, 20),
        operator("vector_norm", some, ops.vector_norm, torch.linalg.vector_norm, 8),
        operator("count_nonzero", _mapped(some, torch.round), ops.count_nonzero, torch.count_nonzero),
        operator("topk", some, lambda x: ops.topk(x, 7), lambda x: x.topk(7)),
        operator("sort", some, ops.sort, torch.sort),
        operator("sort, descending", some, lambda x: ops.sort(x, 0, True), lambda x: x.sort(0, True)),
        operator("nonzero", _mapped(some, torch.round), ops.nonzero, torch.nonzero),
        operator(
            "layer_norm",
            affine,
            lambda x, w, b: ops.layer_norm(x, shape, w, b)[0],
            lambda x, w, b: F.layer_norm(x, shape, w, b),
            8,
        ),
        operator("rms_norm", affine, lambda x, w, _: ops.rms_norm(x, shape, w), _rms_norm, 8),
        operator(
            "group_norm",
            grouped,
            lambda x, w, b: ops.group_norm(x, w, b, 2, 8, 25, 4)[0],
            lambda x, w, b: F.group_norm(x, 4, w, b),
            8,
        ),
        operator("mse_loss", _drawn(torch.float32, 2), ops.mse_loss, F.mse_loss, 8),
    ]


def _shapes(ops: Any) -> list[Case]:
    some = _drawn(torch.float32, 1)
    index = (torch.tensor([5, 0, 7, 7, 31]),)

    def indices() -> list[torch.Tensor]:
        return [normal(*SHAPE), torch.randint(0, SHAPE[0], (9, SHAPE[1]))]

    def scattered() -> list[torch.Tensor]:
        rows = torch.stack([torch.randperm(SHAPE[0])[:9] for _ in range(SHAPE[1])], 1)
        return [normal(*SHAPE), rows, normal(9, SHAPE[1])]

    def table() -> list[torch.Tensor]:
        return [normal(50, 64), torch.randint(0, 50, (4, 11))]

    def picture() -> list[torch.Tensor]:
        return [normal(2, 3, 8, 8)]

    def whole() -> list[torch.Tensor]:
        return [torch.randint(0, 40, (500,))]

    return [
        operator("flip", some, lambda x: ops.flip(x, [0, 1]), lambda x: x.flip(0, 1)),
        operator("roll", some, lambda x: ops.roll(x, 5, 1), lambda x: x.roll(5, 1)),
        operator("tril", some, ops.tril, torch.tril),
        operator("triu", some, ops.triu, torch.triu),
        operator("cat", _drawn(torch.float32, 2), lambda x, y: ops.cat([x, y], 1), lambda x, y: torch.cat([x, y], 1)),
        operator("stack", _drawn(torch.float32, 2), lambda x, y: ops.stack([x, y]), lambda x, y: torch.stack([x, y])),
        operator("repeat", some, lambda x: ops.repeat(x, (2, 3)), lambda x: x.repeat(2, 3)),
        operator("tile", some, lambda x: ops.tile(x, (3, 1)), lambda x: x.tile(3, 1)),
        operator("diag", _mapped(some, lambda x: x[0].clone()), ops.diag, torch.diag),
        operator("constant_pad_nd", some, lambda x: ops.constant_pad_nd(x, (1, 2)), lambda x: F.pad(x, (1, 2))),
        operator("gather", indices, lambda x, i: ops.gather(x, 0, i), lambda x, i: x.gather(0, i)),
        operator("scatter", scattered, lambda x, i, y: ops.scatter(x, 0, i, y), lambda x, i, y: x.scatter(0, i, y)),
        operator("index_select", some, lambda x: ops.index_select(x, 0, index[0]), lambda x: x[index[0]]),
        operator("index", some, lambda x: ops.index(x, index), lambda x: x[index]),
        operator("embedding", table, ops.embedding, lambda w, i: F.embedding(i, w)),
        operator("isin, whole tiles", _tested, ops.isin, torch.isin),
        operator("unique_consecutive", whole, lambda i: ops.unique_consecutive(i)[0], torch.unique_consecutive),
        operator("kron", _mapped(_drawn(torch.float32, 2), lambda x: x[:5, :6]), ops.kron, torch.kron, 2),
        operator("pixel_unshuffle", picture, lambda x: ops.pixel_unshuffle(x, 2), lambda x: F.pixel_unshuffle(x, 2)),
        operator(
            "avg_pool2d", picture, lambda x: ops.avg_pool2d(x, [2, 2], [2, 2], [0, 0]), lambda x: F.avg_pool2d(x, 2), 2
        ),
        operator("reflection_pad1d", some, lambda x: ops.reflection_pad1d(x, (3, 2)), _reflected),
    ]


def _products(ops: Any) -> list[Case]:
    cases = []
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        kind = SHORT[dtype]
        matrices = _sized(dtype, (64, 96), (96, 80))
        batches = _sized(dtype, (3, 64, 96), (3, 96, 80))
        sums = _sized(dtype, (64, 80), (64, 96), (96, 80))
        loose = 100 if dtype == torch.float32 else 2  # Triton multiplies float32 on tensor cores as tf32
        cases += [
            operator(f"mm, {kind}", matrices, ops.mm, torch.mm, loose),
            operator(f"bmm, {kind}", batches, ops.bmm, torch.bmm, loose),
            operator(f"addmm, {kind}", sums, ops.addmm, torch.addmm, loose),
            operator(f"mv, {kind}", _sized(dtype, (64, 96), (96,)), ops.mv, torch.mv, 4),
            operator(f"dot, {kind}", _sized(dtype, (500,), (500,)), ops.dot, torch.dot, 4),
        ]
    cases += [
        operator("vdot", _sized(torch.float32, (500,), (500,)), ops.vdot, torch.vdot, 8),
        operator("addr", _sized(torch.float32, (40, 50), (40,), (50,)), ops.addr, torch.addr, 2),
        operator("conv1d", _sized(torch.float32, (2, 4, 32), (8, 4, 3)), ops.conv1d, F.conv1d, 100),
        operator("conv2d", _sized(torch.float32, (2, 4, 9, 9), (8, 4, 3, 3)), ops.conv2d, F.conv2d, 100),
    ]
    return cases


def _same(ops: Any, name: str, make: Make, kind: str) -> Case:
    """An operator that has torch's name."""
    reference = getattr(torch, name, None) or getattr(torch.special, name.removeprefix("special_"))
    return operator(f"{name}, {kind}", make, getattr(ops, name), reference, 4)


def _drawn(dtype: torch.dtype, count: int) -> Make:
    return lambda: [normal(*SHAPE, dtype=dtype) for _ in range(count)]


def _sized(dtype: torch.dtype, *shapes: tuple[int, ...]) -> Make:
    return lambda: [normal(*shape, dtype=dtype) for shape in shapes]


def _integers(count: int) -> Make:
    return lambda: [torch.randint(1, 1000, SHAPE, dtype=torch.int32) for _ in range(count)]


def _tested() -> list[torch.Tensor]:
    """Values, and a multiple of 128 to look them up in: of other numbers the last tile's mask undoes what was found."""
    return [*_integers(1)(), torch.randint(1, 1000, (32, 128), dtype=torch.int32)]


def _mapped(make: Make, function: Callable[[torch.Tensor], torch.Tensor]) -> Make:
    return lambda: [function(one) for one in make()]


def _masked(make: Make) -> Make:
    return lambda: [*make(), torch.rand(SHAPE) < 0.3]


def _with(function: Callable[..., Any], *more: Any) -> Callable[..., Any]:
    """A function with the last arguments fixed."""
    return lambda *args: function(*args, *more)


def _rms_norm(x: torch.Tensor, weight: torch.Tensor, _: torch.Tensor) -> torch.Tensor:
    return F.rms_norm(x, weight.shape, weight, 1e-5)


def _reflected(x: torch.Tensor) -> torch.Tensor:
    return F.pad(x, (3, 2), mode="reflect")
