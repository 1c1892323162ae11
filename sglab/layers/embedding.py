"""Vocab-parallel embedding and LM head: each rank holds a range of token ids, padded to a common size."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from sglab.layers.loading import Shard, WeightError, copy_into
from sglab.layers.parallel import SINGLE, TensorParallel

VOCAB_PADDING = 64
"""A rank's rows are a multiple of this, so that the LM head's GEMM has even tiles."""


class VocabParallelEmbedding(nn.Module):
    """Rows of this rank's token ids; another rank's token gives zeros here, and the sum over ranks the row.

    Attributes:
        weight: [rows of this rank, hidden]; rows beyond the vocabulary are zero.
    """

    def __init__(self, num_embeddings: int, embedding_dim: int, tp: TensorParallel = SINGLE) -> None:
        super().__init__()
        self.num_embeddings, self.embedding_dim, self.tp = num_embeddings, embedding_dim, tp
        multiple = VOCAB_PADDING * tp.size
        self.rows = -(-num_embeddings // multiple) * multiple // tp.size
        self.first = tp.rank * self.rows
        self.weight = nn.Parameter(torch.zeros(self.rows, embedding_dim), requires_grad=False)

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        """int64 [tokens] -> [tokens, hidden]."""
        if self.tp.size == 1:
            return functional.embedding(input_ids, self.weight)
        mine = (input_ids >= self.first) & (input_ids < self.first + self.rows)
        rows = functional.embedding(torch.where(mine, input_ids - self.first, 0), self.weight)
        return self.tp.all_reduce(rows.masked_fill(~mine[:, None], 0))

    def weight_keys(self) -> list[str]:
        return ["weight"]

    def load_weight(self, path: str, tensor: torch.Tensor, shard: Shard) -> list[str]:
        expected = (self.num_embeddings, self.embedding_dim)
        if path != "weight" or tuple(tensor.shape) != expected:
            remedy = "The checkpoint does not belong to this config.json."
            raise WeightError(f"embedding.{path}", f"a weight of shape {expected}", tuple(tensor.shape), remedy)
        mine = tensor[self.first : self.first + self.rows]
        copy_into(self.weight[: len(mine)], mine, path)
        return [path]


class ParallelLMHead(VocabParallelEmbedding):
    """The output embedding: hidden rows -> logits of this rank's token ids. `tie` makes it the input embedding."""

    tied = False

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        return functional.linear(hidden, self.weight)

    def tie(self, embedding: VocabParallelEmbedding) -> None:
        self.weight, self.tied = embedding.weight, True

    def weight_keys(self) -> list[str]:
        return [] if self.tied else super().weight_keys()

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """[rows, hidden] -> float32 [rows, num_embeddings], gathered from all ranks."""
        return self.tp.all_gather(self(hidden).float())[:, : self.num_embeddings]
