"""The command line: one module a command, its docstring its ``--help``."""
