"""The same batches on a GPU: every backend against the float64 reference, and data equal to the CPU's."""

from typing import Any

import pytest
import torch

import sglab
from sglab.workbench import decode_batch, extend_batch, max_error, reference
from tests.support.attention import every_backend
from tests.support.attention_matrix import CASES, check

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU"),
]

TOLERANCE = {"float16": 3e-3, "bfloat16": 3e-2}
LENGTHS = [4097, 1, 300, 128, 5000]


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("layout", ["contiguous", "fragmented"])
@pytest.mark.parametrize("page_size", [1, 64, 128])
@pytest.mark.parametrize("backend", ["torch_native", "flex_attention", "triton"])
def test_gqa_decode(backend: str, page_size: int, layout: Any, dtype: str) -> None:
    shape = {"kind": "mha", "num_heads": 32, "num_kv_heads": 8, "head_dim": 128, "page_size": page_size}
    batch = decode_batch(LENGTHS, dtype=dtype, layout=layout, device="cuda", **shape)
    assert max_error(sglab.attend(batch, backend), reference(batch).o) <= TOLERANCE[dtype]


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("heads", [16, 128])
@pytest.mark.parametrize("backend", ["torch_native", "triton", "cutlass_mla"])
def test_mla_decode(backend: str, heads: int, dtype: str) -> None:
    batch = decode_batch(LENGTHS, num_heads=heads, page_size=128, dtype=dtype, layout="fragmented", device="cuda")
    out = sglab.attend(batch, backend)
    assert max_error(out, reference(batch).o) <= TOLERANCE[dtype]
    assert {run.machine for run in out.info.runs} == {"cuda"}


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("backend", ["torch_native", "flex_attention", "triton"])
def test_extend_and_mixed(backend: str, dtype: str) -> None:
    shape = {"kind": "mha", "num_heads": 8, "num_kv_heads": 2, "head_dim": 64, "page_size": 16}
    batch = extend_batch([700, 513], [512, 0], decode_seq_lens=[900], dtype=dtype, device="cuda", **shape)
    assert max_error(sglab.attend(batch, backend), reference(batch).o) <= TOLERANCE[dtype]


@pytest.mark.parametrize(("name", "kind"), every_backend())
def test_the_matrix(name: str, kind: str) -> None:
    for case in CASES:
        assert check(name, kind, case, seed=1, device="cuda") in ("served", "refused", "")


def test_a_seed_gives_the_same_batch_on_every_device() -> None:
    here, there = (decode_batch([70, 9], num_heads=4, page_size=16, device=device) for device in ("cpu", "cuda"))
    assert torch.equal(here.q, there.q.cpu()) and torch.equal(here.k, there.k.cpu())
    assert [here.pages(i) for i in range(2)] == [there.pages(i) for i in range(2)]


def test_edits_run_on_the_gpu_too() -> None:
    batch = decode_batch([70, 9], num_heads=4, page_size=16, device="cuda")
    batch.share_prefix(0, 40, extra_tokens=3)
    batch.free(0)
    batch.extend_by_token(0)
    assert max_error(sglab.attend(batch, "triton"), reference(batch).o) <= TOLERANCE["float16"]
