"""Facts about two runs: what is put beside what, and the rows that explain the difference."""
