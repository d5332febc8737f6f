"""Bytes to columns: opening a path, decoding it, the column model, the cache."""
