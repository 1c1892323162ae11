"""What the fuzz harness once found, minimised: none of it comes back."""

from pathlib import Path

import pytest

pytest.importorskip("torch")

from sglab_fuzz import findings, process

FILES = sorted(findings.FOLDER.glob("*.json"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_finding_does_not_come_back(path: Path) -> None:
    name, text = findings.read(path)
    found = process.run_text(name, "cpu", text)
    assert found is None, f"{found['signature']}: {found['message']}"
