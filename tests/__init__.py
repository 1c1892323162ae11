"""The tests, in folders that mirror the package's rooms; what several of them use lies in tests/support."""
