"""Known wrong ideas as changes of the model solution: (exercise, idea, [(old, new), …])."""

_TOP = "top = max(m, scores.max())"
_FACTOR = "0.0 if m == -np.inf else np.exp2(m - top)"
_OUT = "o * factor + p @ values]"
_EMPTY = "    if top == -np.inf:\n        return [m, d, o]\n"
_NONE = "    if top == -np.inf:\n        return [np.zeros_like(o_a), -np.inf]\n"
_WEIGHTS = "a, b = np.exp2(lse_a - top), np.exp2(lse_b - top)"
_LSE = "top + np.log2(a + b)]"
WRONG = [
    ("update", "no_rescale", [(_FACTOR, "0.0 if m == -np.inf else 1.0")]),
    ("update", "d_alone", [(_OUT, "o + p @ values]")]),
    ("update", "o_alone", [("d * factor", "d")]),
    ("update", "upside_down", [(_FACTOR, "0.0 if m == -np.inf else np.exp2(top - m)")]),
    ("update", "e", [(_FACTOR, "0.0 if m == -np.inf else np.exp(m - top)"), ("p = np.exp2(", "p = np.exp(")]),
    ("update", "no_max", [(_TOP, "top = 0.0"), (_FACTOR, "1.0")]),
    ("update", "tile_max", [(_TOP, "top = scores.max()")]),
    ("update", "old_max", [(_TOP, "top = m if m > -np.inf else scores.max()")]),
    ("update", "nan", [(_EMPTY, ""), (_FACTOR, "np.exp2(m - top)")]),
    (
        "update",
        "normalised",
        [
            (
                "[top, d * factor + p.sum(), " + _OUT,
                "[top, d * factor + p.sum(), (o * factor + p @ values) / (d * factor + p.sum())]",
            )
        ],
    ),
    (
        "update",
        "mean",
        [(_TOP, "top = max(m, scores[np.isfinite(scores)].mean() if np.isfinite(scores).any() else -np.inf)")],
    ),
    ("finish", "no_m", [("m + np.log2(d)", "np.log2(d)")]),
    ("finish", "times", [("m + np.log2(d)", "m * np.log2(d)")]),
    ("finish", "natural", [("m + np.log2(d)", "m + np.log(d)")]),
    ("finish", "not_divided", [("[o / d,", "[o,")]),
    ("merge", "average", [("[(a * o_a + b * o_b) / (a + b)", "[(o_a + o_b) / 2")]),
    ("merge", "by_max", [("(a * o_a + b * o_b) / (a + b)", "a * o_a + b * o_b")]),
    ("merge", "no_log", [(_LSE, "lse_a + lse_b]")]),
    ("merge", "max_lse", [(_LSE, "top]")]),
    ("merge", "e", [(_WEIGHTS, "a, b = np.exp(lse_a - top), np.exp(lse_b - top)"), (_LSE, "top + np.log(a + b)]")]),
    ("merge", "lse_weights", [("[(a * o_a + b * o_b) / (a + b)", "[(lse_a * o_a + lse_b * o_b) / (lse_a + lse_b)")]),
    ("merge", "ln", [(_LSE, "top + np.log(a + b)]")]),
    ("merge", "swapped", [(_WEIGHTS, "b, a = np.exp2(lse_a - top), np.exp2(lse_b - top)")]),
    (
        "merge",
        "overflow",
        [(_WEIGHTS, "a, b = np.exp2(np.float32(lse_a)), np.exp2(np.float32(lse_b))"), (_LSE, "np.log2(a + b)]")],
    ),
    ("merge", "nan", [(_NONE, "")]),
]
