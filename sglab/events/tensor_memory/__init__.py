"""Tensor memory over a recorded launch: who wrote and who read each cell, and when."""
