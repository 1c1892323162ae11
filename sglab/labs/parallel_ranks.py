"""Questions of notebook 20: shards, collectives and their bytes, layouts of groups, exchanges, halves of a pass."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from sglab.engine.batch.two_batch import cut_of
from sglab.layers.dp_attention import DpPaddingMode

from .code_question import CodeQuestion
from .question import Question

if TYPE_CHECKING:
    from sglab.workbench.recorders.ranks import RanksRun


def collectives_of(run: RanksRun, step: int) -> str:
    """The collectives of a pass: how many of each kind and meaning, the bytes that leave a rank, the longest wait."""
    groups: dict[tuple[str, str], list[Any]] = {}
    for joint in run.of_pass(step):
        one = joint.any
        groups.setdefault((one.kind, one.what or f"of {one.module_class}"), []).append(joint)
    lines = []
    for (kind, what), joints in groups.items():
        moved = max(sum(joint.left(rank) for joint in joints) for rank in range(run.size))
        wait = max(joint.met - joint.start for joint in joints) / 1e3
        lines.append(
            f"{len(joints):3} × {kind:11} {what:26} {moved:8,} bytes leave a rank, longest wait {wait:,.0f} µs"
        )
    return "\n".join(lines)


def kinds_of(run: RanksRun, step: int) -> dict[str, int]:
    """How many collectives of each kind a pass had."""
    return dict(Counter(joint.any.kind for joint in run.of_pass(step)))


def holders_of_kv_head(heads: int, ranks: int) -> Question:
    """How many ranks keep the same KV head."""
    return Question(
        truth=lambda: max(ranks // heads, 1),
        because="{truth}: a head cannot be cut, so ranks beyond the heads hold copies, and the cache holds it twice.",
        hint="Every rank needs the KV head of its query heads. There are more ranks than KV heads.",
        ideas=(
            (1, "Then half of the ranks would have no keys to attend to."),
            (ranks, "Each rank holds one head, not all."),
        ),
    )


def bytes_of_all_reduce(tokens: int, hidden: int, ranks: int, size: int = 2) -> Question:
    """What leaves a rank in a ring's all-reduce."""
    whole = tokens * hidden * size
    return Question(
        truth=lambda: 2 * (ranks - 1) * whole // ranks,
        because="{truth}: pieces of the sum go round once to be added up, and once more to be handed out.",
        hint=f"The tensor has {tokens} · {hidden} · {size} bytes. A ring cuts it into {ranks} pieces.",
        ideas=(
            (whole, "Not the whole tensor at once: it is cut into a piece per rank, which go round twice."),
            ((ranks - 1) * whole // ranks, "That adds the pieces up. Now every rank needs all sums: once more round."),
            ((ranks - 1) * whole, "So much would leave a rank that sends everything to everybody."),
        ),
    )


def padding_mode(num_tokens: Sequence[int]) -> Question:
    """The layout in which a decode's groups gather their tokens."""
    mode = DpPaddingMode.get_dp_padding_mode(False, num_tokens)
    other = next(each for each in DpPaddingMode if each is not mode)
    most, total, groups = max(num_tokens), sum(num_tokens), len(num_tokens)
    return Question(
        truth=lambda: mode.name,
        because=f"{{truth}}: {most} · {groups} = {most * groups} rows padded, against twice {total} rows for a sum.",
        hint="MAX_LEN moves the longest times the groups; SUM_LEN all tokens, but an all-reduce moves them twice.",
        ideas=(
            (other.name, f"Count rows: padded {most * groups}; summed {total}, and an all-reduce moves each twice."),
        ),
    )


def travels(experts: Sequence[int], experts_per_rank: int, rank: int) -> Question:
    """How often a token is sent to other ranks in DeepEP's normal way."""
    homes = [expert // experts_per_rank for expert in experts]
    return Question(
        truth=lambda: len(set(homes) - {rank}),
        because="{truth}: once to each other rank that has one of its experts.",
        hint=f"Experts {experts_per_rank} r to {experts_per_rank} r + {experts_per_rank - 1} lie on rank r.",
        ideas=(
            (sum(home != rank for home in homes), "Experts on the same rank share one copy of the token."),
            (len(set(homes)), "What stays on its own rank does not travel."),
        ),
    )


def first_half(extend_lens: Sequence[int]) -> Question:
    """How many tokens the first micro-batch of an extend has."""
    cut = cut_of(extend_lens, len(extend_lens))
    assert cut is not None
    total = sum(extend_lens)
    lefts = [sum(extend_lens[:i]) for i in range(1, len(extend_lens))]
    between = min(lefts, key=lambda left: abs(2 * left - total))
    return Question(
        truth=lambda: cut.tokens,
        because="{truth}: no cut between requests is even enough, so one request is cut.",
        hint="Try the cuts between requests first. Does either half have less than 48 % of the tokens then?",
        ideas=(
            (between, "That is the best cut between requests, but one half has less than 48 % then: cut through one."),
        ),
    )


def _matrices(random: torch.Generator) -> list[list[Any]]:
    def draw(rows: int, columns: int, ranks: int) -> list[Any]:
        w = torch.randn(2 * rows, columns, generator=random)
        return [w, int(torch.randint(ranks, (1,), generator=random)), ranks]

    first = torch.arange(8.0)[:, None].expand(8, 2).clone()
    return [[first, 0, 2], [first, 1, 2], draw(6, 4, 3), draw(8, 5, 4), draw(4, 3, 1)]


def _shard(w: torch.Tensor, rank: int, ranks: int) -> torch.Tensor:
    return torch.cat([part.chunk(ranks)[rank] for part in w.chunk(2)])


def gate_up_shard() -> CodeQuestion:
    """A rank's rows of a gate and an up projection that lie in one matrix."""
    return CodeQuestion(
        function="gate_up_shard",
        cases=_matrices,
        truth=_shard,
        because="Each part is cut by itself, so a rank's first half gates its own second half.",
        ideas=(
            (
                lambda w, rank, ranks: w.chunk(ranks)[rank],
                "A slice of the whole: rank 0 then has gates without their values.",
            ),
            (
                lambda w, rank, ranks: w[rank::ranks],
                "Every so-many-th row: the down projection's columns are contiguous.",
            ),
            (
                lambda w, rank, ranks: w.chunk(2)[0].chunk(ranks)[rank],
                "The gate's rows are right. The up part's are missing.",
            ),
            (
                lambda w, rank, ranks: torch.cat([part.chunk(ranks)[rank] for part in w.chunk(2)[::-1]]),
                "The right rows, in the other order: the gate's come first.",
            ),
            (
                lambda w, rank, ranks: w.chunk(ranks, 1)[rank],
                "Those are columns. The first matrix is cut by its outputs: rows.",
            ),
            (
                lambda w, rank, ranks: w,
                "That is the whole matrix: nothing is shared out, and the sum counts it twice.",
            ),
        ),
    )


def mlp_on_ranks(
    x: torch.Tensor, gate_up: torch.Tensor, down: torch.Tensor, shards: list[torch.Tensor]
) -> torch.Tensor:
    """What ranks with these shards of gate_up make together: each its part, and the sum over all.

    Args:
        x: [tokens, hidden]. gate_up: [2 n, hidden], whole. down: [hidden, n], whole, cut by columns here.
    """
    total = torch.zeros(len(x), down.shape[0])
    for shard, columns in zip(shards, down.chunk(len(shards), 1), strict=True):
        gate, up = (x @ shard.T).chunk(2, -1)
        total += torch.nn.functional.silu(gate) * up @ columns.T
    return total
