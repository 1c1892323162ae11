"""Lab 06: retraction, after SGLang's scheduler. The model solution."""


def pages_needed(requests, page_size):
    return sum((prompt + output) % page_size == 0 for prompt, output, _ in requests)


def retract(requests, free_pages, page_size):
    kept, retracted = list(range(len(requests))), []
    while len(kept) > 1 and pages_needed([requests[i] for i in kept], page_size) > free_pages:
        victim = min(kept, key=lambda i: (requests[i][1], -requests[i][0], -i))
        kept.remove(victim)
        retracted.append(victim)
        free_pages += -(-(requests[victim][0] + requests[victim][1]) // page_size)
    return [retracted, kept, free_pages]


def new_token_ratio(requests):
    decoded = sum(output for _, output, _ in requests)
    most = sum(limit for _, _, limit in requests)
    return min(1.0, (decoded + 20 * len(requests)) / (most + 1))
