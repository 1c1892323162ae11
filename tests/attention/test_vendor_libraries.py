"""The vendors' own kernels, where their libraries are installed: implementation="flashinfer" and "flash_mla"."""

from __future__ import annotations

import importlib.util
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

import sglab
from sglab.attention import create_attention_backend
from sglab.attention.arithmetic import flashinfer as library
from sglab.engine import BadArgumentError
from sglab.kernels import flash_mla_with_kvcache, get_mla_metadata
from sglab.kernels.flash_attn import library as flash_attn
from sglab.kernels.flash_attn import operator
from sglab.workbench import decode_batch, extend_batch, max_error, reference
from tests.support.attention import float64_attention
from tests.support.attention_matrix import CASES, Draw, attended, limit_of
from tests.support.flash_attn_packages import installed_on_hopper

TOLERANCE = {"float16": 3e-3, "bfloat16": 3e-2}
MHA = {"kind": "mha", "num_heads": 16, "head_dim": 128, "page_size": 16}
MLA = {"num_heads": 16, "page_size": 64}


def on_gpu(package: str) -> Callable[[Any], Any]:
    absent = not torch.cuda.is_available() or importlib.util.find_spec(package) is None

    def mark(test: Any) -> Any:
        needed = pytest.mark.skipif(absent, reason=f"needs an NVIDIA GPU and {package}")
        return pytest.mark.gpu(pytest.mark.slow(needed(test)))  # slow: FlashInfer compiles its kernels first

    return mark


class TestRefusals:
    def test_tensors_on_a_cpu(self) -> None:
        batch = decode_batch([70, 9], num_kv_heads=4, **MHA)
        with pytest.raises(BadArgumentError, match="its kernels run on a GPU") as refused:
            sglab.attend(batch, "flashinfer", implementation="flashinfer")
        assert "implementation='auto'" in str(refused.value)

    def test_splits_of_deterministic_mode(self) -> None:
        batch = decode_batch([70, 9], num_kv_heads=4, **MHA)
        asked = replace(batch.runner, kernel_implementation="flashinfer", enable_deterministic_inference=True)
        with pytest.raises(BadArgumentError, match="deterministic"):
            create_attention_backend("flashinfer", asked)

    def test_flash_attn_on_a_cpu_and_by_backends_without_it(self) -> None:
        batch = decode_batch([70, 9], num_kv_heads=4, **MHA)
        with pytest.raises(BadArgumentError, match="its kernels run on a GPU") as refused:
            sglab.attend(batch, "fa3", implementation="flash_attn")
        assert "implementation='auto'" in str(refused.value)
        with pytest.raises(BadArgumentError, match=r"implementation: expected one of auto, .*, got 'flash_attn'"):
            sglab.attend(batch, "flashinfer", implementation="flash_attn")

    def test_flash_mla_on_a_cpu(self) -> None:
        with pytest.raises(ValueError, match="its kernel runs on a GPU"):
            dense(torch.device("cpu"), [100, 3], 16, 1, False, "flash_mla")


FLASH_ATTN = (
    "decode",
    "extend",
    "mixed",
    "verify a chain",
    "verify a tree",
    "window in extend",
    "window both ways",
    "sees ahead",
    "soft cap",
    "sinks",
    "8 heads per KV head",
    "page size 1",
    "draft extend",
)


@pytest.mark.parametrize("kind", ["mha", "mla"])
@pytest.mark.parametrize("case", FLASH_ATTN)
def test_flash_attns_package_is_asked_for_the_same(case: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Packages with the real signatures, which attend by our reference: what is passed is the pass that was meant."""
    installed_on_hopper(monkeypatch)
    taken = [
        each if each.name != "flash_attn" else replace(each, refuses=_on_any) for each in operator._implementations
    ]
    monkeypatch.setattr(operator, "_implementations", taken)
    made = CASES[case](Draw("fa3", kind, random.Random(case), {"dtype": "bfloat16"}))
    if made is None:
        return
    out = attended("fa3", made, "flash_attn")
    assert max_error(out, float64_attention(made.batch, made.sinks, made.parents)) <= limit_of(made)


def _on_any(a: Any) -> str | None:
    reasons = [flash_attn.unfit(a, package, 9) for package in flash_attn.PACKAGES]
    return None if None in reasons else "; ".join(map(str, reasons))


@on_gpu("flash_attn_interface")
@pytest.mark.parametrize("case", FLASH_ATTN)
def test_flash_attns_package(case: str) -> None:
    shape = {"device": "cuda", "head_dim": 128, "v_head_dim": 128, "dtype": "bfloat16"}
    made = CASES[case](Draw("fa3", "mha", random.Random(case), shape))
    assert made is not None
    if case == "sinks" and importlib.util.find_spec("sgl_kernel") is None:
        pytest.skip("sinks need sgl_kernel's build")
    out = attended("fa3", made, "flash_attn")
    assert max_error(out, float64_attention(made.batch, made.sinks, made.parents)) <= limit_of(made)


@on_gpu("flashinfer")
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("kv_heads", [16, 4])
def test_decode(kv_heads: int, dtype: str) -> None:
    """On CUDA cores with a head of its own each, on tensor cores with four per KV head."""
    batch = decode_batch([4097, 1, 300], num_kv_heads=kv_heads, dtype=dtype, device="cuda", layout="fragmented", **MHA)
    out = sglab.attend(batch, "flashinfer", implementation="flashinfer")
    assert max_error(out, reference(batch).o) <= TOLERANCE[dtype]
    assert "flashinfer on cuda" in str(out.info)


@on_gpu("flashinfer")
@pytest.mark.parametrize("decoding", [[], [900]])
@pytest.mark.parametrize("prefixes", [[512, 0], [0, 0]])
def test_extend(prefixes: list[int], decoding: list[int]) -> None:
    """New tokens apart from the prefix, then merged; without a prefix, the new tokens alone."""
    lens = [prefix + new for prefix, new in zip(prefixes, (188, 513), strict=True)]
    batch = extend_batch(lens, prefixes, decode_seq_lens=decoding, num_kv_heads=4, device="cuda", **MHA)
    out = sglab.attend(batch, "flashinfer", implementation="flashinfer")
    assert max_error(out, reference(batch).o) <= TOLERANCE["float16"]


@on_gpu("flashinfer")
@pytest.mark.parametrize("case", ["verify a tree", "window in extend", "window in decode", "soft cap", "FP8 KV e4m3"])
def test_masks_windows_caps_and_fp8(case: str) -> None:
    shape = {"device": "cuda", "head_dim": 128, "v_head_dim": 128, "dtype": "float16"}
    drawn = Draw("flashinfer", "mha", random.Random(case), shape)
    made = CASES[case](drawn)
    assert made is not None
    out = attended("flashinfer", made, "flashinfer")
    assert max_error(out, float64_attention(made.batch, made.sinks, made.parents)) <= limit_of(made)


@on_gpu("flashinfer")
@pytest.mark.parametrize("make", [decode_batch, extend_batch])
def test_mla(make: Any) -> None:
    given = ([4097, 1, 300],) if make is decode_batch else ([700, 513], [512, 0])
    batch = make(*given, dtype="bfloat16", device="cuda", layout="fragmented", **MLA)
    out = sglab.attend(batch, "flashinfer", implementation="flashinfer")
    assert max_error(out, reference(batch).o) <= TOLERANCE["bfloat16"]


@on_gpu("flashinfer")
def test_one_plan_serves_all_layers_of_a_pass_and_no_other() -> None:
    batch = decode_batch([300, 20], num_kv_heads=4, device="cuda", **MHA)
    made = create_attention_backend("flashinfer", replace(batch.runner, kernel_implementation="flashinfer"))
    library._plans.clear()
    for passes in (1, 2):
        made.prepare(batch.forward_batch)
        for _ in range(3):
            out = made.forward(batch.q, batch.k, batch.v, batch.layer, batch.forward_batch)
            shaped = out.view(-1, batch.num_heads, batch.layer.v_head_dim)
            assert max_error(shaped, reference(batch).o) <= TOLERANCE["float16"]
        assert len(library._plans) == passes
        batch.extend_by_token(0)


def dense(
    place: torch.device, lens: list[int], heads: int, tokens: int, causal: bool, implementation: str
) -> tuple[torch.Tensor, torch.Tensor]:
    drawn = torch.Generator().manual_seed(sum(lens) + heads)
    width = -(-max(lens) // 64)
    q = torch.randn(len(lens), tokens, heads, 576, generator=drawn).to(place, torch.bfloat16)
    cache = torch.randn(len(lens) * width, 64, 1, 576, generator=drawn).to(place, torch.bfloat16)
    table = torch.randperm(len(cache), generator=drawn).int().view(len(lens), width).to(place)
    lengths = torch.tensor(lens, dtype=torch.int32, device=place)
    plan = get_mla_metadata(lengths, tokens * heads, 1)
    return flash_mla_with_kvcache(
        *(q, cache, table, lengths, 512, *plan, 192**-0.5, causal), implementation=implementation, check_values=True
    )


@on_gpu("flash_mla")
@pytest.mark.parametrize(("heads", "tokens", "causal"), [(16, 1, False), (128, 1, False), (64, 2, True)])
@pytest.mark.parametrize("lens", [[4097, 64, 300], [129, 0, 70]])
def test_flash_mla(lens: list[int], heads: int, tokens: int, causal: bool) -> None:
    asked = (torch.device("cuda"), lens, heads, tokens, causal)
    (out, lse), (truth, truth_lse) = dense(*asked, "flash_mla"), dense(*asked, "reference")
    assert max_error(out.flatten(0, 1), truth.flatten(0, 1)) <= TOLERANCE["bfloat16"]
    torch.testing.assert_close(lse, truth_lse, atol=2e-2, rtol=0)
