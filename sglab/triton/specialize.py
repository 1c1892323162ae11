"""Which compiled form a launch needs: Triton's own specialisation of the arguments, without its GPU driver."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sglab.compilers.triton_aot import Specialization
from sglab.gpu.errors import LaunchError


@dataclass(frozen=True)
class Bound:
    """A launch's arguments, as Triton sees them.

    Attributes:
        values: by parameter, in order, defaults filled in.
        facts: (type, specialisation) of each.
        options: num_warps and its like, as given.
        key: distinguishes compiled forms of the kernel.
    """

    values: dict[str, Any]
    facts: list[tuple]
    options: dict[str, Any]
    key: str


class Specializer:
    """Binds a kernel's arguments and says what to compile it for.

    As on a GPU: integers equal to 1 become constants, addresses and integers divisible by 16 are compiled as such.
    """

    def __init__(self, kernel: Any, capability: int) -> None:
        from triton.backends.compiler import GPUTarget
        from triton.backends.nvidia.compiler import CUDAOptions
        from triton.compiler.compiler import make_backend
        from triton.runtime.jit import compute_cache_key, create_function_from_signature

        self._kernel = kernel
        self._backend = make_backend(GPUTarget("cuda", capability, 32))
        self._bind: Callable[..., Any] = create_function_from_signature(kernel.signature, kernel.params, self._backend)
        self._options = frozenset(CUDAOptions.__dataclass_fields__)
        self._cache_key = compute_cache_key
        self._keys: dict[Any, str] = {}

    def bind(self, args: tuple, kwargs: dict[str, Any]) -> Bound:
        """Binds the arguments.

        Raises:
            LaunchError: an argument is missing, unknown, or of a type that Triton does not take.
        """
        try:
            values, facts, options = self._bind(*args, **kwargs)
        except TypeError as error:
            raise LaunchError(self._explain(args, kwargs, error)) from None
        if not options.keys() <= self._options:
            unknown = min(options.keys() - self._options)
            expected = ", ".join(self._kernel.arg_names)
            raise LaunchError(f"{self._kernel.__name__}: no parameter or option '{unknown}'; parameters are {expected}")
        return Bound(values, facts, options, self._cache_key(self._keys, facts, options))

    def specialization(self, bound: Bound) -> Specialization:
        """Everything that Triton's compiler needs to know."""
        try:
            _, signature, constexprs, attrs = self._kernel._pack_args(
                self._backend, bound.options, bound.values, bound.facts, None
            )
        except (AssertionError, ValueError) as error:
            raise LaunchError(f"{self._kernel.__name__}: {error}") from None
        return Specialization(signature, constexprs, attrs, bound.options, bound.key)

    def _explain(self, args: tuple, kwargs: dict[str, Any], error: TypeError) -> str:
        names = self._kernel.arg_names
        try:
            bound = self._kernel.signature.bind(*args, **{name: one for name, one in kwargs.items() if name in names})
        except TypeError as wrong:
            return f"{self._kernel.__name__}({', '.join(names)}): {wrong}"
        fixed = {param.name for param in self._kernel.params if param.is_constexpr}
        for name, value in bound.arguments.items():
            if name not in fixed and (found := _unfit(name, value)) is not None:
                return f"{self._kernel.__name__}, {found[0]}: {_expected(*found)}"
        return f"{self._kernel.__name__}({', '.join(names)}): {error}"


def _unfit(name: str, value: Any) -> tuple[str, Any] | None:
    """The argument, or the part of a tuple, that Triton has no type for."""
    if isinstance(value, tuple):
        parts = (_unfit(f"{name}[{index}]", one) for index, one in enumerate(value))
        return next((part for part in parts if part is not None), None)
    plain = value is None or type(value) in (bool, int, float)
    return None if plain or hasattr(value, "data_ptr") or _is_tritons(value) else (name, value)


def _is_tritons(value: Any) -> bool:
    """A function to call, a constexpr, a tensor descriptor."""
    return type(value).__module__.startswith("triton.") or hasattr(value, "block_shape")


def _expected(name: str, value: Any) -> str:
    kind = type(value)
    called = kind.__name__ if kind.__module__ in ("builtins", "__main__") else f"{kind.__module__}.{kind.__name__}"
    remedy = f"declare {name.partition('[')[0]}: tl.constexpr if it is for the compiler"
    if kind is list:
        remedy = f"pass torch.tensor({name}), or a tuple"
    elif kind.__module__ == "numpy" and getattr(value, "ndim", None) == 0:
        remedy = f"pass {name}.item()"
    elif kind.__module__ == "numpy":
        remedy = f"pass torch.from_numpy({name})"
    wanted = "a tensor, an int, a float, a bool, None, or a tuple of these"
    return f"expected {wanted}; got {called}. {remedy[:1].upper()}{remedy[1:]}"


@functools.cache
def language_is_interpreted() -> bool:
    """Whether TRITON_INTERPRET was set when Triton was imported: then its library cannot be compiled here."""
    import triton.language as tl
    from triton.runtime.jit import JITFunction

    return not isinstance(tl.sum, JITFunction)
