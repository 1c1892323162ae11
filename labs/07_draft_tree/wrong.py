"""Known wrong ideas as changes of the model solution: (exercise, idea, [(old, new), …])."""

_RETURN = "    return mask\n"
_SELF = "        mask[node, prefix + node] = True\n"
_OUT = "return [nodes, [target[node] for node in nodes]]"


def _mask(text):
    return [(_RETURN, f"    own = mask[:, prefix:]\n    return {text}\n")]


def _joined(text):
    return _mask(f"np.concatenate([mask[:, :prefix], {text}], 1)")


_DEPTH = "np.array(positions(parents, 0))"
_ALL = """return [
                [0, *(n for n in range(1, len(parents)) if tokens[n] == target[parents[n]])],
                [*(t for n, t in enumerate(tokens) if n and t == target[parents[n]]),
                 target[max([0, *(n for n in range(1, len(parents)) if tokens[n] == target[parents[n]])])]],
            ]"""
WRONG = [
    ("tree_mask", "causal", _joined("np.tril(np.ones_like(own))")),
    ("tree_mask", "no_self", _joined("own & ~np.eye(len(own), dtype=bool)")),
    ("tree_mask", "transposed", _joined("own.T")),
    ("tree_mask", "parent_only", [("mask[node] = mask[parent]", "mask[node, prefix + parent] = True")]),
    ("tree_mask", "no_prefix", [("    mask[:, :prefix] = True\n", "")]),
    ("tree_mask", "prefix_left_out", _mask("own")),
    ("tree_mask", "prefix_last", _mask("np.concatenate([own, mask[:, :prefix]], 1)")),
    ("tree_mask", "everything", _mask("np.ones_like(mask)")),
    (
        "tree_mask",
        "siblings",
        _joined("own | np.array([[a == b for a in parents] for b in parents])"),
    ),
    ("tree_mask", "by_depth", _joined(f"({_DEPTH}[:, None] > {_DEPTH}[None]) | np.eye(len(own), dtype=bool)")),
    ("tree_mask", "no_root", _joined("own & (np.arange(len(own)) > 0)[None]")),
    ("positions", "by_number", [("return np.array(found)", "return prefix + np.arange(len(parents))")]),
    ("positions", "depth_alone", [("else prefix)", "else 0)")]),
    ("positions", "one_more", [("else prefix)", "else prefix + 1)")]),
    ("positions", "all_same", [("found[parent] + 1", "found[parent]")]),
    ("accept", "no_bonus", [(_OUT, "return [nodes, [target[node] for node in nodes[:-1]]]")]),
    ("accept", "own_target", [("tokens[node] == target[nodes[-1]]", "tokens[node] == target[node]")]),
    ("accept", "draft_order", [("if parent == nodes[-1]]", "if node == nodes[-1] + 1]")]),
    ("accept", "first_child", [("for node in children if", "for node in children[:1] if")]),
    ("accept", "all_matching", [(_OUT, _ALL)]),
    (
        "accept",
        "deepest",
        [
            (_OUT, "return [nodes, [*(tokens[node] for node in nodes[1:]), target[nodes[-1]]]]"),
            (
                "kept = [node for node in children if tokens[node] == target[nodes[-1]]]",
                "depth = positions(parents, 0)\n        deepest = max(range(len(parents)), key=lambda n: depth[n])\n"
                "        path = [deepest]\n        while parents[path[-1]] >= 0:\n            path.append(parents[path[-1]])\n"
                "        kept = [node for node in children if node in path]",
            ),
        ],
    ),
]
