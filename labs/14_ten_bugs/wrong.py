"""The ten bugs as changes of the mended kernels: (exercise, idea, [(old, new), …]). All of them make the starter."""

WRONG = [
    (
        "bugs",
        "reverse",
        [("  s[threadIdx.x] = x[threadIdx.x];\n  __syncthreads();\n", "  s[threadIdx.x] = x[threadIdx.x];\n")],
    ),
    ("bugs", "double_it", [("if (i < n) out[i]", "out[i]")]),
    ("bugs", "lse", [("m + log2f(d)", "m + log2f(d) * 1.44269504f")]),
    ("bugs", "merge", [("  if (m == -INFINITY) {\n    out[threadIdx.x] = 0;\n    return;\n  }\n", "")]),
    ("bugs", "paged", [("pages[token / 8]", "pages[blockIdx.x * 4]")]),
    (
        "bugs",
        "empty",
        [
            (
                "    for (int i = 0; i < rows; ++i) {\n      ptx::mbarrier_wait(full[i], 0);\n      sum += row[i][lane];\n    }\n",
                "    int i = 0;\n    do {\n      ptx::mbarrier_wait(full[i], 0);\n      sum += row[i][lane];\n    } while (++i < rows);\n",
            )
        ],
    ),
    ("bugs", "ring", [("parity = i / 2 % 2", "parity = 0")]),
    ("bugs", "total", [("ptx::bar_sync(1, 64);  // those that go on", "ptx::bar_sync(1, 128);  // those that go on")]),
    ("bugs", "staged", [("ptx::cp_async_wait_group<1>()", "ptx::cp_async_wait_group<2>()")]),
    ("bugs", "bulk", [("  ptx::fence_proxy_async();\n", "")]),
]
