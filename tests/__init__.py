"""The tests, in folders that mirror the package's rooms; what several of them use is in tests/support."""
