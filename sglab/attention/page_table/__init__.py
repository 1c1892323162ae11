"""Backends whose kernels read a page table: int32 [requests, pages] beside lengths and cumulative lengths."""
