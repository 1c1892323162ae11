"""Known wrong ideas as changes of the model solution: (exercise, idea, [(old, new), …])."""

_FENCE = "  ptx::fence_proxy_async();  // wgmma reads by the async proxy\n"
WRONG = [
    # without a barrier the launch has waits and not a single phase, which its timeline must bear
    ("tile", "shared_race", [("  __syncthreads();\n  float acc", "  float acc")]),
    ("tile", "d_transposed", [("d[row * 64 + column]", "d[column * 64 + row]")]),
    ("tile", "d_transposed", [("acc, left, right,", "acc, right, left,")]),
    ("tile", "last_step", [("k > 0)", "false)")]),
    ("tile", "first_step", [("k < 4; ++k", "k < 1; ++k")]),
    ("tile", "same_step", [(" + 32 * k", "")]),
    ("tile", "fragment", [("16 * warp + lane / 4 + 8 * (i / 2 % 2)", "16 * warp + lane / 4 * 2 + i / 2 % 2")]),
    ("tile", "fragment", [("8 * (i / 4) + lane % 4 * 2 + i % 2", "i + 0 * lane")]),
    ("tile", "layout", [("[chunk ^ (row % 8)]", "[chunk]")]),
    ("tile", "layout", [("s[1][row][chunk ^ (row % 8)]", "s[1][row][chunk]")]),
    ("tile", "missing_proxy_fence", [(_FENCE, "")]),
    ("tile", "missing_wgmma_wait", [("  ptx::wgmma_wait<0>();\n", "")]),
]
