"""What tests share, by noun. No test imports another test's module: what two need moves here."""
