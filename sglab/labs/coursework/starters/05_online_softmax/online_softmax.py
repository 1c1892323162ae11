"""Lab 05: online softmax. Everything is in base 2: scores carry log2(e) already, an LSE is log2 of a sum of 2^score.

The state of the tiles seen so far: m, their largest score (-inf before the first); d, the sum of 2^(score - m); and o,
the sum of 2^(score - m) · value, (dim,). A masked key has the score -inf.
"""

import numpy as np


def update(m, d, o, scores, values):
    """The state after one more tile, [m, d, o].

    Args:
        scores: (keys,) float64.
        values: (keys, dim) float64.
    """
    raise NotImplementedError


def finish(m, d, o):
    """[output (dim,), LSE] of a state; of one that saw no key zeros and -inf."""
    return [np.full_like(o, np.nan), 0.0]


def merge(o_a, lse_a, o_b, lse_b):
    """[output, LSE] over the keys of both partial results. An LSE of -inf belongs to one that saw no key."""
    raise NotImplementedError
