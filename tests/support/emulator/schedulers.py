"""The orders in which the emulator can let warps go on."""

SCHEDULERS = ("fair", "random", "adversarial", "in_order")
