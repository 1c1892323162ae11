"""A request's context spread over ranks (`dcp_size`): `layout` says who holds what, `merging` joins what the ranks
found, `prefix` gathers a prompt's prefix, `backend` is a backend whose ranks do so.

Source: SGLang 0.5.23 `layers/dcp`.
"""
