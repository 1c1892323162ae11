"""FlashAttention-3's number of splits, from its own header, compiled for the host.

    python -m tests.planning.golden.make_fa3_num_splits [--check]

takes hopper/heuristics.h of flash-attention 0251105a (no wheel of PyPI has it) and needs g++. The cases are those of
the golden file: add arguments there and run it again.
"""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

from tests.planning.golden import files
from tests.planning.golden.upstream import checkout

COMMIT = "0251105a"
SOURCE = (
    f"flash-attention {COMMIT} hopper/heuristics.h num_splits_heuristic, compiled: arguments in order, then the result"
)
DRIVER = """
#include <algorithm>
#include <cmath>
#include <cstdio>
#include "heuristics.h"
int main() {
  int m, sms, n, blocks, bytes, causal, most;
  while (std::scanf("%d %d %d %d %d %d %d", &m, &sms, &n, &blocks, &bytes, &causal, &most) == 7)
    std::printf("%d\\n", num_splits_heuristic(m, sms, n, blocks, bytes, causal != 0, most));
}
"""


def make() -> dict[str, str]:
    arguments = [case[:7] for case in files.cases("fa3_num_splits")]
    header = checkout("Dao-AILab/flash-attention", COMMIT, "hopper/heuristics.h") / "hopper"
    with tempfile.TemporaryDirectory() as folder:
        source, program = Path(folder, "driver.cpp"), Path(folder, "driver")
        source.write_text(DRIVER)
        subprocess.run(["g++", "-std=c++17", "-O1", f"-I{header}", str(source), "-o", str(program)], check=True)
        asked = "\n".join(" ".join(map(str, case)) for case in arguments)
        answers = subprocess.run([program], input=asked, capture_output=True, text=True, check=True).stdout.split()
    made = [[*case, int(answer)] for case, answer in zip(arguments, answers, strict=True)]
    return {"fa3_num_splits": files.text(SOURCE, made)}


if __name__ == "__main__":
    files.main(__doc__, make)
