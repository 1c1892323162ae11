"""cutlass_mla: MLA decode through the SM100 kernel's operator; every other mode through a fallback backend.

After SGLang 0.5.9 `cutlass_mla_backend.py`, whose fallback (and base class) is FlashInfer's MLA backend, as here. The
operator decides what runs: our own kernel on a Blackwell or Hopper GPU and, for CPU tensors, on the emulator; other
GPUs have Triton's.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from sglab.attention.capabilities import Capabilities
from sglab.attention.info import note
from sglab.attention.inputs import AttentionInputs
from sglab.attention.paged_mla import PagedMLABackend
from sglab.engine import ForwardMode, ModelRunner
from sglab.kernels import cutlass_mla_decode, cutlass_mla_get_workspace_size
from sglab.planning.mla_dims import HEAD_DIM, LATENT_DIM

TILE = 128
"""Tokens of one K tile: the kernel reads the page table tile by tile, so a row holds whole tiles."""


@dataclass
class CutlassMLADecodeMetadata:
    """`workspace`: uint8, for partial outputs. `block_kv_indices`: int32 [B, pages], the page table."""

    workspace: torch.Tensor
    block_kv_indices: torch.Tensor


class CutlassMLABackend(PagedMLABackend[CutlassMLADecodeMetadata]):
    """SGLang runs this backend with page size 128 only (the kernel's TMA path) and always with one KV split."""

    name = "cutlass_mla"
    capabilities = Capabilities(
        kinds=("mla",),
        modes=(ForwardMode.DECODE, ForwardMode.IDLE),
        fallback="flashinfer",
        graph_modes=(ForwardMode.DECODE, ForwardMode.IDLE),
        page_sizes=(1, 2, 4, 8, 16, 32, 64, TILE),
        dtypes=("float16", "bfloat16"),
        head_dims=((HEAD_DIM, LATENT_DIM),),
        rope_apart=True,
    )
    tile = TILE

    def __init__(self, model_runner: ModelRunner) -> None:
        super().__init__(model_runner)
        if self.page_size != TILE:
            note(
                f"page size {self.page_size}: SGLang runs this backend with 128 only, where CUTLASS's kernel loads by "
                "TMA; smaller pages take its cp.async path"
            )

    def padding_page(self) -> int:
        """−1 as in SGLang with page 128, where only real tiles are read. Smaller pages share a tile with entries after
        the last page, which CUTLASS's kernel reads: the dummy page is a valid one."""
        return -1 if self.page_size == TILE else 0

    def new_metadata(
        self, table: torch.Tensor, seq_lens: torch.Tensor, query_tokens: int = 1
    ) -> CutlassMLADecodeMetadata:
        rows, width = table.shape
        size = cutlass_mla_get_workspace_size(width * self.page_size, rows, num_kv_splits=1)
        return CutlassMLADecodeMetadata(torch.empty(size, dtype=torch.uint8, device=self.device), table)

    def graph_metadata(
        self, graph: CutlassMLADecodeMetadata, bs: int, seq_lens: torch.Tensor, query_tokens: int
    ) -> CutlassMLADecodeMetadata:
        return CutlassMLADecodeMetadata(graph.workspace, graph.block_kv_indices[:bs])

    def table_of(self, metadata: CutlassMLADecodeMetadata) -> torch.Tensor:
        return metadata.block_kv_indices

    def run(
        self, inputs: AttentionInputs, metadata: CutlassMLADecodeMetadata, cache: torch.Tensor
    ) -> tuple[torch.Tensor, None]:
        assert inputs.q_rope is not None
        o = cutlass_mla_decode(
            inputs.q.to(self.q_data_type),
            inputs.q_rope.to(self.q_data_type),
            cache,
            inputs.forward_batch.seq_lens.to(torch.int32),
            metadata.block_kv_indices,
            metadata.workspace,
            inputs.layer.scaling,
            num_kv_splits=1,
            seq_lens_cpu=inputs.forward_batch.seq_lens_cpu,
            implementation=self.implementation,
        )
        return o, None
