"""attend: one line to run a batch through a backend."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from sglab.attention.base import AttentionBackend
from sglab.attention.capabilities import Demand, unserved
from sglab.attention.create import create_attention_backend
from sglab.attention.info import AttendInfo, recording
from sglab.attention.registry import ATTENTION_BACKENDS, capabilities_by_name
from sglab.attention.selection import Model, select_attention_backend, this_machine
from sglab.engine import BadArgumentError
from sglab.workbench.batch import Batch

FALLBACK = {"cuda": "triton", "cpu": "torch_native"}
"""Device type -> what runs where SGLang would choose a backend that is not here."""


def attend(
    batch: Batch,
    backend: str | AttentionBackend | None = None,
    *,
    implementation: str = "auto",
    check: bool = True,
    save_kv_cache: bool = True,
) -> torch.Tensor:
    """Run one attention layer over a batch.

    Args:
        backend: a registered name, a backend made before, or None for what SGLang would choose on this machine.
        implementation: of the backend's operators: "triton", "reference", …; "auto" leaves it to the backend.
        check: refuse what no kernel could serve (`Batch.check`) before anything runs. A backend made before checks
            the metadata itself, as its `ModelRunner.check_metadata` says.
        save_kv_cache: write the new tokens' rows to the pool again, as a model's layer would.

    Returns:
        [tokens, num_heads, v_head_dim] in the batch's dtype. Its attribute `info`, an AttendInfo, says which backend
        and implementation ran on which device, and why; `print(out.info)`.

    Raises:
        UnknownBackendError: no such backend. UnsupportedError: the backend does not serve this batch; the message says
            which one does. BadArgumentError, PageTableError, NonFiniteKVError, ContractError: the batch or its use is
            wrong. Nothing ran.
    """
    if not isinstance(batch, Batch):
        remedy = "Make one with sglab.decode_batch or sglab.extend_batch."
        raise BadArgumentError("batch", "a Batch", type(batch).__name__, remedy)
    name, reason = _named(batch, backend)
    if check and batch.batch_size:
        batch.check()
    with recording(batch.device) as log:
        if isinstance(backend, AttentionBackend):
            made = backend
        else:
            runner = replace(batch.runner, kernel_implementation=implementation, check_metadata=False)
            made = create_attention_backend(name, runner)
        made.prepare(batch.forward_batch)
        q, k, v, parts = _inputs(batch, made.capabilities.rope_apart)
        out = made.forward(q, k, v, batch.layer, batch.forward_batch, save_kv_cache=save_kv_cache, **parts)
    shaped = out.view(-1, batch.num_heads, batch.layer.v_head_dim)
    mode = batch.forward_batch.forward_mode.name.lower()
    shaped.info = AttendInfo(name, reason, mode, tuple(log.runs), tuple(log.notes))  # type: ignore[attr-defined]
    return shaped


def _named(batch: Batch, backend: str | AttentionBackend | None) -> tuple[str, str]:
    if isinstance(backend, AttentionBackend):
        return backend.name, "this backend object was passed"
    if backend is not None:
        return backend, "requested by name"
    machine = this_machine(batch.device)
    model = Model(use_mla=batch.kind == "mla", num_kv_heads=batch.num_kv_heads)
    selection = select_attention_backend(machine, model)
    name, instead = selection.decode, FALLBACK[batch.device.type]
    chosen = f"SGLang would choose {name} on {machine.name} ({selection.reason})"
    if name not in ATTENTION_BACKENDS:
        return instead, f"{chosen}, which is not here: {instead} instead"
    refused = unserved(capabilities_by_name(batch.kind)[name], _demand(batch))
    if refused is not None:
        return instead, f"{chosen}, which does not serve this batch ({refused.argument}): {instead} instead"
    return name, f"SGLang's choice on {machine.name}: {'; '.join([selection.reason, *selection.notes])}"


def _demand(batch: Batch) -> Demand:
    runner, asked = batch.runner, batch.forward_batch
    records = runner.token_to_kv_pool.records
    made_for = Demand(kind=batch.kind, page_size=runner.page_size, kv_dtype=runner.stored_apart, kv_records=records)
    made_for = replace(made_for, deterministic=runner.enable_deterministic_inference)
    return replace(made_for, mode=asked.forward_mode, dtype=batch.dtype, layer=batch.layer, sinks=batch.sinks)


def _inputs(batch: Batch, rope_apart: bool) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, dict[str, Any]]:
    """q, k, v as SGLang's model passes them: for some MLA backends the rotary parts are separate."""
    own = {} if batch.sinks is None else {"sinks": batch.sinks}
    if batch.kind == "mha" or not rope_apart:
        return batch.q, batch.k, batch.v, own
    rank, k = batch.runner.model_config.kv_lora_rank, batch.k
    latent = k[..., :rank]
    parts = {**own, "q_rope": batch.q[..., rank:], "k_rope": k[..., rank:]}
    return batch.q[..., :rank], latent, latent, parts
