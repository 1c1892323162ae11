"""Known wrong ideas as changes of the model solution: (exercise, idea, [(old, new), …])."""

_SCORE = "keys[None, :, :], 2) * scale"
_LSE = 'tl.where(d > 0, m + tl.log(d), float("-inf"))'
WRONG = [
    ("decode", "no_scale", [(_SCORE, "keys[None, :, :], 2)")]),
    ("decode", "scale_twice", [(_SCORE, _SCORE + " * scale")]),
    ("decode", "base", [("tl.exp(", "tl.exp2("), ("tl.log(", "tl.log2(")]),
    ("decode", "base_up", [(_SCORE, _SCORE + " * 1.4426950408889634")]),
    ("decode", "one_less", [("+ rows < length", "+ rows < length - 1")]),
    ("decode", "whole_pages", [("+ rows < length", "+ rows < length + 16")]),
    (
        "decode",
        "last_page",
        [("tl.minimum(first + per_split, tl.cdiv(length, 16))", "tl.minimum(first + per_split, length // 16)")],
    ),
    ("decode", "pages_in_order", [("tl.load(page_table + request * pages + page)", "page")]),
    ("decode", "nan", [(_LSE, "m + tl.log(d)"), ("o / tl.where(d > 0, d, 1.0)[:, None]", "o / d[:, None]")]),
    ("decode", "empty_splits", [(_LSE, "tl.where(d > 0, m + tl.log(d), 0.0)")]),
    (
        "decode",
        "no_splits",
        [
            ("first = split * per_split", "per_split = tl.cdiv(length, 16)\n    first = 0"),
            ("(requests, splits)](q", "(requests, 1)](q"),
            (
                "partial = torch.zeros(requests, splits, 4, 32)",
                "partial = torch.zeros(requests, splits, 4, 32)\n    splits = 1",
            ),
            ("request * SPLITS", "request * SPLITS"),
        ],
    ),
]
