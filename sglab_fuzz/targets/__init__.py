"""One module per target; each has `target(device)`."""
