"""Lab 04: a plan for split-KV decode. The model solution: search over part lengths, longest part first."""

import heapq

PAGE, UNIT, MERGE = 64, 128, 32


def deal(parts, num_ctas):
    """Longest first, each to the CTA with the least so far."""
    busy = [(0, cta) for cta in range(num_ctas)]
    units = []
    for tokens, request, start in sorted(parts, reverse=True):
        load, cta = heapq.heappop(busy)
        units.append([request, start, start + tokens, cta])
        heapq.heappush(busy, (load + UNIT + tokens, cta))
    return units, max(busy)[0]


def plan(seq_lens, num_ctas):
    total, best = sum(seq_lens), None
    longest = max(seq_lens)
    sizes = {-(-total // (parts * PAGE)) * PAGE for parts in range(max(1, num_ctas // 3), 3 * num_ctas + 1)}
    choices = [(size, True) for size in {*sizes, longest}]  # equal parts of at most this length
    choices += [(size, False) for size in range(PAGE, 24 * PAGE, PAGE)]  # parts of this length, and a rest
    for size, even in choices:
        parts, most = [], 0
        for request, length in enumerate(seq_lens):
            count = -(-length // size)
            step = -(-(-(-length // count)) // PAGE) * PAGE if even else size
            mine = [(min(step, length - start), request, start) for start in range(0, length, step)]
            parts += mine
            most = max(most, len(mine) if len(mine) > 1 else 0)
        units, busy = deal(parts, num_ctas)
        if best is None or busy + MERGE * most < best[0]:
            best = busy + MERGE * most, units
    return best[1]
