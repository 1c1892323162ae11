"""Questions of notebook 18: trees, masks, verification, moves, distributions and what speculation gains."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from sglab.engine.speculation import (
    accepted_moves,
    ngram_tree,
    tree_of,
    verify_tree_greedy,
)

from .code_question import CodeQuestion
from .question import Question
from .speculative_sampling import chi_square, residual, sampled, share, share_of_draft

if TYPE_CHECKING:
    from sglab.serving import Engine
    from sglab.workbench.recorders.speculation import VerifiedTree

__all__ = ["chi_square", "residual", "sampled", "share", "share_of_draft"]


def passes(engine: Engine) -> str:
    """How many passes an engine took to decode, and how many drafts were kept, in one line."""
    steps = [step for step in engine.history.steps if step.mode in ("DECODE", "TARGET_VERIFY")]
    tokens = sum(len(said) for step in steps for said in step.tokens.values())
    drafted, accepted = (sum(getattr(step, name) for step in steps) for name in ("drafted", "accepted"))
    drafts = f", {accepted} of {drafted} drafts kept" if drafted else ""
    return f"{len(steps)} passes for {tokens} tokens: {tokens / max(len(steps), 1):.2f} a pass{drafts}"


def fewest_passes(tokens: int, nodes: int) -> Question:
    """Passes that are needed when every draft of a chain is kept."""
    return Question(
        truth=lambda: -(-tokens // nodes),
        because="{truth}: a pass whose drafts are all kept gains them and one token more, the bonus.",
        hint=f"Of {nodes} nodes one is the root, which is known; {nodes - 1} are drafts. What else does a pass give?",
        ideas=((-(-tokens // (nodes - 1)), "The target also says what comes after the last draft: one token more."),),
    )


def first_drafts(text: str, count: int) -> Question:
    """The first letters of an n-gram drafter's first path."""
    ids = list(text.encode())

    def truth() -> str:
        tokens, tree = ngram_tree(ids, count + 1)
        path, node = [], tree.next_token[0]
        while node >= 0:
            path.append(tokens[node])
            node = tree.next_token[node]
        return bytes(path).decode()

    suffix = text[-4:]
    earliest = text[text.index(suffix) + 4 :][:count]
    return Question(
        truth=truth,
        because=f"{{truth!r}}: it followed the latest earlier {suffix!r}.",
        hint=f"The last four letters are {suffix!r}. Where did they stand before, and what came next?",
        ideas=(
            (earliest, f"That followed the first {suffix!r}. The drafter begins with the latest."),
            (truth().strip(), "Nearly: a space is a letter, too, and counts."),
        ),
        exact=True,
    )


def candidates(steps: int, topk: int) -> Question:
    """What a draft model offers in all."""
    return Question(
        truth=lambda: topk + (steps - 1) * topk * topk,
        because=f"{{truth}}: {topk} in the first step; later {topk} nodes go on, each with {topk} candidates.",
        hint="Every step keeps the topk likeliest paths, and only these get children.",
        ideas=(
            (sum(topk**i for i in range(1, steps + 1)), "So many, if every node went on. Only the topk likeliest do."),
            (steps * topk, "That many nodes go on; each of them offers topk candidates for the next step."),
        ),
    )


def keys_seen(tree: VerifiedTree) -> Question:
    """Keys that the deepest node of a recorded tree attends to."""
    deepest = max(tree.tree.depths)
    return Question(
        truth=lambda: tree.prefix + int(tree.mask[tree.tree.depths.index(deepest)].sum()),
        because=f"{{truth}}: {tree.prefix} of the prefix, {deepest} ancestors with the root, and itself.",
        hint="Every node sees the whole prefix, its ancestors (the root is one of them) and itself.",
        ideas=(
            (tree.prefix + len(tree.tokens), "The other branches are in the batch, but the mask hides them."),
            (tree.prefix + deepest, "A token attends to itself, too."),
        ),
    )


PARENTS, CANDIDATES, TARGET = (-1, 0, 0, 1, 2), (50, 11, 12, 13, 14), (12, 0, 14, 0, 99)
"""A tree of five nodes, its tokens, and what a target says after each: the example of the text."""


def gained() -> Question:
    """What a verification of the example gains."""
    kept = verify_tree_greedy(tree_of(PARENTS), CANDIDATES, TARGET)
    return Question(
        truth=lambda: kept.tokens,
        because="{truth}: the path 0, 2, 4, and what the target says after its end.",
        hint="Begin at the root: what does the target say there? Go to the child that has this token, if one has.",
        ideas=(
            (kept.tokens[:-1], "These are the drafts. After the last of them the target has spoken once more."),
            (kept.nodes, "These are the nodes. The question asks for tokens."),
            ([CANDIDATES[0], *kept.tokens], "The root's token was known before the pass."),
        ),
    )


def moved(slots: Sequence[int], nodes: Sequence[int], backwards: bool) -> list[int]:
    """Which node's KV row lies in each slot, after the accepted rows were copied one after another.

    Args:
        slots: of the nodes, in order; nodes: those accepted; backwards: the last one first.
    """
    sources, targets = accepted_moves(torch.tensor([list(slots)]), [list(nodes)])
    rows = {slot: node for node, slot in enumerate(slots)}
    pairs = list(zip(sources.tolist(), targets.tolist(), strict=True))
    for source, target in reversed(pairs) if backwards else pairs:
        rows[target] = rows[source]
    return [rows[slot] for slot in slots[: len(nodes)]]


def moved_backwards(slots: Sequence[int], nodes: Sequence[int]) -> Question:
    """What an order of copies does that overwrites rows before they are read."""
    return Question(
        truth=lambda: moved(slots, nodes, backwards=True),
        because="{truth}: a row was overwritten before it was read, and another is there twice.",
        hint="Write down who lies in each slot, and do the two copies in the order given, one after the other.",
        ideas=((list(nodes), "So it should be. But the second copy reads a slot that the first has written."),),
    )


def speed_up(acceptance: float, drafts: int, cost: float) -> float:
    """How much quicker a chain of `drafts` makes decoding: tokens per pass, over the time of a pass with its drafts.

    Args:
        acceptance: chance that a draft is kept if all before it were; cost: of one draft, in passes of the target.
    """
    tokens = sum(acceptance**i for i in range(drafts + 1))
    return tokens / (1 + drafts * cost)


def gain(acceptance: float, drafts: int, cost: float) -> Question:
    """The speed-up of a chain."""
    tokens, each = speed_up(acceptance, drafts, 0), (1 + acceptance * drafts) / (1 + drafts * cost)
    return Question(
        truth=lambda: speed_up(acceptance, drafts, cost),
        because=f"{{truth:.2f}}: {tokens:.2f} tokens in the time of {1 + drafts * cost:.1f} passes.",
        hint="Expected tokens of a pass: 1 + a + a² + … + a^drafts. Its time: one pass, and the drafts' cost.",
        ideas=(
            (
                each,
                "Draft 2 counts only if draft 1 was kept: the chances multiply.",
            ),
            (tokens, "These are the tokens of a pass. Drafting them took time, too."),
        ),
    )


def best_length(acceptance: float, cost: float, most: int = 16) -> Question:
    """The number of drafts with the largest speed-up."""
    return Question(
        truth=lambda: max(range(most + 1), key=lambda n: speed_up(acceptance, n, cost)),
        because="{truth}: the next draft is seldom reached, and costs as much as the first.",
        hint=f"Compute lab.speed_up({acceptance}, n, {cost}) for n from 0 to {most}, and take the n of the largest.",
        ideas=((most, "More drafts give more tokens a pass, but each costs; compute the speed-up, not the tokens."),),
    )


def _random_trees(random: torch.Generator) -> list[list[Any]]:
    def draw(nodes: int) -> list[Any]:
        parents = [-1]
        parents += [int(torch.randint(node, (1,), generator=random)) for node in range(1, nodes)]
        return [parents]

    return [[[-1]], [[-1, 0]], [[-1, 0, 0, 1, 2]], *(draw(nodes) for nodes in (4, 8, 16, 16))]


def _mask(parents: list[int]) -> torch.Tensor:
    return torch.tensor(tree_of(parents).mask)


def _no_grandparents(parents: list[int]) -> torch.Tensor:
    mask = torch.eye(len(parents), dtype=torch.bool)
    for node, parent in enumerate(parents[1:], 1):
        mask[node, parent] = True
    return mask


def ancestor_mask() -> CodeQuestion:
    """The mask of a tree from its nodes' parents."""
    return CodeQuestion(
        function="ancestors",
        cases=_random_trees,
        truth=_mask,
        because="Each row is its parent's row and the node itself: parents come first, so one loop is enough.",
        ideas=(
            (
                lambda parents: torch.ones(len(parents), len(parents), dtype=torch.bool).tril(),
                "This is a chain's mask: nodes see other branches, as if these had been said.",
            ),
            (_no_grandparents, "A node sees its parent's parent, too, up to the root."),
            (
                lambda parents: _mask(parents).T,
                "Rows are the nodes that look, columns those looked at: transpose.",
            ),
            (lambda parents: _mask(parents) & ~torch.eye(len(parents), dtype=torch.bool), "A node sees itself, too."),
        ),
    )
