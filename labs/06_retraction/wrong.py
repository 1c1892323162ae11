"""Known wrong ideas as changes of the model solution: (exercise, idea, [(old, new), …])."""

_KEY = "(requests[i][1], -requests[i][0], -i)"
_NEED = "(prompt + output) % page_size == 0 for prompt, output, _ in requests"
_BACK = "-(-(requests[victim][0] + requests[victim][1]) // page_size)"
_WHILE = "while len(kept) > 1 and pages_needed([requests[i] for i in kept], page_size) > free_pages:"
_RATIO = "min(1.0, (decoded + 20 * len(requests)) / (most + 1))"
WRONG = [
    ("retract", "most_outputs", [(_KEY, "(-requests[i][1], -requests[i][0], -i)")]),
    ("retract", "shortest_prompt", [(_KEY, "(requests[i][1], requests[i][0], -i)")]),
    ("retract", "by_prompt", [(_KEY, "(-requests[i][0], requests[i][1], -i)")]),
    ("retract", "newest", [(_KEY, "-i")]),
    ("retract", "first_of_equals", [(_KEY, "(requests[i][1], -requests[i][0], i)")]),
    ("retract", "a_page_each", [(_NEED, "1 for _ in requests")]),
    ("retract", "a_token_each", [(f"sum({_NEED})", "-(-len(requests) // page_size)")]),
    ("retract", "frees_nothing", [(_BACK, "0")]),
    ("retract", "frees_the_output", [(_BACK, "-(-requests[victim][1] // page_size)")]),
    ("retract", "old_need", [(_WHILE, "while len(kept) > 1 and pages_needed(requests, page_size) > free_pages:")]),
    ("retract", "all_of_them", [("while len(kept) > 1", "while len(kept) > 0")]),
    ("retract", "only_one", [("while len(kept) > 1", "while not retracted and len(kept) > 1")]),
    (
        "retract",
        "always_one",
        [(_WHILE, _WHILE.replace("and pages", "and (not retracted or pages").replace("free_pages:", "free_pages):"))],
    ),
    ("ratio", "no_steps", [("(decoded + 20 * len(requests))", "decoded")]),
    ("ratio", "twenty_once", [("20 * len(requests)", "20")]),
    ("ratio", "above_one", [(_RATIO, "(decoded + 20 * len(requests)) / (most + 1)")]),
    ("ratio", "mean", [(_RATIO, "min(1.0, sum((o + 20) / (m + 1) for _, o, m in requests) / len(requests))")]),
    ("ratio", "remaining", [("(most + 1)", "(most - decoded + 1)")]),
    ("ratio", "no_plus_one", [("(most + 1)", "most")]),
]
