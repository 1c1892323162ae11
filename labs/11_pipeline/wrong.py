"""Known wrong ideas as changes of the model solution: (exercise, idea, [(old, new), …])."""

_WAIT = "    ptx::cp_async_wait_group<kStages - 1>();\n"
_COPY = "ptx::cp_async_16(ptx::smem_address(to + at), x + i * 1024 + at, 16)"
_PLAIN = "for (int e = 0; e < 4; ++e) to[at + e] = x[i * 1024 + at + e]"
WRONG = [
    ("cp_async", "missing_cp_async_wait", [(_WAIT, "")]),
    ("cp_async", "missing_cp_async_wait", [("wait_group<kStages - 1>", "wait_group<kStages>")]),
    ("cp_async", "missing_cp_async_wait", [("    __syncthreads();  // the stage is free\n", "")]),
    ("cp_async", "missing_cp_async_wait", [("    __syncthreads();  // all threads' copies are there\n", "")]),
    ("cp_async", "no_overlap", [("kStages = 4", "kStages = 1")]),
    ("cp_async", "not_async", [(_COPY, _PLAIN)]),
    ("cp_async", "half_rows", [("  atomicAdd(&out[column], sum);", "  if (half == 0) atomicAdd(&out[column], sum);")]),
    ("cp_async", "last_tile", [("i < tiles; ++i) {\n    load", "i < tiles - 1; ++i) {\n    load")]),
    ("cp_async", "first_tile", [("row < 16; row += 2) sum", "row < 16 && i > 0; row += 2) sum")]),
    ("cp_async", "same_tile", [("x + i * 1024 + at", "x + at")]),
    ("cp_async", "out_of_bounds", [("if (i < tiles) {", "{")]),
    ("cp_async", "global_race", [("  atomicAdd(&out[column], sum);", "  out[column] += sum;")]),
    ("mbarrier", "hang", [("kBytes = 4096", "kBytes = 8192")]),
    ("mbarrier", "hang", [("mbarrier_init(empty[s], 4)", "mbarrier_init(empty[s], 5)")]),
    ("mbarrier", "hang", [("(round & 1) ^ 1", "round & 1")]),
    ("mbarrier", "shared_race", [("      ptx::mbarrier_wait(full[s], round & 1);\n", "")]),
    ("mbarrier", "arrivals", [("      ptx::mbarrier_wait(empty[s], (round & 1) ^ 1);\n", "")]),
    ("mbarrier", "no_overlap", [("kStages = 4", "kStages = 1")]),
    ("mbarrier", "last_tile", [("i < tiles; ++i)", "i < tiles - 1; ++i)")]),
    ("mbarrier", "half_rows", [("    atomicAdd(&out[column], sum);", "    if (half) atomicAdd(&out[column], sum);")]),
    ("mbarrier", "same_tile", [("&x, 0, i * 16,", "&x, 0, 0,")]),
]
