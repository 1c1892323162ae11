"""The compiled core under one name, `core.Machine(...)`: loaded at first use; importing sglab does not wait for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sglab.gpu.errors import GpuError


class NoEmulatorError(GpuError):
    """The compiled core is missing."""


if TYPE_CHECKING:
    from sglab._core import *  # noqa: F403
else:

    def __getattr__(name: str) -> Any:
        if name.startswith("__"):  # what the import system asks every module for
            raise AttributeError(name)
        try:
            from sglab import _core
        except ImportError as error:
            raise NoEmulatorError(
                f"sglab's compiled core is missing ({error}); run `python3 start.py install`"
            ) from None
        globals()[name] = value = getattr(_core, name)  # the next time it is found without asking
        return value
