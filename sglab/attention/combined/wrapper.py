"""attn_backend_wrapper: what a model needs around its backend, decided from the runner.

Source: SGLang 0.5.9 and 0.5.23 `attention_registry.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

from sglab.attention.base import AttentionBackend
from sglab.attention.capabilities import UnsupportedError
from sglab.attention.combined.hybrid_linear import HybridLinearAttnBackend, LinearAttnBackend
from sglab.attention.selection.hardware import Hardware
from sglab.engine import ModelRunner

HYBRID_GDN_SM100_BACKENDS = {
    "0.5.9": ("triton", "trtllm_mha"),
    "0.5.23": ("triton", "trtllm_mha", "fa4", "flashinfer"),
}
"""SGLang version -> what may serve the softmax layers of Gated DeltaNet models on Blackwell."""


def attn_backend_wrapper(
    runner: ModelRunner,
    backend: AttentionBackend,
    full_attn_layers: Sequence[int] = (),
    *,
    gated_delta_net: bool = False,
    hardware: Hardware | None = None,
    version: str = "0.5.9",
) -> AttentionBackend:
    """The backend itself, or, for a model with linear attention, a HybridLinearAttnBackend around it.

    Args:
        full_attn_layers: ids of the layers with softmax attention; read where the runner has a state pool.
        gated_delta_net: the linear layers are Gated DeltaNet's, for which SGLang checks the backend.
        hardware: the machine to check for; None: nothing is checked.

    Raises:
        UnsupportedError: Gated DeltaNet beside MLA, or a backend that SGLang refuses on this machine.
    """
    if gated_delta_net and runner.use_mla_backend:
        raise UnsupportedError("model", "MHA beside Gated DeltaNet", "MLA", "No such model is known to SGLang.")
    if runner.state_pool is None:
        return backend
    if gated_delta_net and hardware is not None:
        _check_hardware(backend.name, hardware, version)
    return HybridLinearAttnBackend(backend, LinearAttnBackend(runner), full_attn_layers)


def _check_hardware(name: str, hardware: Hardware, version: str) -> None:
    allowed: tuple[str, ...] = ()
    if hardware.is_blackwell_supported():
        allowed = HYBRID_GDN_SM100_BACKENDS[version]
        if version == "0.5.23" and hardware.capability[0] == 12:
            allowed = ("triton", "trtllm_mha", "flashinfer")
    elif hardware.device == "npu":
        allowed = ("ascend",)
    if allowed and name not in allowed:
        expected = f"{' or '.join(allowed)} for a Gated DeltaNet model on {hardware.name}"
        raise UnsupportedError("backend", expected, name, f"Use {allowed[0]}.")
