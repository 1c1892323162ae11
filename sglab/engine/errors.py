"""The engine's refusals: each says what was expected, what came and what to do, and nothing has changed."""


class BadArgumentError(ValueError):
    """An argument that no call could serve: a wrong shape, dtype, length or page size."""

    def __init__(self, argument: str, expected: str, got: object, remedy: str) -> None:
        self.argument = argument
        super().__init__(f"{argument}: expected {expected}, got {got}. {remedy}")


class PoolExhaustedError(RuntimeError):
    """A request slot or KV slots were asked for that the pools do not have. Everything allocated stays as it was."""

    def __init__(self, pool: str, needed: int, available: int, unit: str, remedy: str) -> None:
        self.pool, self.needed, self.available = pool, needed, available
        super().__init__(f"{pool} is exhausted: {needed} {unit} needed, {available} available. {remedy}")


class PageTableError(ValueError):
    """A request's row of the page table (`req_to_token`) is too short, misaligned or points outside the KV pool."""


class NonFiniteKVError(ValueError):
    """A KV pool holds NaN or infinity. Masked rows of V are still multiplied (by P = 0), and 0 x NaN = NaN."""
