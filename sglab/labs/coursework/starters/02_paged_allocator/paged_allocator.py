"""Lab 02: an allocator of KV slots that hands out whole pages.

Page p holds the slots p * page_size to (p + 1) * page_size - 1. There are pages 1 to num_pages; page 0 is kept for
padding. Of the free pages the lowest is always taken first.
"""


class PagedAllocator:
    def __init__(self, num_pages, page_size):
        raise NotImplementedError

    def extend(self, request, tokens):
        """Slots for the next `tokens` tokens of a request (a number; new ones come without notice), a list in order.

        A request's tokens lie one after another on its pages: its last page is filled before another is taken. Returns
        None, and changes nothing, if there are too few free pages.
        """
        raise NotImplementedError

    def free(self, request):
        """The request is done; returns None. Its number may come again, as a new request's."""
        raise NotImplementedError

    def available(self):
        """How many tokens a new request could get."""
        raise NotImplementedError
