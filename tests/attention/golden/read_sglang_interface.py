"""Reads SGLang's AttentionBackend from its wheels and writes the golden lists that the adapters are held to.

pip download --no-deps sglang==0.5.9 && pip download --no-deps sglang==0.5.23
python read_sglang_interface.py sglang-0.5.9-*.whl sglang-0.5.23-*.whl
"""

import ast
import inspect
import json
import sys
import zipfile
from pathlib import Path

MODULE = "sglang/srt/layers/attention/base_attn_backend.py"
OUT = Path(__file__).with_name("sglang_interface.json")


def signature(function: ast.FunctionDef) -> str:
    """A method's parameters with their defaults, without annotations: "(self, bs, in_capture=False)"."""
    for argument in ast.walk(function.args):
        if isinstance(argument, ast.arg):
            argument.annotation = None
    scope: dict = {}
    exec(f"def method({ast.unparse(function.args)}): ...", scope)
    return str(inspect.signature(scope["method"]))


def interface(source: str) -> dict[str, dict]:
    """Public methods with their parameters, properties, and class attributes with their values."""
    tree = ast.parse(source)
    (found,) = (node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "AttentionBackend")
    methods, properties, attributes = {}, [], {}
    for node in found.body:
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            if any(isinstance(mark, ast.Name) and mark.id == "property" for mark in node.decorator_list):
                properties.append(node.name)
            else:
                methods[node.name] = signature(node)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
            target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
            attributes[ast.unparse(target)] = ast.literal_eval(node.value)
    return {"methods": methods, "properties": properties, "attributes": attributes}


def main(wheels: list[str]) -> None:
    golden = {}
    for wheel in wheels:
        name, version = Path(wheel).name.split("-")[:2]
        with zipfile.ZipFile(wheel) as archive:
            source = f"{name} {version}, {MODULE}"
            golden[version] = {"source": source, **interface(archive.read(MODULE).decode())}
    OUT.write_text(json.dumps(golden, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
