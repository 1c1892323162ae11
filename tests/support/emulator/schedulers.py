"""The orders in which the emulator can let warps continue."""

SCHEDULERS = ("fair", "random", "adversarial", "in_order")
