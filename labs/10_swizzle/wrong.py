"""Known wrong ideas as changes of the model solution: (exercise, idea, [(old, new), …])."""

_IN, _OUT = "tile[row][lane ^ row]", "tile[lane][column ^ lane]"
_SYNC = "  __syncthreads();\n"
WRONG = [
    ("transpose", "linear", [(_IN, "tile[row][lane]"), (_OUT, "tile[lane][column]")]),
    ("transpose", "some_bits", [(_IN, "tile[row][lane ^ (row % 16)]"), (_OUT, "tile[lane][column ^ (lane % 16)]")]),
    (
        "transpose",
        "padding",
        [("tile[32][32]", "tile[32][33]"), (_IN, "tile[row][lane]"), (_OUT, "tile[lane][column]")],
    ),
    ("transpose", "one_side", [(_OUT, "tile[lane][column]")]),
    ("transpose", "one_side", [(_IN, "tile[row][lane]")]),
    ("transpose", "direct", [(_OUT, "x[lane * 32 + column]")]),
    ("transpose", "copied", [(_OUT, "tile[column][lane ^ column]")]),
    ("transpose", "part", [("column < 32; column += 8", "column < 16; column += 8")]),
    ("transpose", "shared_race", [(_SYNC, "")]),
    ("transpose", "out_of_bounds", [("x += blockIdx.x * 1024", "x += (blockIdx.x + 1) * 1024")]),
    ("transpose", "uninitialised", [("row < 32; row += 8", "row < 31; row += 8")]),
    ("chunks", "linear", [("(t % 8) ^ (t / 8 % 8)", "t % 8"), ("(t / 32) ^ (t % 8)", "t / 32")]),
    (
        "chunks",
        "some_bits",
        [("(t % 8) ^ (t / 8 % 8)", "(t % 8) ^ (t / 8 % 4)"), ("(t / 32) ^ (t % 8)", "(t / 32) ^ (t % 4)")],
    ),
    (
        "chunks",
        "padding",
        [("tile[32][8]", "tile[32][9]"), ("(t % 8) ^ (t / 8 % 8)", "t % 8"), ("(t / 32) ^ (t % 8)", "t / 32")],
    ),
    ("chunks", "one_side", [("(t / 32) ^ (t % 8)", "t / 32")]),
    ("chunks", "direct", [("tile[t % 32][(t / 32) ^ (t % 8)]", "x[t % 32 * 8 + t / 32]")]),
    ("chunks", "copied", [("tile[t % 32][(t / 32) ^ (t % 8)]", "tile[t / 8][(t % 8) ^ (t / 8 % 8)]")]),
    ("chunks", "shared_race", [(_SYNC, "")]),
]
