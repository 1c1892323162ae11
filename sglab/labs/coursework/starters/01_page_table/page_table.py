"""Lab 01: the page table.

req_to_token       (rows, columns) int32: the slots of each request's tokens, in order; what is beyond a request's
                   length is garbage
req_pool_indices   (batch,) int64: which row of req_to_token is whose
seq_lens           (batch,) int64: tokens of each request, at least 1
page_size          slots per page: page p holds the slots p * page_size to (p + 1) * page_size - 1. Whole pages are
                   handed out, so a request's token k * page_size is always the first on its page
"""

import numpy as np


def page_table(req_to_token, req_pool_indices, seq_lens, page_size):
    """Page numbers of each request in the order of its tokens.

    Returns:
        (batch, most pages of a request) int32; rows of shorter requests end with -1.
    """
    raise NotImplementedError


def kv_indices(req_to_token, req_pool_indices, seq_lens, page_size):
    """The same as FlashInfer reads it.

    Returns:
        [kv_indptr (batch + 1,), kv_indices (pages of the batch,), last_page_len (batch,)], int32: request i's pages are
        kv_indices[kv_indptr[i] : kv_indptr[i + 1]], and last_page_len[i] tokens lie on the last of them.
    """
    return [np.zeros(0, np.int32)] * 3
