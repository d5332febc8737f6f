"""The four runs of accelerate's benchmarks/fsdp2, in its setting, on random tokens.

Qwen2.5-1.5B from its configuration in float32, a bfloat16 policy, AdamW, batches of 2×128 tokens. The optimizer is
made after ``fully_shard``; before it, and left with the parameters it was given; before it, and given the shards; or
all of it is accelerate's. Needs accelerate and transformers. Nothing in here knows of snapviz.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from typing import Any

import torch
from accelerate import Accelerator, FullyShardedDataParallelPlugin
from accelerate.utils import convert_outputs_to_fp32
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from transformers import Qwen2Config, Qwen2ForCausalLM

RUNS = (
    "torch_optimizer_after_fsdp",
    "torch_optimizer_before_fsdp_not_fixed",
    "torch_optimizer_before_fsdp_fixed",
    "accelerate",
)
LEARNING_RATE = 3e-5


def qwen(layers: int) -> Any:
    config = Qwen2Config(
        vocab_size=151_936,
        hidden_size=1_536,
        intermediate_size=8_960,
        num_hidden_layers=layers,
        num_attention_heads=12,
        num_key_value_heads=2,
        max_position_embeddings=32_768,
        rope_theta=1e6,
        tie_word_embeddings=True,
        max_window_layers=layers,
    )
    # on the CPU, as the benchmark has it: fully_shard moves it to the device. What the weights are is all the same
    with torch.device("meta"):
        model = Qwen2ForCausalLM(config).float()
    model.to_empty(device="cpu")
    with torch.no_grad():
        for tensor in (*model.parameters(), *model.buffers()):
            tensor.fill_(0.01)
    model.tie_weights()
    return model


def batches(accelerator: Any, vocabulary: int, steps: int) -> Iterator[dict[str, torch.Tensor]]:
    for _ in range(steps):
        tokens = torch.randint(vocabulary, (2, 128)).to(accelerator.device)
        yield {"input_ids": tokens, "labels": tokens}


def shard(model: Any) -> None:
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.bfloat16, output_dtype=torch.bfloat16)
    for layer in model.model.layers:
        fully_shard(layer, mp_policy=policy)
    fully_shard(model, mp_policy=policy)
    # accelerate returns outputs in float32, so that the others have to
    inner = model.forward

    def forward(*args: Any, **kwargs: Any) -> Any:
        with torch.autocast("cuda", dtype=torch.bfloat16):
            return inner(*args, **kwargs)

    model.forward = convert_outputs_to_fp32(forward)


def with_torch(run: str, layers: int) -> tuple[Any, Any, Any]:
    accelerator = Accelerator(mixed_precision="bf16")
    model = qwen(layers)
    if run == "torch_optimizer_after_fsdp":
        shard(model)
        return model, torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE), accelerator
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE)
    if run == "torch_optimizer_before_fsdp_not_fixed":
        shard(model)
        return model, optimizer, accelerator
    names = {param: name for name, param in model.named_parameters()}
    groups = [[names[param] for param in group["params"]] for group in optimizer.param_groups]
    del names
    for group in optimizer.param_groups:
        group["params"] = []
    shard(model)
    shards = dict(model.named_parameters())
    for group, wanted in zip(optimizer.param_groups, groups, strict=True):
        group["params"] = [shards[name] for name in wanted]
    return model, optimizer, accelerator


def with_accelerate(layers: int) -> tuple[Any, Any, Any]:
    plugin = FullyShardedDataParallelPlugin(
        fsdp_version=2,
        auto_wrap_policy="transformer_based_wrap",
        transformer_cls_names_to_wrap=["Qwen2DecoderLayer"],
    )
    accelerator = Accelerator(fsdp_plugin=plugin, mixed_precision="bf16")
    model = qwen(layers)
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE)
    model, optimizer = accelerator.prepare(model, optimizer)
    return model, optimizer, accelerator


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", choices=RUNS)
    parser.add_argument("--layers", type=int, default=28)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--backend", default="nccl", help="gloo lets several ranks share a device")
    args = parser.parse_args()
    device = int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count()
    torch.cuda.set_device(device)
    os.environ["LOCAL_RANK"] = str(device)  # accelerate chooses its device by it
    torch.distributed.init_process_group(args.backend)

    build = with_accelerate(args.layers) if args.run == "accelerate" else with_torch(args.run, args.layers)
    model, optimizer, accelerator = build
    vocabulary = model.config.vocab_size
    for batch in batches(accelerator, vocabulary, args.steps):
        optimizer.zero_grad()
        loss = model(**batch, use_cache=False).loss
        loss.item()
        accelerator.backward(loss)
        optimizer.step()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
