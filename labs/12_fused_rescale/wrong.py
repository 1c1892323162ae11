"""Known wrong ideas as changes of the model solution: (exercise, idea, [(old, new), …])."""

_O, _D, _LSE = "    o *= shared_factor;\n", "d = d * factor + total;", "m + log2f(d)"
WRONG = [
    ("decode", "no_rescale", [(_O, "")]),
    ("decode", "both_unscaled", [(_O, ""), (_D, "d += total;")]),
    ("decode", "twice", [(_O, _O + _O)]),
    ("decode", "d_forgotten", [(_D, "d += total;")]),
    ("decode", "not_divided", [("o / shared_d", "o")]),
    ("decode", "natural_lse", [(_LSE, "(m + log2f(d)) / 1.44269504f")]),
    ("decode", "mixed_lse", [(_LSE, "m + logf(d)")]),
    ("decode", "lse_without_m", [(_LSE, "log2f(d)")]),
    ("decode", "lse_is_m", [(_LSE, "m")]),
    (
        "decode",
        "in_shared",
        [
            (
                "float m = -INFINITY, d = 0, o = 0;",
                "float m = -INFINITY, d = 0;\n  __shared__ volatile float os[64];\n  volatile float& o = os[t];\n  o = 0;",
            )
        ],
    ),
    ("decode", "barriers", [(_O, "    __syncthreads();\n" + _O)]),
    ("decode", "shared_race", [("    __syncthreads();  // the probabilities are there\n", "")]),
    ("decode", "shared_race", [("    __syncthreads();  // and may be overwritten\n", "")]),
    ("decode", "out_of_bounds", [("if (start + t < keys) {", "{"), ("min(32, keys - start)", "32")]),
]
