"""Known wrong ideas as changes of the model solution: (exercise, idea, [(old, new), …])."""

WRONG = [
    ("mla", "no_scale", [("s * scale", "s")]),
    ("mla", "scale_twice", [("s * scale", "s * scale * scale")]),
    ("mla", "base", [("tl.exp(", "tl.exp2(")]),
    ("mla", "base_up", [("s * scale", "s * scale * 1.4426950408889634")]),
    ("mla", "not_divided", [("o / d[:, None]", "o")]),
    ("mla", "one_less", [("+ rows < length", "+ rows < length - 1")]),
    ("mla", "whole_pages", [("+ rows < length", "+ rows < length + 16")]),
    ("mla", "last_page", [("range(tl.cdiv(length, 16))", "range(length // 16)")]),
    ("mla", "pages_in_order", [("tl.load(page_table + request * pages + page)", "page")]),
    ("mla", "no_rope", [("        s += tl.dot(q_rope, tl.trans(r))\n", "")]),
    (
        "mla",
        "out_of_bounds",
        [("tl.load(page_table + request * pages + page)", "(tl.load(page_table + request * pages + page) + 100)")],
    ),
]
