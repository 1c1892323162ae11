"""docs/emulator/instructions.md lists what the strict table holds."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


def test_coverage_table_is_up_to_date() -> None:
    ran = subprocess.run([sys.executable, "docs/update_coverage.py", "--check"], cwd=ROOT, env={"PYTHONPATH": "."})
    assert ran.returncode == 0
