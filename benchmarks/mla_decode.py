"""Our SM90 MLA decode beside FlashMLA and FlashInfer fa3, on one GPU in one run: python benchmarks/mla_decode.py

bf16, page size 64, pages in random order, head dims 576/512, one query token per request. Every implementation's result
is compared with float64 before it is timed. Times are medians of triton.testing.do_bench, which clears the L2 cache
before each call; plans are made before. A peer that is not installed is left out of the table.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from triton.testing import do_bench

from sglab.gpu import CudaDevice
from sglab.kernels.mla_sm90 import MlaSm90
from sglab.kernels.mla_sm90.contract import check
from sglab.planning.mla_sm90 import mla_sm90_plan

SHAPES = [
    (1, 1024, 128),
    (1, 8192, 128),
    (1, 65536, 128),
    (4, 4096, 128),
    (8, 16384, 128),
    (32, 1024, 128),
    (32, 4096, 128),
    (32, 16384, 128),
    (64, 4096, 128),
    (128, 4096, 128),
    (128, 4096, 16),
    (128, 8192, 64),
]
"""Batch size, KV tokens per request, heads."""
PAGE_SIZE = 64
SCALE = 192**-0.5
OURS = "sglab"
TOLERANCE = 1e-2
"""‖out − reference‖ / ‖reference‖ that bf16 results stay under."""

Run = Callable[[], torch.Tensor]


@dataclass(frozen=True)
class Batch:
    """One decode step on the GPU. q (B, H, 576), kv (pages, 64, 576), page_table (B, pages per request)."""

    q: torch.Tensor
    kv: torch.Tensor
    page_table: torch.Tensor
    tokens: int

    @staticmethod
    def random(batch: int, tokens: int, heads: int) -> Batch:
        width = -(-tokens // PAGE_SIZE)
        q = torch.randn(batch, heads, 576, device="cuda", dtype=torch.bfloat16)
        kv = torch.randn(batch * width, PAGE_SIZE, 576, device="cuda", dtype=torch.bfloat16)
        pages = torch.randperm(batch * width, device="cuda").int().view(batch, width)
        return Batch(q, kv, pages, tokens)

    @property
    def size(self) -> int:
        return len(self.q)

    @property
    def heads(self) -> int:
        return self.q.shape[1]

    def error(self, out: torch.Tensor) -> float:
        """Largest relative error over the first and the last request, against float64."""
        errors = []
        for request in {0, self.size - 1}:
            kv = self.kv[self.page_table[request].long()].view(-1, 576)[: self.tokens].double()
            reference = torch.softmax(self.q[request].double() @ kv.T * SCALE, -1) @ kv[:, :512]
            errors.append(float((out[request].double() - reference).norm() / reference.norm()))
        return math.inf if any(map(math.isnan, errors)) else max(errors)


def ours(batch: Batch) -> Run:
    device = CudaDevice(0)
    plan = mla_sm90_plan([batch.tokens] * batch.size, num_heads=batch.heads, sm_count=device.sms)
    decode = MlaSm90(device, plan, batch.heads)
    q_nope, q_pe = batch.q.split([512, 64], -1)
    arguments = check("mla_decode_sm90", q_nope, q_pe, batch.kv, batch.page_table, SCALE, None, None, "e")
    launches = decode.prepare(arguments)

    def run(keeps_buffers: MlaSm90 = decode) -> torch.Tensor:
        for launch in launches:
            device.run(launch)
        return arguments.out

    return run


def flash_mla(batch: Batch) -> Run:
    import flash_mla

    lengths = torch.full((batch.size,), batch.tokens, dtype=torch.int32, device="cuda")
    metadata = flash_mla.get_mla_metadata()[0]
    q, kv = batch.q.unsqueeze(1), batch.kv.unsqueeze(2)

    def run() -> torch.Tensor:
        out, _ = flash_mla.flash_mla_with_kvcache(q, kv, batch.page_table, lengths, 512, metadata, softmax_scale=SCALE)
        return out.squeeze(1)

    return run


def flashinfer_fa3(batch: Batch) -> Run:
    import flashinfer

    workspace = torch.empty(256 * 2**20, dtype=torch.uint8, device="cuda")
    wrapper = flashinfer.mla.BatchMLAPagedAttentionWrapper(workspace, backend="fa3")
    width = batch.page_table.shape[1]
    wrapper.plan(
        torch.arange(batch.size + 1, dtype=torch.int32, device="cuda"),
        torch.arange(batch.size + 1, dtype=torch.int32, device="cuda") * width,
        batch.page_table.flatten(),
        torch.full((batch.size,), batch.tokens, dtype=torch.int32, device="cuda"),
        batch.heads,
        512,
        64,
        PAGE_SIZE,
        False,
        SCALE,
        torch.bfloat16,
        torch.bfloat16,
    )
    q_nope, q_pe = (part.contiguous() for part in batch.q.split([512, 64], -1))
    ckv, kpe = batch.kv.split([512, 64], -1)
    out = torch.empty_like(q_nope)
    return lambda: wrapper.run(q_nope, q_pe, ckv, kpe, out=out)


IMPLEMENTATIONS = {OURS: ours, "FlashMLA": flash_mla, "FlashInfer fa3": flashinfer_fa3}
PACKAGES = {OURS: "sglab", "FlashMLA": "flash_mla", "FlashInfer fa3": "flashinfer"}


def copy_bandwidth() -> float:
    """GB/s of a large device copy, read and written bytes together."""
    source = torch.empty(2**30, dtype=torch.uint8, device="cuda").random_()
    target = torch.empty_like(source)
    return 2 * source.nbytes / do_bench(lambda: target.copy_(source), return_mode="median") / 1e6


def matmul_rate() -> float:
    """TFLOPS of an 8192³ bf16 product of random matrices."""
    a, b = (torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    return 2 * 8192**3 / do_bench(lambda: a @ b, return_mode="median") / 1e9


def measure(shape: tuple[int, int, int], names: list[str]) -> dict[str, float]:
    """Microseconds by implementation."""
    batch = Batch.random(*shape)
    times = {}
    for name in names:
        run = IMPLEMENTATIONS[name](batch)
        error = batch.error(run())
        if error > TOLERANCE:
            raise SystemExit(f"{name} at batch, tokens, heads = {shape}: relative error {error:.2e}")
        times[name] = 1e3 * do_bench(run, warmup=20, rep=80, return_mode="median")
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="also write the figures here")
    parser.add_argument("--only", nargs="*", choices=list(IMPLEMENTATIONS), help="these implementations")
    options = parser.parse_args()
    torch.manual_seed(torch.seed())
    names = [name for name in options.only or IMPLEMENTATIONS if importlib.util.find_spec(PACKAGES[name])]
    peers = [name for name in names if name != OURS]
    bandwidth, rate = copy_bandwidth(), matmul_rate()
    ceilings = f"copy {bandwidth:.0f} GB/s, matmul {rate:.0f} TFLOPS"
    print(f"{torch.cuda.get_device_name()}, {ceilings}, torch {torch.__version__}")
    print(f"{'B':>4}{'S':>7}{'H':>5}" + "".join(f"{name:>16}" for name in names) + "  ratio  GB/s  (%)  TFLOPS  (%)")
    rows, ratios = [], []
    for shape in SHAPES:
        times = measure(shape, names)
        batch_bytes, flop = _work(shape)
        gbs, tflops = batch_bytes / times[OURS] / 1e3, flop / times[OURS] / 1e6
        ratio = min((times[name] for name in peers), default=math.nan) / times[OURS]
        ratios.append(ratio)
        rows.append({"shape": shape, "us": times, "ratio": ratio, "GB/s": gbs, "TFLOPS": tflops})
        print(
            "".join(f"{value:>{width}}" for value, width in zip(shape, (4, 7, 5), strict=True))
            + "".join(f"{times[name]:>13.1f} µs" for name in names)
            + f"{ratio:>7.2f}{gbs:>6.0f}{gbs / bandwidth:>6.0%}{tflops:>7.0f}{tflops / rate:>6.0%}",
            flush=True,
        )
    if peers:
        print(f"geometric mean of best peer / ours: {statistics.geometric_mean(ratios):.3f}")
    if options.json:
        content = {"device": torch.cuda.get_device_name(), "copy GB/s": bandwidth, "matmul TFLOPS": rate, "rows": rows}
        options.json.write_text(json.dumps(content, indent=1))


def _work(shape: tuple[int, int, int]) -> tuple[int, int]:
    """Bytes and FLOP: KV once, Q and O; two products of 576 and 512 columns."""
    size, tokens, heads = shape
    return 2 * size * (tokens * 576 + heads * (576 + 512)), 2 * size * heads * tokens * (576 + 512)


if __name__ == "__main__":
    main()
