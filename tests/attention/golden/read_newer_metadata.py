"""Runs backends of SGLang 0.5.23 on a CPU where they build what those of 0.5.9 do not.

pip download --no-deps sglang==0.5.23 && unzip -d sglang-0.5.23 sglang-0.5.23-*.whl
TRITON_INTERPRET=1 python tests/attention/golden/read_newer_metadata.py sglang-0.5.23

As `read_backend_metadata.py`, whose stand-ins it uses.
"""

import json
import sys
from pathlib import Path
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
)


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


def main(wheel: str) -> None:
    stand_ins.REAL = REAL
    sys.meta_path.insert(0, Finder(Path(wheel)))
    on_the_cpu()
    load = lambda name: __import__(f"sglang.{name}", fromlist=["x"])  # noqa: E731
    golden = {"aiter": aiter_trees(load)}
    OUT.write_text(json.dumps({"source": "sglang 0.5.23", "backends": golden}) + "\n", "utf-8")
    print({name: list(cases) for name, cases in golden.items()})


if __name__ == "__main__":
    main(sys.argv[1])
