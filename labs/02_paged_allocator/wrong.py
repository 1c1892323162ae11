"""Known wrong ideas as changes of the model solution: (exercise, idea, [(old, new), …])."""

_FREE = """        for page in {slot // self.page_size for slot in self.slots.pop(request, [])}:
            heapq.heappush(self.free_pages, page)
"""
_PAGES = "max(0, -(-(tokens - room) // self.page_size))"
WRONG = [
    ("allocator", "page_zero", [("range(1, num_pages + 1)", "range(num_pages)")]),
    ("allocator", "new_page", [("room = -len(held) % self.page_size", "room = 0")]),
    ("allocator", "rounds_down", [(_PAGES, "max(0, (tokens - room) // self.page_size)")]),
    ("allocator", "one_more", [(_PAGES, "(tokens - room) // self.page_size + 1 if tokens > room else 0")]),
    ("allocator", "refuses_last", [("if pages > len(", "if pages and pages >= len(")]),
    (
        "allocator",
        "keeps",
        [("            return None\n", "            self.free_pages = []\n            return None\n")],
    ),
    ("allocator", "raises", [("            return None\n", "            raise RuntimeError\n")]),
    ("allocator", "never_frees", [(_FREE, "        self.slots.pop(request, None)\n")]),
    (
        "allocator",
        "per_token",
        [
            (
                "in {slot // self.page_size for slot in self.slots.pop(request, [])}",
                "in [slot // self.page_size for slot in self.slots.pop(request, [])]",
            )
        ],
    ),
    (
        "allocator",
        "keeps_last",
        [
            (
                "for slot in self.slots.pop(request, [])}",
                "for slot in self.slots.pop(request, [])[self.page_size - 1 :: self.page_size]}",
            )
        ],
    ),
    ("allocator", "counts_pages", [("return len(self.free_pages) * self.page_size", "return len(self.free_pages)")]),
    (
        "allocator",
        "counts_tails",
        [
            (
                "return len(self.free_pages) * self.page_size",
                "return len(self.free_pages) * self.page_size + sum(-len(s) % self.page_size for s in self.slots.values())",
            )
        ],
    ),
    ("allocator", "forgets", [(_FREE, _FREE.replace("pop(request", "get(request"))]),
    (
        "allocator",
        "newest_first",
        [
            ("heapq.heappop(self.free_pages)", "self.free_pages.pop(0)"),
            (
                _FREE,
                "        pages = sorted({s // self.page_size for s in self.slots.pop(request, [])})\n        self.free_pages = pages + self.free_pages\n",
            ),
        ],
    ),
    (
        "allocator",
        "at_the_end",
        [
            ("heapq.heappop(self.free_pages)", "self.free_pages.pop(0)"),
            (_FREE, "        self.free_pages += sorted({s // self.page_size for s in self.slots.pop(request, [])})\n"),
        ],
    ),
]
