"""Clients of the GPU queue, as processes of their own."""
