"""Sparse attention: an indexer or a few heavy channels choose the tokens that the large attention reads."""
