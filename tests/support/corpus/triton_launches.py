"""Triton's kernels: elementwise, softmax, norms, matrix products with and without tensor maps, flash attention."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator

import torch

from tests.support.corpus.launch import PTX, Arguments, Draw, Launch, Map, Scratch, cdiv, close, equal

Make, Check = Callable[[Draw], Arguments], Callable[[Arguments], None]


def launches() -> Iterator[Launch]:
    for arch in ("sm_80", "sm_90", "sm_100"):
        for name, grid, make, check, exact in _cases():
            if (PTX / f"{name}.{arch}.json").exists():
                yield _launch(name, arch, grid, make, check, exact)


def _launch(name: str, arch: str, grid: tuple[int, int, int], make: Make, check: Check, exact: bool) -> Launch:
    """With Triton's two hidden parameters: scratch memory for the tensor maps that a kernel makes, and profiling."""
    meta = json.loads((PTX / f"{name}.{arch}.json").read_text())

    def whole(draw: Draw) -> Arguments:
        return [*make(draw), Scratch(meta["scratch"] * math.prod(grid)) if meta["scratch"] else None, None]

    block = (32 * meta["warps"], 1, 1)
    full = f"triton.{name}.{arch}"
    return Launch(full, f"{name}.{arch}", meta["entry"], grid, block, whole, check, smem=meta["smem"], exact=exact)


def _cases() -> Iterator[tuple[str, tuple[int, int, int], Make, Check, bool]]:
    f16, bf16, f32 = torch.float16, torch.bfloat16, torch.float32
    yield "vector_add", (4, 1, 1), lambda draw: _vectors(draw, 4000, 0), _check_sum, True
    yield "vector_add_unaligned", (4, 1, 1), lambda draw: _vectors(draw, 1000, 1), _check_sum, True
    yield "softmax", (5, 1, 1), _rows(f32), _softmax_within(1e-5), False
    yield "softmax_bf16", (5, 1, 1), _rows(bf16), _softmax_within(8e-3), False
    yield "layer_norm", (4, 1, 1), _layer_norm, _check_layer_norm, False
    yield "rms_norm", (4, 1, 1), _rms_norm, _check_rms_norm, False
    yield _matmul("matmul_f16", f16, f16, 128, 128, 2e-3)
    yield _matmul("matmul_bf16_small", bf16, f32, 64, 64, 1e-4)
    yield _matmul("matmul_f32", f32, f32, 64, 64, 1e-4)
    yield _matmul("matmul_e4m3", torch.float8_e4m3fn, f32, 128, 64, 5e-3)
    yield "matmul_tma", (2, 2, 1), _transposed, lambda a: close(a[2], _product(a[0], a[1].T), 2e-3, 2e-2), True
    yield "matmul_descriptors", (2, 2, 1), _descriptors, _check_descriptors, True
    yield _attention("flash_attention", f16, False, 64, 2e-3, 512)
    yield _attention("flash_attention_causal_bf16", bf16, True, 64, 2e-2, 300)
    yield _attention("flash_attention_d128", f16, False, 128, 2e-3, 300)


def _vectors(draw: Draw, count: int, offset: int) -> Arguments:
    made = [draw.floats(count + offset), draw.floats(count + offset), torch.zeros(count + offset)]
    return [*(tensor[offset:] for tensor in made), count]


def _check_sum(a: Arguments) -> None:
    equal(a[2], a[0] + a[1])


def _rows(dtype: torch.dtype) -> Make:
    return lambda draw: [draw.floats(5, 1008, dtype=dtype), torch.zeros(5, 1008, dtype=dtype), 1008, 1000]


def _softmax_within(tolerance: float) -> Check:
    def check(a: Arguments) -> None:
        close(a[1][:, :1000], torch.softmax(a[0][:, :1000].double(), 1), tolerance, tolerance * 1e-2)

    return check


def _layer_norm(draw: Draw) -> Arguments:
    x, weight, bias = (draw.floats(*shape, dtype=torch.float16) for shape in ((4, 1200), (1200,), (1200,)))
    return [x, weight, bias, torch.zeros(4, 1200).half(), 1200, 1e-5]


def _check_layer_norm(a: Arguments) -> None:
    x, weight, bias = (tensor.double() for tensor in a[:3])
    close(a[3], torch.nn.functional.layer_norm(x, (x.shape[1],), weight, bias, a[5]), 2e-3, 2e-3)


def _rms_norm(draw: Draw) -> Arguments:
    x, weight = draw.floats(4, 992, dtype=torch.bfloat16), draw.floats(992, dtype=torch.bfloat16)
    return [x, weight, torch.zeros(4, 992).bfloat16(), 992, 1e-6]


def _check_rms_norm(a: Arguments) -> None:
    x = a[0].double()
    close(a[2], x / torch.sqrt((x * x).mean(1, keepdim=True) + a[4]) * a[1].double(), 8e-3, 8e-3)


def _product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a.double() @ b.double()


def _matmul(
    name: str, dtype: torch.dtype, out: torch.dtype, tile_m: int, tile_n: int, tolerance: float
) -> tuple[str, tuple[int, int, int], Make, Check, bool]:
    M, N, K = 160, 144, 192

    def make(draw: Draw) -> Arguments:
        a, b = (draw.tf32(*shape).to(dtype) for shape in ((M, K), (K, N)))
        return [a, b, torch.zeros(M, N, dtype=out), M, N, K, K, N, N]

    def check(a: Arguments) -> None:
        close(a[2], _product(a[0], a[1]), tolerance, 3 * tolerance)

    return name, (cdiv(M, tile_m), cdiv(N, tile_n), 1), make, check, True


def _transposed(draw: Draw) -> Arguments:
    a, b = draw.floats(200, 192, dtype=torch.float16), draw.floats(176, 192, dtype=torch.float16)
    return [a, b, torch.zeros(200, 176).half(), 200, 176, 192]


def _descriptors(draw: Draw) -> Arguments:
    """A host tensor descriptor becomes a tensor map, its shape and its strides."""
    arguments: Arguments = []
    for tensor in _transposed(draw)[:3]:
        arguments += [Map(tensor, (64, 128), 128), *tensor.shape, tensor.stride(0), 1]
    return [*arguments, 200, 176, 192]


def _check_descriptors(a: Arguments) -> None:
    close(a[10].tensor, _product(a[0].tensor, a[5].tensor.T), 2e-3, 2e-2)


def _attention(
    name: str, dtype: torch.dtype, causal: bool, D: int, tolerance: float, S: int
) -> tuple[str, tuple[int, int, int], Make, Check, bool]:
    def make(draw: Draw) -> Arguments:
        q, k, v = (draw.floats(2, S, D, dtype=dtype) for _ in range(3))
        return [q, k, v, torch.zeros(2, S, D, dtype=dtype), torch.zeros(2, S), D**-0.5, S, S * D]

    def check(a: Arguments) -> None:
        q, k, v, out, lse = (tensor.double() for tensor in a[:5])
        scores = q @ k.transpose(1, 2) * a[5]
        if causal:
            scores = scores.masked_fill(torch.ones(S, S, dtype=torch.bool).triu(1), -math.inf)
        close(lse, torch.logsumexp(scores, -1), 1e-3, 1e-3)
        close(out, torch.softmax(scores, -1) @ v, tolerance, tolerance)

    return name, (cdiv(S, 128), 2, 1), make, check, False
