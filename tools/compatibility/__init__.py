"""The compatibility table: kernels that were not written here, each run on the emulator and held against float64.

    python -m tools.compatibility                         # every family that is installed
    python -m tools.compatibility --family liger --only softmax
    python -m tools.compatibility --list

Kernels come from packages that whoever makes the table has installed; nothing of them is in this repository. Rows
are kept in docs/compatibility.json, and docs/compatibility.md shows them.
"""
