"""SGLang's dynamic number of KV splits: its own Triton kernel, cut out of the wheel and run by Triton's interpreter.

    python -m tests.planning.golden.make_num_kv_splits [--check]

reads sglang 0.5.9 from PyPI and needs torch and Triton. The cases are those of the golden file: add arguments there and
run it again.
"""

from __future__ import annotations

import ast
import importlib.util
import os
import tempfile
from pathlib import Path
from typing import Any

from tests.planning.golden import files
from tests.planning.golden.upstream import wheel

VERSION = "0.5.9"
SOURCE = f"SGLang {VERSION} get_num_kv_splits_triton under Triton's interpreter"
MODULE, KERNEL = "sglang/srt/layers/attention/triton_backend.py", "get_num_kv_splits_triton"


def kernel(folder: Path) -> Any:
    """The kernel alone: the rest of its module imports the whole of SGLang."""
    text = (wheel(f"sglang=={VERSION}", MODULE) / MODULE).read_text()
    tree = ast.parse(text)
    (found,) = (node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == KERNEL)
    lines = text.splitlines()[found.decorator_list[0].lineno - 1 : found.end_lineno]
    file = folder / "kernel.py"
    file.write_text("\n".join(["import triton", "import triton.language as tl", *lines]) + "\n")
    spec = importlib.util.spec_from_file_location("sglang_kernel", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, KERNEL)


def make() -> dict[str, str]:
    os.environ["TRITON_INTERPRET"] = "1"  # before Triton is imported
    import torch
    import triton

    made = []
    with tempfile.TemporaryDirectory() as folder:
        run = kernel(Path(folder))
        for case in files.cases("num_kv_splits"):
            args = case["args"]
            lens = torch.tensor(args["seq_lens"], dtype=torch.int32)
            splits = torch.full((lens.numel() * args["num_group"],), -1, dtype=torch.int32)
            run[(1,)](
                splits,
                lens,
                lens.numel(),
                args["num_group"],
                args["num_head"],
                args["num_kv_head"],
                args["max_kv_splits"],
                args["device_core_count"],
                MAX_NUM_SEQ=triton.next_power_of_2(lens.numel()),
            )
            made.append({"args": args, "expected": splits.tolist()})
    return {"num_kv_splits": files.text(SOURCE, made)}


if __name__ == "__main__":
    files.main(__doc__, make)
