"""Small number formats as plain torch: what a quantised tensor's bytes and scales mean, and how values are rounded."""
