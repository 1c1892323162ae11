"""The front end searched with coverage guidance: a native target for libFuzzer, built with clang where there is one.

`build` compiles the core with instrumentation and sanitizers, `seeds` writes what the search begins with and the words
its mutator draws from, `search` runs it and turns crashes into findings.
"""
