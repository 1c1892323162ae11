"""Known wrong ideas as changes of the model solution: (exercise, idea, [(old, new), …])."""

_COUNT = "counts = -(-seq_lens // page_size)"
WRONG = [
    ("table", "floor", [(_COUNT, "counts = seq_lens // page_size")]),
    ("table", "extra_page", [(_COUNT, "counts = seq_lens // page_size + 1")]),
    ("table", "row_number", [("req_to_token[row, ", "req_to_token[i, ")]),
    ("table", "slots", [("= slots // page_size", "= slots")]),
    (
        "table",
        "every_token",
        [(_COUNT, "counts = seq_lens"), (": pages * page_size : page_size]", ":pages]")],
    ),
    ("table", "offset", [("= slots // page_size", "= slots % page_size")]),
    ("table", "pad_zero", [(", -1, np.int32)", ", 0, np.int32)")]),
    ("table", "counted", [("= slots // page_size", "= slots[:1] // page_size + np.arange(pages)")]),
    ("table", "sorted", [("= slots // page_size", "= np.sort(slots // page_size)")]),
    ("table", "longest", [("zip(req_pool_indices, counts)", "zip(req_pool_indices, counts * 0 + counts.max())")]),
    ("indices", "last_zero", [("((seq_lens - 1) % page_size + 1)", "(seq_lens % page_size)")]),
    ("indices", "last_length", [("((seq_lens - 1) % page_size + 1)", "seq_lens")]),
    ("indices", "last_free", [("((seq_lens - 1) % page_size + 1)", "(-seq_lens % page_size)")]),
    ("indices", "no_zero", [("np.concatenate([[0], np.cumsum(counts)])", "np.cumsum(counts)")]),
    ("indices", "counts", [("np.concatenate([[0], np.cumsum(counts)])", "np.concatenate([[0], counts])")]),
    ("indices", "tokens", [("np.cumsum(counts)]", "np.cumsum(seq_lens)]")]),
    ("indices", "floor", [(_COUNT, "counts = seq_lens // page_size")]),
    ("indices", "row_number", [("req_to_token[row, ", "req_to_token[i, ")]),
    ("indices", "slots", [("= slots // page_size", "= slots")]),
    ("indices", "last_index", [("((seq_lens - 1) % page_size + 1)", "((seq_lens - 1) % page_size)")]),
]
