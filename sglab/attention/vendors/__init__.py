"""Backends of vendors whose chips nobody has here: their real index arrays, constraints and workspaces; their
arithmetic through Triton or PyTorch under the same contract."""
