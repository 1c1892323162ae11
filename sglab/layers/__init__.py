"""A model's layers: linears that hold a rank's shard, norms, activations, rotary embeddings, attention over the paged
KV pool, embeddings and logits. A model of `sglab.models` is these, named as its checkpoint names them."""

from sglab.layers.activation import GeluAndMul, SiluAndMul
from sglab.layers.embedding import ParallelLMHead, VocabParallelEmbedding
from sglab.layers.layernorm import GemmaRMSNorm, RMSNorm, RMSNormGated
from sglab.layers.linear import (
    ColumnParallelLinear,
    MergedColumnParallelLinear,
    QKVParallelLinear,
    ReplicatedLinear,
    RowParallelLinear,
)
from sglab.layers.loading import WeightError, load_weights
from sglab.layers.logits import LogitsProcessor
from sglab.layers.parallel import SINGLE, TensorParallel
from sglab.layers.radix_attention import RadixAttention
from sglab.layers.rotary import RopeConfig, RotaryEmbedding

__all__ = [
    "SINGLE",
    "ColumnParallelLinear",
    "GeluAndMul",
    "GemmaRMSNorm",
    "LogitsProcessor",
    "MergedColumnParallelLinear",
    "ParallelLMHead",
    "QKVParallelLinear",
    "RMSNorm",
    "RMSNormGated",
    "RadixAttention",
    "ReplicatedLinear",
    "RopeConfig",
    "RotaryEmbedding",
    "RowParallelLinear",
    "SiluAndMul",
    "TensorParallel",
    "VocabParallelEmbedding",
    "WeightError",
    "load_weights",
]
