"""Lab 04: a plan for split-KV decode.

A work unit is a part of a request's KV, tokens [start, end), on a CTA. A CTA works through its units one after another.
In tokens' time: a unit costs 128 + (end - start); after the last CTA is done the partials of split requests are merged,
which costs 32 per partial of the request that has most (a request in one unit is not merged). The sum is the makespan.
"""

PAGE = 64


def plan(seq_lens, num_ctas):
    """Work units.

    Args:
        seq_lens: tokens of each request, a list.
        num_ctas: CTAs, numbered from 0.

    Returns:
        a list of [request, start, end, cta], integers. Every token of every request is in exactly one unit; units begin
        at multiples of PAGE.
    """
    raise NotImplementedError
