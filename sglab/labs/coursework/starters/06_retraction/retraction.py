"""Lab 06: retraction, after SGLang's scheduler.

A request is [prompt tokens, output tokens, max_new_tokens]; it holds whole pages for its prompt and output. A decode
step adds a token to each running request.
"""


def retract(requests, free_pages, page_size):
    """Take requests out until the rest can decode one step; none where the step fits, and one always stays.

    Who has fewest outputs goes first; of those, who has the longest prompt; of those, who is last in the batch. Its
    pages become free.

    Returns:
        [indices retracted, in order; indices kept, ascending; free pages before the step takes any].
    """
    return [None, None, None]


def new_token_ratio(requests):
    """The share of their max_new_tokens that the scheduler reserves for the requests that stayed.

    What they have decoded, and 20 steps more for each, by the sum of max_new_tokens plus 1; at most 1.
    """
    raise NotImplementedError
