"""Known wrong ideas as changes of the model solution: (exercise, idea, [(old, new), …])."""

_LEAVES = "if not node.children and not node.locks]"
_LOCK = "        for node in self._walk(tokens):\n            node.locks += 1\n"
_UNLOCK = "        for node in self._walk(tokens):\n            node.locks -= 1\n"
_CUT = "            del leaf.parent.children[leaf.tokens[0]]\n            freed += leaf.slots\n"
_EXACTLY = """            over = len(freed) + len(leaf.slots) - count
            if over > 0:
                freed += leaf.slots[over:]
                leaf.tokens, leaf.slots = leaf.tokens[:over], leaf.slots[:over]
                break
"""
WRONG = [
    (
        "tree",
        "whole_nodes",
        [
            (
                "            node = node.children[tokens[0]]\n",
                "            child = node.children[tokens[0]]\n            if tokens[: len(child.tokens)] != child.tokens:\n"
                "                break\n            node = child\n",
            )
        ],
    ),
    ("tree", "first_slots", [("slots[known:], self.now)", "slots[: len(slots) - known], self.now)")]),
    ("tree", "counts_new", [("        return known\n", "        return len(tokens) - known\n")]),
    (
        "tree",
        "all_or_nothing",
        [
            (
                "        return [slot for node in self._walk(tokens) for slot in node.slots]\n",
                "        found = [slot for node in self._walk(tokens) for slot in node.slots]\n"
                "        return found if len(found) == len(tokens) else []\n",
            )
        ],
    ),
    ("tree", "oldest_made", [("            node.used = self.now\n", "")]),
    ("tree", "newest_first", [("key=lambda node: node.used", "key=lambda node: -node.used")]),
    ("tree", "largest_first", [("key=lambda node: node.used", "key=lambda node: -len(node.tokens)")]),
    ("tree", "inner_nodes", [(_LEAVES, "if not node.locks]")]),
    ("tree", "locks_ignored", [(_LEAVES, "if not node.children]")]),
    (
        "tree",
        "locks_last",
        [(_LOCK, _LOCK.replace("(tokens)", "(tokens)[-1:]")), (_UNLOCK, _UNLOCK.replace("(tokens)", "(tokens)[-1:]"))],
    ),
    ("tree", "split_unlocked", [("lower.used, lower.locks)", "lower.used)")]),
    ("tree", "lock_flag", [(_LOCK, _LOCK.replace("+= 1", "= 1")), (_UNLOCK, _UNLOCK.replace("-= 1", "= 0"))]),
    ("tree", "exactly", [(_CUT, _EXACTLY + _CUT)]),
    ("tree", "one_leaf", [("            freed += leaf.slots\n", "            return leaf.slots\n")]),
    ("tree", "counts_nodes", [("sum(len(node.tokens) for node in self._nodes())", "len(self._nodes())")]),
]
