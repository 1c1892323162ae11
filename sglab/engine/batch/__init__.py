"""Requests and the batches made of them: what one forward pass works on."""
