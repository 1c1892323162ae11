"""Known wrong ideas as changes of the model solution: (exercise, idea, [(old, new), …])."""

_UP = "(count[e] + block - 1) / block * block"
WRONG = [
    ("kernel", "not_padded", [(_UP, "count[e]")]),
    ("kernel", "a_block_each", [(_UP, "(max(count[e], 1) + block - 1) / block * block")]),
    ("kernel", "one_more_block", [(_UP, "(count[e] / block + 1) * block")]),
    (
        "kernel",
        "rounded_down",
        [
            (_UP, "count[e] / block * block"),
            (
                "sorted_ids[atomicAdd",
                "if (atomicAdd(&count[0], 0) >= 0 && next[topk_ids[i]] < start[experts]) sorted_ids[atomicAdd",
            ),
        ],
    ),
    ("kernel", "blocks", [("*num_post_pad = start[experts];", "*num_post_pad = start[experts] / block;")]),
    (
        "kernel",
        "first_threads",
        [
            ("i < choices; i += blockDim.x) atomicAdd", "i < min(choices, 128); i += blockDim.x) atomicAdd"),
            ("i < choices; i += blockDim.x) sorted", "i < min(choices, 128); i += blockDim.x) sorted"),
        ],
    ),
    ("kernel", "padding", [("sorted_ids[i] = choices", "sorted_ids[i] = -1")]),
    ("kernel", "values", [("(&next[topk_ids[i]], 1)] = i;", "(&next[topk_ids[i]], 1)] = topk_ids[i];")]),
    ("kernel", "experts_by_slot", [("expert_ids[slot / block] = e", "expert_ids[e] = e")]),
    (
        "kernel",
        "reads_often",
        [
            (
                "i < choices; i += blockDim.x) atomicAdd(&count[topk_ids[i]], 1);",
                "i < experts; i += blockDim.x) for (int j = 0; j < choices; ++j) count[i] += topk_ids[j] == i;",
            )
        ],
    ),
    (
        "kernel",
        "serial",
        [
            (
                "int i = threadIdx.x; i < choices; i += blockDim.x) sorted",
                "int i = 0; i < choices && threadIdx.x == 0; ++i) sorted",
            ),
            (
                "int i = threadIdx.x; i < start[experts]; i += blockDim.x",
                "int i = 0; i < start[experts] && threadIdx.x == 0; ++i",
            ),
        ],
    ),
    ("kernel", "shared_race", [("  __syncthreads();  // counts are complete\n", "")]),
    ("kernel", "global_race", [("  __syncthreads();  // padding is written before choices\n", "")]),
    ("kernel", "shared_race", [("atomicAdd(&count[topk_ids[i]], 1)", "count[topk_ids[i]] += 1")]),
    ("kernel", "uninitialised", [("count[e] = 0;", ";")]),
]
