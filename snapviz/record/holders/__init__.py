"""Who keeps a parameter's storage after it should have been released.

A search through the references of the running process: tensors by storage (``index``), what autograd keeps
(``graph``), the locals of running functions (``frames``), then back from the tensors through what holds them
(``climb``, ``edges``), in words that a person can act on (``paths``), and what is left over (``counts``).
"""

from snapviz.record.holders.search import Found, Holder, Target, find_holders

__all__ = ["Found", "Holder", "Target", "find_holders"]
