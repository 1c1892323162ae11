"""The index kernels in plain Python, one request at a time."""

from __future__ import annotations

from sglab.kernels.kv_indices.contract import FlashInferArguments, FlashMLAIndicesArguments, request_ranges


def flashinfer(arguments: FlashInferArguments) -> tuple[()]:
    offsets = arguments.kv_indptr.tolist()
    for (row, length, start), offset in zip(request_ranges(arguments), offsets, strict=False):
        arguments.kv_indices[offset : offset + length] = arguments.req_to_token[row, start : start + length]
    return ()


def flashmla(arguments: FlashMLAIndicesArguments) -> tuple[()]:
    page = arguments.page_size
    for request, (row, length, start) in enumerate(request_ranges(arguments)):
        first_slots = arguments.req_to_token[row, start : start + length : page]
        arguments.kv_indices[request, : len(first_slots)] = first_slots // page
    return ()
