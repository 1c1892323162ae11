"""Calls of a submission's functions and of its objects' methods, by a script that the grader wrote.

A script is a list of steps [what, name, args]. what is "call" (a function of the file), "new" (a class of the file), or
the number of an earlier step whose result is an object: then name is its method. An argument {"ref": n} stands for the
result of step n. Every step gives {"value": …} or {"error": …}; objects stay here, and give {"object": class}.
"""

from __future__ import annotations

import builtins
import linecache
import sys
import traceback
import types
from typing import Any

from . import wire

NAME = "submission"


class Blocked:
    """Finds no module of a package that the exercise is to be solved without."""

    def __init__(self, packages: list[str]) -> None:
        self._packages = packages

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if name.partition(".")[0] in self._packages:
            raise ImportError(f"{name}: this exercise is to be solved without it")


def run(payload: dict[str, Any]) -> dict[str, Any]:
    """Executes the file, then the script.

    Args:
        payload: source, file (its name), script, blocked (packages).

    Returns:
        steps: one per step of the script; error: why the file itself failed, else empty.
    """
    if payload["blocked"]:
        sys.meta_path.insert(0, Blocked(payload["blocked"]))
    try:
        return _played(payload)
    finally:
        sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, Blocked)]


def _played(payload: dict[str, Any]) -> dict[str, Any]:
    try:
        module = load(payload["source"], payload["file"])
    except MemoryError:
        raise
    except BaseException as error:
        return {"steps": [], "error": shown(error, payload["file"])}
    kept: list[Any] = []
    answers: list[dict[str, Any]] = []
    for what, name, args in payload["script"]:
        answers.append(_step(module, kept, answers, what, name, args, payload["file"]))
    return {"steps": answers, "error": ""}


def load(source: str, file: str) -> types.ModuleType:
    """The file as a module; errors show its lines."""
    module = types.ModuleType(NAME)
    module.__dict__.update({"__builtins__": builtins, "__file__": file})
    sys.modules[NAME] = module
    linecache.cache[file] = (len(source), None, source.splitlines(True), file)
    exec(compile(source, file, "exec"), module.__dict__)
    return module


def shown(error: BaseException, file: str) -> str:
    """The error with the line of the student's file."""
    lines = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    where = f"{file}:{lines[-1].lineno}: " if lines else ""
    return (where + "".join(traceback.format_exception_only(type(error), error)).strip())[:2000]


def _step(
    module: types.ModuleType, kept: list[Any], answers: list[dict[str, Any]], what: Any, name: str, args: Any, file: str
) -> dict[str, Any]:
    kept.append(None)
    failed = [n for n in [what, *_references(args)] if isinstance(n, int) and "error" in answers[n]]
    if failed:
        return {"error": f"step {failed[0]} failed before", "after": True}
    try:
        owner = kept[what] if isinstance(what, int) else module
        if not hasattr(owner, name):
            return {"error": f"there is no {name} in {file}" if owner is module else f"it has no method {name}"}
        result = getattr(owner, name)(*_filled(args, kept))
        kept[-1] = result
        if what == "new":
            return {"object": type(result).__name__}
        wire.encode(result)
        return {"value": _copied(result)}
    except MemoryError:
        raise
    except Exception as error:
        return {"error": shown(error, file), "type": type(error).__name__}


def _copied(value: Any) -> Any:
    """As it is now: the submission may change it later."""
    if isinstance(value, (list, tuple)):
        return [_copied(item) for item in value]
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    return value.copy() if hasattr(value, "dtype") and hasattr(value, "copy") else value


def _references(args: Any) -> list[int]:
    if isinstance(args, dict):
        return [args["ref"]] if "ref" in args else []
    return [number for arg in args for number in _references(arg)] if isinstance(args, list) else []


def _filled(args: Any, kept: list[Any]) -> Any:
    if isinstance(args, dict) and "ref" in args:
        return kept[args["ref"]]
    if isinstance(args, list):
        return [_filled(arg, kept) for arg in args]
    return args.copy() if hasattr(args, "dtype") else args
