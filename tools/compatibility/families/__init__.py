"""The families of kernels: one adapter each, which knows how their host code is called and what is right."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version

from tools.compatibility.case import Case


@dataclass(frozen=True)
class Family:
    """Kernels of one project.

    Attributes:
        name: of the project.
        version: of the package that they came from.
    """

    name: str
    version: str
    cases: Sequence[Case]


class AbsentError(Exception):
    """The family's package is not installed; the text says which."""


def installed(package: str) -> str:
    """The version of a package, as "package 1.2".

    Raises:
        AbsentError: it is not installed.
    """
    try:
        return f"{package} {version(package)}"
    except PackageNotFoundError:
        raise AbsentError(f"pip install {package}") from None


def _family(module: str) -> Callable[[], Family]:
    return lambda: import_module(f"{__name__}.{module}").family()


FAMILIES: dict[str, Callable[[], Family]] = {
    name: _family(name)
    for name in (
        "liger",
        "flag_gems",
        "cub",
        "flashinfer",
        "flashinfer_cute",
        "flash_mla",
        "cutlass",
        "cute_examples",
        "quack",
        "flash_attention",
        "linear_attention",
        "cuda_samples",
        "triton_tutorials",
    )
}
