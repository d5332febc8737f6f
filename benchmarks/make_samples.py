#!/usr/bin/env python3
"""Writes sample_snapshots/ from recordings with torch's counters beside them.

    python benchmarks/make_samples.py SOURCE [-o sample_snapshots]

SOURCE holds NAME_rankR.pickle.xz (``torch.cuda.memory._snapshot()``, pickled) and NAME_rankR.json (phases,
counters, names by address). The pickles' bytes are kept as they are and compressed again as zstandard;
the JSON becomes a manifest and rank records. What is worked out rather than copied is said in
``_full_parameters`` and ``_state_name``.
"""

from __future__ import annotations

import argparse
import json
import lzma
import pickle
import re
from pathlib import Path
from typing import Any

import zstandard

from snapviz.schema import RANK_VERSION, RUN_VERSION, RankRecord, RunManifest

DEVICE = "NVIDIA H200"

RUNS: dict[str, dict[str, Any]] = {
    "main": {
        "source": "thunder_release",
        "ranks": (0, 1),
        "packages": {"lightning-thunder": "0.2.6"},
        "settings": {"release_original_parameters": True},
    },
    "pr": {
        "source": "thunder_keep",
        "ranks": (0, 1),
        "packages": {"lightning-thunder": "0.2.6"},
        "settings": {"release_original_parameters": False},
    },
    "fsdp2_after": {
        "source": "fake8_after",
        "ranks": (0,),
        "world_size": 8,
        "settings": {"optimizer": "AdamW, made after fully_shard"},
        "fake_process_group": True,
    },
    "fsdp2_before_notfixed": {
        "source": "fake8_before_notfixed",
        "ranks": (0,),
        "world_size": 8,
        "settings": {"optimizer": "AdamW, made before fully_shard"},
        "fake_process_group": True,
    },
}

_BEFORE_SHARDING = "materialize"
"""The phase at whose end the recordings read the full parameters' addresses."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path, help="folder of NAME_rankR.pickle.xz and NAME_rankR.json")
    parser.add_argument("-o", "--output", type=Path, default=Path(__file__).parents[1] / "sample_snapshots")
    args = parser.parse_args()
    for name, how in RUNS.items():
        write_run(args.source, args.output / name, name, how)
        print(f"{args.output / name}")


def write_run(source: Path, target: Path, name: str, how: dict[str, Any]) -> None:
    """One run directory: a manifest, and a snapshot and a record for each rank."""
    target.mkdir(parents=True, exist_ok=True)
    metrics: dict[str, float] = {}
    settings: dict[str, Any] = {}
    torch = None
    for rank in how["ranks"]:
        stem = f"{how['source']}_rank{rank}"
        pickled = lzma.decompress((source / f"{stem}.pickle.xz").read_bytes())
        known = json.loads((source / f"{stem}.json").read_text())
        world = int(known.get("WORLD_SIZE") or how["world_size"])
        # these are our own recordings: nothing in snapviz itself ever unpickles
        snapshot = pickle.loads(pickled)
        device = next(i for i, trace in enumerate(snapshot["device_traces"]) if trace)
        settings, torch = snapshot["allocator_settings"], known["torch"]
        record = rank_record(rank, world, device, known)
        (target / f"rank{rank:05d}.pickle.zst").write_bytes(zstandard.ZstdCompressor(level=19).compress(pickled))
        (target / f"rank{rank:05d}.json").write_text(record.model_dump_json(indent=1, exclude_none=True) + "\n")
        if "tokens_per_s" in known:
            metrics["tokens_per_s"] = round(known["tokens_per_s"], 1)
    manifest = RunManifest(
        schema_version=RUN_VERSION,
        name=name,
        world_size=world,
        recorded_ranks=tuple(how["ranks"]),
        torch=torch,
        device=DEVICE,
        allocator_settings=settings,
        packages=how.get("packages", {}),
        settings=how["settings"],
        fake_process_group=how.get("fake_process_group"),
        metrics=metrics,
    )
    (target / "run.json").write_text(manifest.model_dump_json(indent=1, exclude_none=True) + "\n")


def rank_record(rank: int, world: int, device: int, known: dict[str, Any]) -> RankRecord:
    """The record of one rank from the JSON beside its recording."""
    phases = [
        {
            "name": phase["name"],
            "start_us": phase["t0"],
            "stop_us": phase["t1"],
            "counters": {f"{key}_bytes": phase[key] for key in phase if key.startswith(("peak_", "end_"))},
        }
        for phase in known["phases"]
    ]
    before = next((p for p in phases if p["name"] == _BEFORE_SHARDING), None)
    boundaries = []
    if before is not None and known.get("full_params"):
        names = _full_parameters(known, world)
        boundaries.append({"time_us": before["stop_us"], "phase": before["name"], "names": names})
    last = phases[-1]
    boundaries.append({"time_us": last["stop_us"], "phase": last["name"], "names": _named_at_end(known)})
    document = {
        "schema_version": RANK_VERSION,
        "rank": rank,
        "world_size": world,
        "device": device,
        "device_name": DEVICE,
        "torch": known["torch"],
        "history": {"first_allocation": True, "context": "all", "stacks": "python"},
        "phases": phases,
        "boundaries": boundaries,
    }
    if "tokens_per_s" in known:
        document["metrics"] = {"tokens_per_s": round(known["tokens_per_s"], 1)}
    return RankRecord.model_validate_json(json.dumps(document))


def _full_parameters(known: dict[str, Any], world: int) -> list[dict[str, Any]]:
    """The parameters before sharding. The recordings hold address and bytes only: dtype and shape are
    those of the shard with its first dimension ``world`` times as long, where the bytes then fit."""
    names = []
    for name, (address, nbytes) in known["full_params"].items():
        entry = {"kind": "parameter", "name": name, "address": address, "nbytes": nbytes}
        shard = known["named"].get(f"param:{name}")
        if shard is not None and shard[3] and shard[1] * world == nbytes:
            entry |= {"dtype": shard[2], "shape": [shard[3][0] * world, *shard[3][1:]]}
        names.append(entry)
    return names


def _named_at_end(known: dict[str, Any]) -> list[dict[str, Any]]:
    sharded = bool(known.get("full_params"))
    kinds = {"param": "shard" if sharded else "parameter", "opt": "optimizer_state", "optparam": "optimizer_param"}
    owners = _optimizer_order(known)
    names = []
    for key, (address, nbytes, dtype, shape) in known["named"].items():
        kind, _, name = key.partition(":")
        if kind == "opt":
            name = _state_name(name, owners)
        elif kind == "optparam":
            name = owners.get(int(name.partition(".")[2]), name)
        names.append(
            {"kind": kinds[kind], "name": name, "address": address, "nbytes": nbytes, "dtype": dtype, "shape": shape}
        )
    return names


def _optimizer_order(known: dict[str, Any]) -> dict[int, str]:
    """Position in the optimizer's only param group → the parameter of that address, whole or shard."""
    by_address = {entry[0]: key.removeprefix("param:") for key, entry in known["named"].items() if key[:6] == "param:"}
    by_address |= {entry[0]: name for name, entry in known.get("full_params", {}).items() if entry[0] not in by_address}
    found = {}
    for key, entry in known["named"].items():
        if (match := re.fullmatch(r"optparam:g0\.(\d+)", key)) and entry[0] in by_address:
            found[int(match[1])] = by_address[entry[0]]
    return found


def _state_name(name: str, owners: dict[int, str]) -> str:
    """``3.exp_avg`` is the state of the third parameter: named by it, as a recorder would."""
    index, _, key = name.partition(".")
    return f"{owners[int(index)]}.{key}" if int(index) in owners else name


if __name__ == "__main__":
    main()
