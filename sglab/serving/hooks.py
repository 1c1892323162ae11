"""register_forward_hooks: functions that look at modules as they run. Source: SGLang `model_executor/hook_manager.py`.

Where SGLang only warns (a pattern that matches no module, a factory that gives no hook), this raises.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

from torch import nn
from torch.utils.hooks import RemovableHandle

from sglab.engine.errors import BadArgumentError

FIELDS = ("name", "target_modules", "hook_factory", "config")


def register_forward_hooks(model: nn.Module, hook_specs: Sequence[Mapping[str, Any]]) -> list[RemovableHandle]:
    """Attach hooks to the modules that patterns name.

    Args:
        hook_specs: each with target_modules, patterns of module names such as "model.layers.*.mlp"; hook_factory, a
            function or "module:function", which is called with config and returns hook(module, args, output); and
            name, for messages.

    Returns:
        A handle per module, whose `remove()` takes the hook off again.

    Raises:
        BadArgumentError: a spec without patterns or factory, a pattern that matches nothing, a factory that cannot be
            imported or gives no hook. Nothing was registered.
    """
    modules = dict(model.named_modules())
    found = [(hook, module) for spec in hook_specs for hook, module in _resolve(spec, modules)]
    return [module.register_forward_hook(hook) for hook, module in found]


def _resolve(spec: Mapping[str, Any], modules: Mapping[str, nn.Module]) -> list[tuple[Any, nn.Module]]:
    """The hook of a spec, once for each module that it is for."""
    name = spec.get("name", "")
    for field in spec:
        if field not in FIELDS:
            raise BadArgumentError(f"hook {name!r}", f"fields among {', '.join(FIELDS)}", repr(field), "Leave it out.")
    patterns = spec.get("target_modules") or ()
    if isinstance(patterns, str) or not patterns:
        example = 'Pass a list such as ["model.layers.*.mlp"].'
        raise BadArgumentError(f"hook {name!r}: target_modules", "patterns of module names", repr(patterns), example)
    matched = [one for path, one in modules.items() if any(fnmatch.fnmatch(path, each) for each in patterns)]
    if not matched:
        some = ", ".join(list(modules)[1:6])
        raise BadArgumentError(
            f"hook {name!r}: target_modules", "a pattern that matches a module", repr(patterns), f"There are {some} …"
        )
    factory = _callable(name, spec.get("hook_factory"))
    hook = factory(spec.get("config") or {})
    if not callable(hook):
        remedy = "Return a function hook(module, args, output)."
        raise BadArgumentError(f"hook {name!r}: hook_factory", "a factory that returns a hook", repr(hook), remedy)
    return [(hook, module) for module in matched]


def _callable(name: str, factory: object) -> Callable[[Mapping[str, Any]], Any]:
    if callable(factory):
        return factory
    module, colon, attribute = factory.partition(":") if isinstance(factory, str) else ("", "", "")
    try:
        if colon:
            return getattr(import_module(module), attribute)
        got = repr(factory)
    except (ImportError, AttributeError) as error:
        got = f"{factory!r} ({error})"
    raise BadArgumentError(f"hook {name!r}: hook_factory", "a function or 'module:function'", got, "Mend the path.")
