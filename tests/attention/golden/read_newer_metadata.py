"""Runs backends of SGLang 0.5.23 on a CPU where they build what those of 0.5.9 do not.

pip download --no-deps sglang==0.5.23 && unzip -d sglang-0.5.23 sglang-0.5.23-*.whl
TRITON_INTERPRET=1 python tests/attention/golden/read_newer_metadata.py sglang-0.5.23

As `read_backend_metadata.py`, whose stand-ins it uses.
"""

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parent))

import read_backend_metadata as stand_ins
from read_backend_metadata import Finder, backend, batch_of, fields, on_the_cpu, pages

OUT = Path(__file__).with_name("newer_metadata.json")
REAL = (
    "sglang.srt.layers.attention.aiter_backend",
    "sglang.srt.layers.attention.base_attn_backend",
    "sglang.kernels.ops.attention.kv_indices",
    "sglang.srt.models.gemma3_mm",
    "sglang.srt.models.gemma4_mm",
)
IMAGES = [[(5, 7)], [(3, 40), (102, 110), (115, 129)], []]
"""Of `batch_of("extend")`'s three requests, whose prefixes are 4, 100 and 63: first and last position."""


def aiter_trees(load: Any) -> dict[str, Any]:
    """MHA with drafts of n-grams: SGLang's own extend kernel, under their mask."""
    made = backend(
        load("srt.layers.attention.aiter_backend").AiterAttnBackend,
        1,
        use_mla=False,
        topk=2,
        dcp_size=1,
        _use_unified_verify=False,
        kv_indptr=torch.zeros(7, dtype=torch.int32),
        qo_indptr=torch.zeros(7, dtype=torch.int32),
        mask_indptr=torch.zeros(7, dtype=torch.int64),
    )
    batch = batch_of("tree", pages(1), None)
    batch.input_ids = torch.zeros(batch.batch_size * batch.spec_info.draft_token_num)
    made.init_forward_metadata(batch)
    names = ("kv_indptr", "kv_indices", "qo_indptr", "max_q_len", "custom_mask", "mask_indptr", "max_extend_len")
    return {"tree, page 1": fields(made.forward_metadata, names)}


def images_of(load: Any) -> dict[str, dict[str, Any]]:
    """What Gemma's models hand to their backends for images that no chunk cuts: fa4's ranges, triton's mask and
    intel_xpu's spans, whose array the kernels' package makes."""
    gemma3, gemma4 = (load(f"srt.models.gemma{version}_mm") for version in (3, 4))
    batch = batch_of("extend", pages(1), None)
    item = lambda spans: SimpleNamespace(is_image=lambda: True, offsets=spans)  # noqa: E731
    batch.mm_inputs = [SimpleNamespace(mm_items=[item([span]) for span in spans]) for spans in IMAGES]
    ids = torch.zeros(1)
    fa4 = SimpleNamespace(fa_impl_ver=4, forward_metadata=SimpleNamespace())
    gemma4.get_attn_backend = lambda: fa4
    gemma4.Gemma4ForConditionalGeneration.prepare_attn_masks(None, batch, ids, torch.bool)
    triton = gemma4.TritonAttnBackend()
    triton.forward_metadata = SimpleNamespace()
    gemma4.get_attn_backend = lambda: triton
    gemma4.Gemma4ForConditionalGeneration.prepare_attn_masks(None, batch, ids, torch.bool)
    told: dict[str, Any] = {}
    sys.modules["sgl_kernel.flash_attn"] = SimpleNamespace(build_bidirectional_block_ids=told.update)  # type: ignore[assignment]
    gemma3.Gemma3ForConditionalGeneration._build_xpu_image_block_ids(batch, "cpu")
    return {
        "fa4": {"images, page 1": fields(fa4.forward_metadata)},
        "triton": {"images, page 1": fields(triton.forward_metadata, ("custom_mask", "mask_indptr"))},
        "intel_xpu": {"images, page 1": {name: told[name] for name in ("seq_lens", "block_spans")}},
    }


def main(wheel: str) -> None:
    stand_ins.REAL = REAL
    sys.meta_path.insert(0, Finder(Path(wheel)))
    on_the_cpu()
    load = lambda name: __import__(f"sglang.{name}", fromlist=["x"])  # noqa: E731
    golden = {"aiter": aiter_trees(load), **images_of(load)}
    made = {"source": "sglang 0.5.23", "images": IMAGES, "backends": golden}
    OUT.write_text(json.dumps(made) + "\n", "utf-8")
    print({name: list(cases) for name, cases in golden.items()})


if __name__ == "__main__":
    main(sys.argv[1])
