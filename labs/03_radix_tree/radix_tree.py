"""Lab 03: a radix tree of token sequences. The model solution."""


class Node:
    def __init__(self, parent, tokens, slots, used=0, locks=0):
        self.parent, self.tokens, self.slots = parent, tokens, slots
        self.used, self.locks = used, locks
        self.children = {}


class RadixTree:
    def __init__(self):
        self.root = Node(None, [], [])
        self.now = 0

    def match(self, tokens):
        self.now += 1
        return [slot for node in self._walk(tokens) for slot in node.slots]

    def insert(self, tokens, slots):
        self.now += 1
        path = self._walk(tokens)
        known = sum(len(node.tokens) for node in path)
        if known < len(tokens):
            parent = path[-1] if path else self.root
            parent.children[tokens[known]] = Node(parent, tokens[known:], slots[known:], self.now)
        return known

    def evict(self, count):
        freed = []
        while len(freed) < count:
            leaves = [node for node in self._nodes() if not node.children and not node.locks]
            if not leaves:
                break
            leaf = min(leaves, key=lambda node: node.used)
            del leaf.parent.children[leaf.tokens[0]]
            freed += leaf.slots
        return freed

    def lock(self, tokens):
        self.now += 1
        for node in self._walk(tokens):
            node.locks += 1

    def unlock(self, tokens):
        self.now += 1
        for node in self._walk(tokens):
            node.locks -= 1

    def size(self):
        return sum(len(node.tokens) for node in self._nodes())

    def _walk(self, tokens):
        """Nodes along the tokens; where they part within a node, the node is split."""
        node, path = self.root, []
        while tokens and tokens[0] in node.children:
            node = node.children[tokens[0]]
            same = 0
            while same < min(len(tokens), len(node.tokens)) and tokens[same] == node.tokens[same]:
                same += 1
            if same < len(node.tokens):
                node = self._split(node, same)
            node.used = self.now
            path.append(node)
            tokens = tokens[same:]
        return path

    def _split(self, lower, at):
        upper = Node(lower.parent, lower.tokens[:at], lower.slots[:at], lower.used, lower.locks)
        lower.parent.children[lower.tokens[0]] = upper
        lower.parent, lower.tokens, lower.slots = upper, lower.tokens[at:], lower.slots[at:]
        upper.children[lower.tokens[0]] = lower
        return upper

    def _nodes(self):
        found, todo = [], [self.root]
        while todo:
            children = list(todo.pop().children.values())
            found += children
            todo += children
        return found
