"""Backends of vendors whose chips are not at hand: their real index arrays, constraints and workspaces; their
arithmetic through Triton or PyTorch under the same contract."""
