"""The Triton kernels on this GPU beside peers, in one run: python benchmarks/kernels.py [--only SECTION ...]

Peers: torch indexing for the index kernels, torch's arithmetic for merges (merges.py has FlashInfer's), torch's
attention on contiguous keys (a head start) for decode and extend, two batched matrix products for MLA.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from datetime import date

import cases
import torch
import triton
from timing import Case, copy_bandwidth, print_head, print_row

MLA_SHAPES = (
    *((1, 1024, 128), (1, 8192, 128), (1, 65536, 128), (4, 4096, 128), (8, 16384, 128), (32, 1024, 128)),
    *((32, 4096, 128), (32, 16384, 128), (64, 4096, 128), (128, 4096, 128), (128, 4096, 16), (128, 8192, 64)),
)
"""Batch, length, heads."""


def indices() -> Iterator[Case]:
    for batch, length in ((32, 4096), (256, 8192)):
        yield cases.flashinfer_indices(batch, length)
        yield cases.flashmla_indices(batch, length)
    for tokens in (128, 16384):
        yield cases.mla_kv_buffer(tokens)


def merges() -> Iterator[Case]:
    for tokens, heads, dim in ((128, 128, 512), (4096, 32, 128), (16384, 32, 128), (8192, 128, 128)):
        for dtype in (torch.bfloat16, torch.float32):
            yield cases.merge_pair(tokens, heads, dim, dtype)
    yield cases.merge_many(128, 8, 128, 512)
    yield cases.merge_many(4096, 4, 32, 128)
    yield cases.merge_many(64, 64, 128, 512)


def decode() -> Iterator[Case]:
    yield cases.decode(32, 4096, 32, 32, 128)
    for batch, length, heads in ((32, 4096, 32), (8, 16384, 32), (128, 4096, 64), (1, 65536, 32)):
        yield cases.decode(batch, length, heads, 8, 128)


def mla() -> Iterator[Case]:
    for shape in MLA_SHAPES:
        yield cases.mla(*shape)


def extend() -> Iterator[Case]:
    yield cases.extend(1, 0, 4096, 32, 8, 128)
    yield cases.extend(4, 4096, 1024, 32, 8, 128)
    yield cases.extend(1, 16384, 4096, 32, 32, 128)
    yield cases.extend(4, 0, 4096, 16, 16, 64)


SECTIONS: dict[str, tuple[str, Callable[[], Iterator[Case]]]] = {
    "indices": ("Index kernels and cache writes; peer: torch indexing", indices),
    "merges": ("Merges; peer: torch's arithmetic", merges),
    "decode": ("decode_attention_fwd, bf16, scattered slots; peer: torch attention, contiguous keys", decode),
    "mla": ("cutlass_mla_decode, bf16, scattered pages of 64; peer: two batched matrix products", mla),
    "extend": ("extend_attention_fwd, bf16, causal; peer: torch attention, contiguous keys", extend),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=list(SECTIONS), default=list(SECTIONS), help="which sections")
    chosen = parser.parse_args().only
    if not torch.cuda.is_available():
        raise SystemExit("benchmarks/kernels.py needs an NVIDIA GPU; none was found")
    torch.manual_seed(0)
    ceiling = copy_bandwidth()
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, Triton {triton.__version__}, {date.today()}")
    print(f"device copy {ceiling / 1e9:.0f} GB/s (read + write); medians, cold L2 cache")
    for name in chosen:
        title, section = SECTIONS[name]
        print_head(title)
        for case in section():
            print_row(case, ceiling)


if __name__ == "__main__":
    main()
