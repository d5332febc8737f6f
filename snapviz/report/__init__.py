"""Finished results as text and JSON: pure functions, nothing is computed here."""
