"""implementation="cpu": backends on the host's vector units, against float64."""

from typing import Any

import pytest
import torch

import sglab
from sglab.attention import create_attention_backend
from sglab.attention.arithmetic import PagedRows, attend_rows
from sglab.engine import BadArgumentError
from sglab.kernels.scoring import Scoring
from sglab.workbench import Batch, decode_batch, extend_batch, max_error, reference
from tests.support.attention_matrix import TOLERANCE

MHA = {"kind": "mha", "num_heads": 8, "num_kv_heads": 2, "head_dim": 64, "page_size": 16}
MLA = {"kind": "mla", "num_heads": 16, "kv_lora_rank": 512, "qk_rope_head_dim": 64, "page_size": 16}


def batches(shape: dict[str, Any]) -> list[Batch]:
    """A decode with a request of several splits, and prompts with and without a prefix."""
    common = {**shape, "dtype": "bfloat16", "layout": "fragmented"}
    return [decode_batch([600, 1, 33], **common), extend_batch([50, 9], [30, 0], **common)]


@pytest.mark.parametrize("backend", ["triton", "fa3", "flashinfer", "intel_amx", "aiter", "ascend"])
@pytest.mark.parametrize("shape", [MHA, MLA], ids=["GQA", "MLA"])
@pytest.mark.parametrize("kind", [0, 1], ids=["decode", "extend"])
def test_backends_on_the_vector_units(backend: str, shape: dict[str, Any], kind: int) -> None:
    batch = batches(shape)[kind]
    out = sglab.attend(batch, backend, implementation="cpu")
    assert max_error(out, reference(batch).o) <= TOLERANCE["bfloat16"]
    merges = [run for run in out.info.runs if run.operator.startswith("merge")]
    assert "cpu" in {run.implementation for run in out.info.runs if run not in merges}


def test_intel_amx_leaves_every_split_in_its_metadata() -> None:
    batch = decode_batch([20, 3], kind="mha", num_heads=4, num_kv_heads=2, head_dim=32, dtype="bfloat16")
    made = create_attention_backend("intel_amx", batch.runner)
    made.prepare(batch.forward_batch)
    out = made.forward(batch.q, batch.k, batch.v, batch.layer, batch.forward_batch).view(2, 4, 32)
    logits = made.forward_metadata.attn_logits
    assert logits.shape == (2, 4, 8, 33)
    filled = (logits[..., -1] > -torch.inf)[:, 0].sum(-1)
    assert filled.tolist() == [7, 3]  # ceil(20 / 8) = 3 keys a split; 1 of 3
    weights = logits[..., -1].softmax(-1)
    merged = (logits[..., :-1] * weights[..., None]).sum(2)
    assert max_error(out, merged) <= TOLERANCE["bfloat16"]


def test_what_the_vector_units_do_not_read_is_refused() -> None:
    q, k = torch.zeros(1, 2, 8, dtype=torch.float64), torch.zeros(4, 2, 8, dtype=torch.float64)
    rows = PagedRows(torch.tensor([0, 1]).int(), torch.tensor([0, 3]).int(), torch.arange(3), 1)
    with pytest.raises(BadArgumentError, match="another than 'cpu' for these tensors"):
        attend_rows(q, k, k, rows, Scoring(1.0), implementation="cpu")
    assert attend_rows(q, k, k, rows, Scoring(1.0))[1][0, 1].item() == pytest.approx(1.0986123)
