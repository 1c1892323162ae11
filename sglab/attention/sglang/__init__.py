"""Our backends under SGLang's interface: its method names and signatures, one adapter per version.

| here | SGLang 0.5.9 | SGLang 0.5.23 |
|---|---|---|
| `prepare` | `init_forward_metadata` | `init_forward_metadata` |
| `init_graph` | `init_cuda_graph_state` | `init_cuda_graph_state` |
| `prepare_capture` | `init_forward_metadata_capture_cuda_graph` | `init_forward_metadata_out_graph(in_capture=True)` |
| `prepare_replay` | `init_forward_metadata_replay_cuda_graph` | `init_forward_metadata_out_graph` |
| nothing | nothing | `init_forward_metadata_in_graph`, which is recorded into the graph |
| `forward`, which takes every mode | `forward`, `forward_decode`, `forward_extend`, `forward_mixed` | the same |
| `graph_seq_len_fill_value` | `get_cuda_graph_seq_len_fill_value` | the same |
| `verify_mask` | `get_verify_buffers_to_fill_after_draft` | `verify_mask` |
| `redo_verify_metadata` | `update_verify_buffers_to_fill_after_draft` | the same |
| `capabilities.triton_helpers` | `support_triton` | `support_triton` |

Source: `layers/attention/base_attn_backend.py` of both.
"""

from __future__ import annotations

from sglab.attention.base import AttentionBackend
from sglab.attention.sglang.v0_5_9 import SGLang059
from sglab.attention.sglang.v0_5_23 import SGLang0523
from sglab.engine import BadArgumentError

ADAPTERS: dict[str, type[SGLang059] | type[SGLang0523]] = {"0.5.9": SGLang059, "0.5.23": SGLang0523}
"""SGLang version -> the adapter with its interface."""


def adapt(backend: AttentionBackend, version: str) -> SGLang059 | SGLang0523:
    """A backend under the interface of an SGLang version.

    Raises:
        BadArgumentError: there is no adapter for this version.
    """
    if version not in ADAPTERS:
        raise BadArgumentError("version", " or ".join(ADAPTERS), repr(version), "Take the nearest of them.")
    return ADAPTERS[version](backend)


__all__ = ["ADAPTERS", "SGLang0523", "SGLang059", "adapt"]
