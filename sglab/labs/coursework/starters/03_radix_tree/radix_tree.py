"""Lab 03: a radix tree of token sequences, with the KV slot of every token. Pages are of one token here.

A node holds a run of tokens; two nodes below the same parent begin with different tokens. match, insert, lock and
unlock use every node on their path; each of these calls is a moment later than the one before.
"""


class RadixTree:
    def __init__(self):
        raise NotImplementedError

    def match(self, tokens):
        """Slots of the longest prefix of `tokens` that the tree has, a list. A node that matches in part is split."""
        raise NotImplementedError

    def insert(self, tokens, slots):
        """Adds a sequence with its slots. What the tree has of it keeps the slots that it has.

        Returns:
            how many of the tokens the tree had already.
        """
        raise NotImplementedError

    def evict(self, count):
        """Removes leaves, the least recently used first and each one whole, until `count` slots or more are free; a
        leaf that is locked stays. When a parent has lost its last child it is a leaf.

        Returns:
            the freed slots in the order in which they were freed; fewer than `count` where nothing more may go.
        """
        raise NotImplementedError

    def lock(self, tokens):
        """A running request reads this prefix: its nodes may not be evicted until they are unlocked as often as they
        were locked. A part of a locked node is locked. Returns None."""
        raise NotImplementedError

    def unlock(self, tokens):
        """Takes back one lock of each of the prefix's nodes. Returns None."""
        raise NotImplementedError

    def size(self):
        """Tokens in the tree."""
        raise NotImplementedError
