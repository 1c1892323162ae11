"""The parameters of FlashInfer's wrappers, read from its sources without importing them (they need a GPU).

python -m tests.attention.golden.read_flashinfer_signatures FOLDER: prints the JSON, of the package in FOLDER.
"""

from __future__ import annotations

import ast
import json
import sys
from pathlib import Path

WRAPPERS = {
    "BatchDecodeWithPagedKVCacheWrapper": "decode.py",
    "BatchPrefillWithPagedKVCacheWrapper": "prefill.py",
    "BatchMLAPagedAttentionWrapper": "mla/_batch_mla/_wrapper.py",
    "MLAPlanMetadata": "mla/_batch_mla/_contracts.py",
}
METHODS = ("__init__", "plan", "_plan_impl", "run", "csr")
"""Where plan takes others by name, _plan_impl names them."""

Signatures = dict[str, dict[str, list[str]]]


def signatures(package: Path) -> Signatures:
    """{class: {method: parameters after self}}; "**" stands for any others by name."""
    made: Signatures = {}
    for name, file in WRAPPERS.items():
        tree = ast.parse((package / file).read_text())
        (wrapper,) = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name]
        functions = [node for node in wrapper.body if isinstance(node, ast.FunctionDef) and node.name in METHODS]
        made[name] = {node.name: _parameters(node.args) for node in functions}  # the last is no overload
    return made


def _parameters(arguments: ast.arguments) -> list[str]:
    named = [each.arg for each in (*arguments.args[1:], *arguments.kwonlyargs)]
    return [*named, *(["**"] if arguments.kwarg else [])]


if __name__ == "__main__":
    print(json.dumps(signatures(Path(sys.argv[1])), indent=1))
