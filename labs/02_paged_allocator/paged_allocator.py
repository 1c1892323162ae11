"""Lab 02: an allocator of KV slots that hands out whole pages. The model solution."""

import heapq


class PagedAllocator:
    def __init__(self, num_pages, page_size):
        self.page_size = page_size
        self.free_pages = list(range(1, num_pages + 1))
        self.slots = {}

    def extend(self, request, tokens):
        held = self.slots.get(request, [])
        room = -len(held) % self.page_size
        pages = max(0, -(-(tokens - room) // self.page_size))
        if pages > len(self.free_pages):
            return None
        new = [held[-1] + 1 + i for i in range(min(room, tokens))]
        for _ in range(pages):
            start = heapq.heappop(self.free_pages) * self.page_size
            new += range(start, start + self.page_size)
        del new[tokens:]
        self.slots[request] = held + new
        return new

    def free(self, request):
        for page in {slot // self.page_size for slot in self.slots.pop(request, [])}:
            heapq.heappush(self.free_pages, page)

    def available(self):
        return len(self.free_pages) * self.page_size
