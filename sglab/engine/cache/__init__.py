"""The KV cache: pools, allocators, page-table rows and the radix tree."""
