"""The launches that calibrate the timing model, and those that test it: each is one launch of one kernel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from calibration.shipped import kernel, triton_launch

from sglab.gpu import Device, Launch, TensorMap
from sglab.kernels import ptx
from sglab.kernels.mla import MlaSm90
from sglab.kernels.mla.arguments import check
from sglab.planning.mla_sm90 import mla_sm90_plan

Prepare = Callable[[Device], "Prepared"]


@dataclass(frozen=True)
class Prepared:
    """A launch and the tensors that it must keep alive."""

    launch: Launch
    tensors: tuple[object, ...]


@dataclass(frozen=True)
class Case:
    """held_out: figures were not fitted to it."""

    kernel: str
    shape: str
    prepare: Prepare
    held_out: bool = False

    @property
    def name(self) -> str:
        return f"{self.kernel} {self.shape}"


def _randn(device: Device, *shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(*shape, generator=generator).to(dtype).to(device.torch_device)


def _empty(device: Device, *shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.zeros(*shape, dtype=dtype, device=device.torch_device)


def _ints(device: Device, values: list[int]) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int32, device=device.torch_device)


def copy(megabytes: int) -> Prepare:
    def prepare(device: Device) -> Prepared:
        source = _randn(device, megabytes * 2**18)
        target = torch.zeros_like(source)
        args = [target, source, source.nbytes // 16]
        return Prepared(kernel("streams", "copy").prepare(device, 528, 512, args=args), (source, target))

    return prepare


def axpy(count: int) -> Prepare:
    def prepare(device: Device) -> Prepared:
        x, y = _randn(device, count), _randn(device, count)
        args = [y, x, 2.0, count]
        return Prepared(kernel("streams", "axpy").prepare(device, -(-count // 256), 256, args=args), (x, y))

    return prepare


def loop(entry: str, ctas: int, trips: int) -> Prepare:
    def prepare(device: Device) -> Prepared:
        out = _empty(device, ctas * 256)
        args = [out, 0.5, 1.0, trips] if entry == "fma_loop" else [out, 0.25, trips]
        return Prepared(kernel("streams", entry).prepare(device, ctas, 256, args=args), (out,))

    return prepare


def rms_norm(rows: int, columns: int) -> Prepare:
    def prepare(device: Device) -> Prepared:
        x, weight = (_randn(device, *shape, dtype=torch.bfloat16) for shape in ((rows, columns), (columns,)))
        out = torch.zeros_like(x)
        args = [out, x, weight, columns, 1e-6]
        return Prepared(kernel("streams", "rms_norm").prepare(device, rows, 256, args=args), (x, weight, out))

    return prepare


def transpose(rows: int, columns: int) -> Prepare:
    def prepare(device: Device) -> Prepared:
        x, out = _randn(device, rows, columns), _empty(device, columns, rows)
        grid = (columns // 32, rows // 32, 1)
        args = [out, x, rows, columns]
        return Prepared(kernel("streams", "transpose").prepare(device, grid, 256, args=args), (x, out))

    return prepare


def gemm(m: int, n: int, k: int) -> Prepare:
    def prepare(device: Device) -> Prepared:
        a, b = (_randn(device, rows, k, dtype=torch.bfloat16) for rows in (m, n))
        c = _empty(device, m, n, dtype=torch.bfloat16)
        maps = [TensorMap(x, (128, 64), swizzle=128) for x in (a, b)]
        grid = (n // 128, m // 128, 1)
        launch = kernel("gemm", "gemm").prepare(device, grid, 288, smem=132_096, args=[*maps, c, n, k])
        return Prepared(launch, (a, b, c))

    return prepare


def flash_attention(heads: int, length: int, dim: int) -> Prepare:
    def prepare(device: Device) -> Prepared:
        q, k, v = (_randn(device, heads, length, dim, dtype=torch.float16) for _ in range(3))
        o = torch.zeros_like(q)
        args = {"q_ptr": q, "k_ptr": k, "v_ptr": v, "o_ptr": o, "scale": dim**-0.5, "length": length}
        launch = triton_launch(device, f"flash_attention_d{dim}", (length // 128, heads, 1), args)
        return Prepared(launch, (q, k, v, o))

    return prepare


HEADS, KV_HEADS, DIM, SPLITS = 32, 8, 128, 8


@dataclass(frozen=True)
class _Decode:
    args: dict[str, object]

    @staticmethod
    def make(device: Device, batch: int, length: int, splits: int) -> _Decode:
        bf16 = torch.bfloat16
        slots = torch.randperm(batch * length, generator=torch.Generator().manual_seed(1)).to(device.torch_device)
        strides = {"stride_qbs": HEADS * DIM, "stride_qh": DIM, "stride_obs": HEADS * DIM, "stride_oh": DIM}
        for name in ("stride_buf_kbs", "stride_buf_vbs"):
            strides |= {name: KV_HEADS * DIM, name.replace("bs", "h"): DIM}
        strides |= {"stride_buf_kh": DIM, "stride_buf_vh": DIM}
        strides |= {"stride_mid_ob": HEADS * SPLITS * DIM, "stride_mid_oh": SPLITS * DIM, "stride_mid_os": DIM}
        strides |= {"stride_lse_b": HEADS * SPLITS, "stride_lse_h": SPLITS}
        return _Decode(
            {
                "Q": _randn(device, batch, HEADS, DIM, dtype=bf16),
                "K_Buffer": _randn(device, batch * length, KV_HEADS, DIM, dtype=bf16),
                "V_Buffer": _randn(device, batch * length, KV_HEADS, DIM, dtype=bf16),
                "sm_scale": DIM**-0.5,
                "kv_indptr": _ints(device, [length * i for i in range(batch + 1)]),
                "kv_indices": slots,
                "Att_Out": _randn(device, batch, HEADS, SPLITS, DIM),
                "Att_Lse": _randn(device, batch, HEADS, SPLITS),
                "num_kv_splits": _ints(device, [splits] * batch),
                "Out": _empty(device, batch, HEADS, DIM, dtype=bf16),
                "num_heads": HEADS,
                **strides,
            }
        )


def decode_stage1(batch: int, length: int, splits: int) -> Prepare:
    def prepare(device: Device) -> Prepared:
        made = _Decode.make(device, batch, length, splits)
        return Prepared(triton_launch(device, "decode_stage1", (batch, KV_HEADS, SPLITS), made.args), (made,))

    return prepare


def decode_stage2(batch: int, length: int, splits: int) -> Prepare:
    def prepare(device: Device) -> Prepared:
        made = _Decode.make(device, batch, length, splits)
        return Prepared(triton_launch(device, "decode_stage2", (batch, HEADS, 1), made.args), (made,))

    return prepare


def mla(batch: int, tokens: int, heads: int, number: int, limit: int) -> Prepare:
    """One launch of an MLA decode, alone, without overlap.

    Args:
        number: 0 for the attention, 1 for the combine.
        limit: the most tiles per work unit of the plan that was measured; another planner's choice is another launch.
    """

    def prepare(device: Device) -> Prepared:
        pages = -(-tokens // 64)
        q = _randn(device, batch, heads, 576, dtype=torch.bfloat16)
        cache = _randn(device, batch * pages, 64, 576, dtype=torch.bfloat16)
        table = torch.randperm(batch * pages, generator=torch.Generator().manual_seed(1)).int().view(batch, pages)
        # The plan for an H100 whatever the device: the same launch everywhere.
        decode = MlaSm90(device, mla_sm90_plan([tokens] * batch, num_heads=heads, sm_count=132, limit=limit), heads)
        table = table.to(device.torch_device)
        arguments = check("mla_decode_sm90", q[..., :512], q[..., 512:], cache, table, 192**-0.5, None, None, "e")
        launch = replace(decode.prepare(arguments)[number], overlaps=False)
        return Prepared(launch, (q, cache, table, decode, arguments))

    return prepare


def merge_state(rows: int, dtype: torch.dtype) -> Prepare:
    def prepare(device: Device) -> Prepared:
        v_a, v_b = (_randn(device, rows, 128, dtype=dtype) for _ in range(2))
        s_a, s_b, s = (_randn(device, rows) for _ in range(3))
        v = torch.zeros_like(v_a)
        lanes = 128 * v.element_size() // 16
        entry = ptx.module("merge")[f"merge_state_{'f32' if dtype == torch.float32 else 'bf16'}"]
        args = [v_a, s_a, v_b, s_b, None, v, s, rows, 1, 128, lanes]
        return Prepared(entry.prepare(device, rows * lanes // 128, 128, args=args), (v_a, v_b, s_a, s_b, s, v))

    return prepare


CASES = (
    Case("copy", "1 MiB", copy(1)),
    Case("copy", "16 MiB", copy(16)),
    Case("copy", "64 MiB", copy(64)),
    Case("copy", "32 MiB", copy(32), held_out=True),
    Case("axpy", "2^20", axpy(2**20)),
    Case("axpy", "2^22", axpy(2**22), held_out=True),
    Case("fma_loop", "8 CTAs × 512", loop("fma_loop", 8, 512)),
    Case("fma_loop", "264 CTAs × 24", loop("fma_loop", 264, 24), held_out=True),
    Case("mixed_loop", "8 CTAs × 1024", loop("mixed_loop", 8, 1024)),
    Case("mixed_loop", "264 CTAs × 64", loop("mixed_loop", 264, 64), held_out=True),
    Case("rms_norm", "1024 × 4096", rms_norm(1024, 4096)),
    Case("rms_norm", "128 × 8192", rms_norm(128, 8192), held_out=True),
    Case("rms_norm", "2048 × 2048", rms_norm(2048, 2048), held_out=True),
    Case("transpose", "1024 × 1024", transpose(1024, 1024)),
    Case("transpose", "2048 × 2048", transpose(2048, 2048), held_out=True),
    Case("gemm", "1024 × 1024 × 1024", gemm(1024, 1024, 1024)),
    Case("gemm", "2048 × 2048 × 2048", gemm(2048, 2048, 2048)),
    Case("gemm", "512 × 512 × 4096", gemm(512, 512, 4096), held_out=True),
    Case("gemm", "4096 × 2048 × 1024", gemm(4096, 2048, 1024), held_out=True),
    Case("flash_attention", "4 heads × 1024 × 64", flash_attention(4, 1024, 64)),
    Case("flash_attention", "33 heads × 512 × 64", flash_attention(33, 512, 64)),
    Case("flash_attention", "2 heads × 2048 × 64", flash_attention(2, 2048, 64), held_out=True),
    Case("flash_attention", "4 heads × 1024 × 128", flash_attention(4, 1024, 128), held_out=True),
    Case("decode_stage1", "B=4 S=2048, 8 splits", decode_stage1(4, 2048, 8)),
    Case("decode_stage1", "B=16 S=512, 4 splits", decode_stage1(16, 512, 4), held_out=True),
    Case("decode_stage1", "B=1 S=2048, 8 splits", decode_stage1(1, 2048, 8), held_out=True),
    Case("decode_stage2", "B=4 S=2048, 8 splits", decode_stage2(4, 2048, 8)),
    Case("decode_stage2", "B=16 S=512, 4 splits", decode_stage2(16, 512, 4), held_out=True),
    Case("mla_decode_sm90", "B=1 S=1024 H=128", mla(1, 1024, 128, 0, limit=1)),
    Case("mla_decode_sm90", "B=4 S=4096 H=128", mla(4, 4096, 128, 0, limit=4)),
    Case("mla_decode_sm90", "B=1 S=8192 H=128", mla(1, 8192, 128, 0, limit=4), held_out=True),
    Case("mla_decode_sm90", "B=32 S=1024 H=128", mla(32, 1024, 128, 0, limit=8), held_out=True),
    Case("mla_decode_sm90", "B=8 S=2048 H=16", mla(8, 2048, 16, 0, limit=4), held_out=True),
    Case("split_kv_combine", "B=1 S=1024 H=128", mla(1, 1024, 128, 1, limit=1)),
    Case("split_kv_combine", "B=4 S=4096 H=128", mla(4, 4096, 128, 1, limit=4), held_out=True),
    Case("merge_state", "32768 × 128 bf16", merge_state(32768, torch.bfloat16)),
    Case("merge_state", "8192 × 128 fp32", merge_state(8192, torch.float32), held_out=True),
)
