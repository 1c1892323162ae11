"""Links that open the course on Binder and Colab, for a repository on GitHub, as Markdown.

python deploy/cloud/links.py OWNER/REPOSITORY [--branch main]
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from urllib.parse import quote

NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"


def binder(repository: str, branch: str) -> str:
    """Binder builds `binder/` and opens the first notebook."""
    first = quote("lab/tree/notebooks/00_start_here.ipynb", safe="")
    return f"https://mybinder.org/v2/gh/{repository}/{quote(branch, safe='')}?urlpath={first}"


def colab(repository: str, branch: str, notebook: str) -> str:
    """Colab opens one notebook; `setup_cell` must run in it first."""
    return f"https://colab.research.google.com/github/{repository}/blob/{quote(branch)}/notebooks/{notebook}"


def setup_cell(repository: str, branch: str) -> str:
    """What Colab's machine needs: it has torch and a compiler."""
    return f"%pip install -q 'sglab[kernels] @ git+https://github.com/{repository}@{branch}'"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("repository")
    parser.add_argument("--branch", default="main")
    options = parser.parse_args()
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", options.repository):
        parser.error(f"repository: expected OWNER/REPOSITORY; got {options.repository!r}")
    print(f"- [Binder]({binder(options.repository, options.branch)})")
    for notebook in sorted(NOTEBOOKS.glob("*.ipynb")):
        print(f"- [{notebook.stem} on Colab]({colab(options.repository, options.branch, notebook.name)})")
    print(f"\nFirst cell on Colab:\n\n    {setup_cell(options.repository, options.branch)}")


if __name__ == "__main__":
    main()
