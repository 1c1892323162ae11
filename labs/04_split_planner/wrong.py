"""Known wrong ideas as changes of the model solution: (exercise, idea, [(old, new), …])."""

_RETURN = "    return best[1]\n"


def _instead(text):
    return [(_RETURN, f"    return {text}\n")]


_PARTS = "[[r, s, min(s + {0}, n), {1}] for r, n in enumerate(seq_lens) for s in range(0, n, {0})]"
WRONG = [
    ("plan", "floats", [("start, start + tokens, cta]", "start / 1, start + tokens, cta]")]),
    ("plan", "cta_range", [("for cta in range(num_ctas)]", "for cta in range(1, num_ctas + 1)]")]),
    ("plan", "empty_unit", _instead("best[1] + [[0, seq_lens[0], seq_lens[0], 0]]")),
    ("plan", "unaligned", [("step = -(-(-(-length // count)) // PAGE) * PAGE", "step = -(-length // count)")]),
    ("plan", "past_end", [("(min(step, length - start), request, start)", "(step, request, start)")]),
    ("plan", "overlap", _instead("best[1] + best[1][:1]")),
    ("plan", "gap", _instead("[unit for unit in best[1] if unit[1] > 0]")),
    ("plan", "tail", [("range(0, length, step)]", "range(0, max(1, length - length % step), step)]")]),
    ("plan", "whole_requests", _instead("deal([(n, r, 0) for r, n in enumerate(seq_lens)], num_ctas)[0]")),
    (
        "plan",
        "page_units",
        _instead(
            "deal([(min(PAGE, n - s), r, s) for r, n in enumerate(seq_lens) for s in range(0, n, PAGE)], num_ctas)[0]"
        ),
    ),
    ("plan", "one_cta", _instead(_PARTS.format("512", "0"))),
    (
        "plan",
        "same_splits",
        _instead(
            "[[r, s, min(s + -(-n // 512) * 64, n), (r * 8 + s) % num_ctas] for r, n in enumerate(seq_lens) for s in range(0, n, -(-n // 512) * 64)]"
        ),
    ),
    (
        "plan",
        "in_turn",
        _instead("[[r, s, e, i % num_ctas] for i, (r, s, e, _) in enumerate(" + _PARTS.format("1024", "0") + ")]"),
    ),
]
