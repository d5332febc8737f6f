"""What to do about whatever keeps a dangling parameter, by the recorder's kinds of holders."""

from __future__ import annotations

from snapviz.schema import UNEXPLAINED

__all__ = ["ADVICE", "advice_for"]

ADVICE = {
    "module": "A module still has it: shard that very module, and let no wrapper, copy or cache keep the module as it "
    "was before.",
    "optimizer": "Make the optimizer after sharding, or point its param_groups at the sharded parameters before its "
    "first step.",
    "optimizer_state": "An optimizer's state has it, as a key or a value: make the optimizer after sharding, or load "
    "its state anew for the sharded parameters.",
    "frame": "A local variable has it: del it, or let the function that has it return, before training begins.",
    "generator": "A suspended generator's local variable has it: run the generator to its end, close() it, or drop it.",
    "global": "A global has it: del it, or take the parameters out of it, once the model is sharded.",
    "closure": "An inner function captured it: drop that function, such as a hook, or have it look the parameter up "
    "when it runs.",
    "default": "A default argument has it: make the default None, and pass the parameter when it is called.",
    "function": "An attribute of a function has it, as functools.wraps copies those of a module: delete the attribute, "
    "or drop the function.",
    "class": "A class attribute has it: delete it from the class, or keep it in an instance that goes.",
    "autograd": "An autograd graph saved it: let go of the outputs and losses computed with it, or compute them under "
    "torch.no_grad().",
    "tensor": "Another tensor has it, as its gradient or an attribute: set that to None once the model is sharded.",
    "object": "An attribute of an object has it: set it to None once the model is sharded.",
    "container": "A list, tuple or dict that nothing in Python is seen to hold has it: look for what was given the "
    "parameters in one, an extension perhaps.",
    "view": "Its shard is a view of it, and keeps all of its memory: make the shard a copy, with clone(), before the "
    "original is released.",
    UNEXPLAINED: "No holder in Python explains these references: C++ may have them, as DDP's buckets, an autograd "
    "graph or an extension do.",
}
"""Kind of holder → one sentence: what a person can do, and nothing that only sometimes helps."""


def advice_for(kind: str) -> str:
    """The sentence for a kind; "" for one that is not known."""
    return ADVICE.get(kind, "")
