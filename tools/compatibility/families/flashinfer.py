"""FlashInfer's CUDA headers that need no other library: activations, merges of attention states, rotary embeddings."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F

from tools.compatibility.case import Case, Check
from tools.compatibility.families import Family, installed
from tools.compatibility.operators import ATOL, RTOL
from tools.compatibility.programs import Calls, called

Call = Callable[[Calls], list[Check]]
ROWS, WIDTH = 5, 1024
TOKENS, HEADS, DIM = 7, 8, 128
_TYPES = {"half": torch.float16, "bfloat16": torch.bfloat16}


def family() -> Family:
    version = installed("flashinfer-python")
    spec = importlib.util.find_spec("flashinfer")
    data = Path(next(iter(spec.submodule_search_locations or ()))) / "data"  # type: ignore[union-attr]
    toolkit = [data / "cccl" / each for each in ("libcudacxx/include", "cub", "thrust")]
    include = (data / "include", data / "spdlog" / "include", *toolkit)
    source = (Path(__file__).parent / "glue" / "flashinfer.cu").read_text()

    def case(kernel: str, call: Call) -> Case:
        return called(kernel, "flashinfer_rows", source, call, include)

    cases = [case(f"{kernel}, {name}", call) for name in _TYPES for kernel, call in _calls(name).items()]
    return Family("FlashInfer (CUDA)", version, [*cases, case("pack bits", _pack_bits)])


def _calls(name: str) -> dict[str, Call]:
    dtype = _TYPES[name]

    def drawn(*shape: int) -> torch.Tensor:
        return torch.randn(shape).to(dtype)

    def near(got: torch.Tensor, expected: torch.Tensor) -> Check:
        return Check(got, expected, RTOL[dtype], ATOL[dtype])

    def activation(function: str, reference: Callable[[torch.Tensor], torch.Tensor]) -> Call:
        def call(calls: Calls) -> list[Check]:
            x, out = drawn(ROWS, 2 * WIDTH), drawn(ROWS, WIDTH)
            calls(f"{function}_{name}", x, out, ROWS, WIDTH)
            gate, up = x.double().chunk(2, -1)
            return [near(out, reference(gate) * up)]

        return call

    def merge_state(calls: Calls) -> list[Check]:
        va, vb, v = (drawn(TOKENS, HEADS, DIM) for _ in range(3))
        sa, sb, s = (torch.randn(TOKENS, HEADS) for _ in range(3))
        calls(f"merge_state_{name}", va, sa, vb, sb, v, s, TOKENS, HEADS, DIM)
        return _merged(torch.stack([va, vb], 1), torch.stack([sa, sb], 1), v, s, near)

    def merge_states(calls: Calls) -> list[Check]:
        sets = 5
        values, lse = drawn(TOKENS, sets, HEADS, DIM), torch.randn(TOKENS, sets, HEADS)
        v, s = drawn(TOKENS, HEADS, DIM), torch.randn(TOKENS, HEADS)
        calls(f"merge_states_{name}", values, lse, v, s, sets, TOKENS, HEADS, DIM)
        return _merged(values, lse, v, s, near)

    def rotary(calls: Calls) -> list[Check]:
        q, k = drawn(TOKENS, HEADS, DIM), drawn(TOKENS, HEADS // 2, DIM)
        turned = torch.zeros_like(q), torch.zeros_like(k)
        positions = torch.randint(0, 500, (TOKENS,), dtype=torch.int32)
        calls(f"rotary_{name}", q, k, *turned, positions, TOKENS, HEADS, HEADS // 2, DIM)
        return [near(got, _turned(x, positions)) for got, x in zip(turned, (q, k), strict=True)]

    return {
        "silu and mul": activation("silu_and_mul", F.silu),
        "gelu and mul": activation("gelu_and_mul", F.gelu),
        "MergeState": merge_state,
        "MergeStates": merge_states,
        "rotary embedding by positions": rotary,
    }


def _merged(
    values: torch.Tensor,
    lse: torch.Tensor,
    out: torch.Tensor,
    out_lse: torch.Tensor,
    near: Callable[[torch.Tensor, torch.Tensor], Check],
) -> list[Check]:
    """Attention states merged over dimension 1; FlashInfer's LSE has base 2."""
    weights = torch.exp2(lse.double())
    total = weights.sum(1)
    expected = (values.double() * weights[..., None]).sum(1) / total[..., None]
    return [near(out, expected), Check(out_lse, total.log2(), 1e-5, 1e-4)]


def _turned(x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    frequencies = 1e4 ** (-torch.arange(0, DIM, 2, dtype=torch.float64) / DIM)
    angles = (positions.double()[:, None] * frequencies).repeat(1, 2)[:, None]
    low, high = x.double().chunk(2, -1)
    return x.double() * angles.cos() + torch.cat([-high, low], -1) * angles.sin()


def _pack_bits(calls: Calls) -> list[Check]:
    bits, out = torch.rand(1000) < 0.5, torch.zeros(125, dtype=torch.uint8)
    calls("pack_bits", bits, out, 1000)
    return [Check(out, (bits.view(-1, 8).int() << torch.arange(8)).sum(1))]
