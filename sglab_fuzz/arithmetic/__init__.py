"""Differential arithmetic: every mnemonic of the table's arithmetic families against oracles in numpy.

`soft` rounds; `integers`, `floats`, `halves`, `compare` and `convert` compute what a mnemonic gives, vectorised and
without the emulator; `forms` finds the oracle of every mnemonic of the instruction table; `operands` draws inputs.
Oracles take and give bits as uint64, whatever an operand's width.
"""
