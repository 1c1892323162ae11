"""One layer's attention over slots of the pool: what every backend's index arrays come down to.

A backend builds the arrays that its own kernels read, turns them into `PagedRows` (from a CSR, or from a page table by
`slots_of_table`) and calls `attend_rows`. On a GPU the operators of `sglab.kernels` run; on a CPU PyTorch.
"""

from sglab.attention.arithmetic.attend import attend_rows, scoring_of
from sglab.attention.arithmetic.merging import merge_base2, merge_natural, with_sinks
from sglab.attention.arithmetic.paged_rows import PagedRows, last_slots, slots_of_table

__all__ = [
    "PagedRows",
    "attend_rows",
    "last_slots",
    "merge_base2",
    "merge_natural",
    "scoring_of",
    "slots_of_table",
    "with_sinks",
]
