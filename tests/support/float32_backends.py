"""fa3 and dsa in float32, where two ways of adding choose the same tokens: for engines whose ranks share prompts."""

from __future__ import annotations

from dataclasses import replace
from multiprocessing.connection import Connection

from sglab.attention.capabilities import Capabilities
from sglab.attention.page_table.flash_attention import FlashAttention3Backend
from sglab.attention.registry import ATTENTION_BACKENDS
from sglab.attention.sparse.dsa import DeepseekSparseAttnBackend
from sglab.serving.ranks import Ranks
from tests.support import ranks as forked
from tests.support.forked import FORK, Fork


def exact(capabilities: Capabilities) -> Capabilities:
    assert capabilities.cp is not None
    return replace(capabilities, dtypes=("float32",), cp=replace(capabilities.cp, dtypes=("float32",)))


class ExactFlashAttention(FlashAttention3Backend):
    name = "exact_fa3"
    capabilities = exact(FlashAttention3Backend.capabilities)


class ExactSparse(DeepseekSparseAttnBackend):
    name = "exact_dsa"
    capabilities = exact(DeepseekSparseAttnBackend.capabilities)


BACKENDS = {each.name: each for each in (ExactFlashAttention, ExactSparse)}


def fork_follower(ranks: Ranks) -> None:
    """Instead of Ranks._start; the follower knows them, too."""
    ours, theirs = FORK.Pipe()
    ranks.processes.append(Fork(_follow, theirs))  # type: ignore[arg-type]
    theirs.close()
    ranks._pipes.append(ours)


def _follow(pipe: Connection) -> None:
    ATTENTION_BACKENDS.update(BACKENDS)
    forked._follow(pipe)
