from __future__ import annotations

import pytest

from snapviz.analyze.describe import dangling_of
from snapviz.analyze.facts import CATEGORIES, Facts, event_at
from snapviz.analyze.info import info
from snapviz.analyze.passes import analyze
from snapviz.analyze.select import curve_without
from snapviz.report.infotext import info_lines
from snapviz.schema import RankRecord
from tests.analyze.builders import MIB, Trace, frame, record, run_of

INIT = frame("__init__", "/v/site-packages/torch/nn/modules/linear.py")
SHARD = frame("_init_sharded_param", "/v/site-packages/torch/distributed/fsdp/_fsdp_param.py")


class Job:
    """A parameter of 40 MiB is made, sharded into 20 MiB, and released: in time, late or never."""

    def __init__(self, release: str, reuse: bool = False) -> None:
        self.trace = trace = Trace()
        start = trace.now
        self.full = trace.alloc(40, INIT)
        made = trace.tick()
        self.shard = trace.alloc(20, SHARD)
        if release == "in time":
            trace.free(self.full)
        sharded = trace.tick()
        trace.tick()
        trace.free(trace.alloc(40 if reuse else 60, frame("forward")))
        if release == "late":
            trace.free(self.full)
        trace.free(trace.alloc(100, frame("forward")))
        self.phases = [
            ("materialize", start, made),
            ("shard", made + 1, sharded),
            ("train/step0", sharded + 1, trace.now),
        ]
        self.before = (made, [("parameter", "w", self.full, 40 * MIB)])
        self.after = (trace.now, [("shard", "w", self.shard, 20 * MIB)])

    def record(self, **rest: object) -> RankRecord:
        return record(self.phases, [self.before, self.after], **rest)

    def facts(self, rank_record: RankRecord | None = None) -> Facts:
        snap = self.trace.snap()
        return analyze(0, snap.columns, snap.replay(0), rank_record or self.record())


def test_what_is_released_in_time_does_not_dangle_even_if_its_address_lives_on() -> None:
    assert Job("in time").facts().dangling == ()
    assert Job("in time", reuse=True).facts().dangling == ()


def test_what_is_never_released_dangles() -> None:
    holders = ({"parameter": "w", "path": "m.w ← m"}, {"parameter": "v", "path": "other"})
    job = Job("never")
    facts = job.facts(job.record(holders=holders))
    (one,) = facts.dangling
    assert (one.name, one.requested_bytes, one.block_bytes) == ("w", 40 * MIB, 40 * MIB)
    assert (one.should_go_in, one.gone_in, one.holders) == ("shard", None, ("m.w ← m",))
    assert facts.births[facts.birth[one.allocation]] == "materialize"
    assert facts.dangling_since[one.allocation] == one.since_event
    assert facts.phases.stop[1] - 1 == one.since_event


def test_what_an_optimizer_still_has_dangles_though_nothing_named_it_before_sharding() -> None:
    job = Job("never")
    time, shards = job.after
    kept = ("optimizer_param", "w", job.full, 40 * MIB)
    (one,) = job.facts(record(job.phases, [(time, [*shards, kept])])).dangling
    assert (one.name, one.block_bytes, one.should_go_in) == ("w", 40 * MIB, "shard")
    assert (one.holders, one.holder_kinds) == (("param_groups of an optimizer",), ("optimizer",))
    looked_for = ({"parameter": "w", "path": "optimizer.param_groups[0]", "kind": "optimizer"},)
    (one,) = job.facts(record(job.phases, [(time, [*shards, kept])], holders=looked_for)).dangling
    assert one.holders == ("optimizer.param_groups[0]",)
    # a name that no tensor of the module has any more: the other one of tied weights
    other = ("optimizer_param", "head.w", job.full, 40 * MIB)
    assert [one.name for one in job.facts(record(job.phases, [(time, [*shards, other])])).dangling] == ["head.w"]
    # an optimizer that has the shard, a master copy of its own, and a whole parameter in use
    for names in (
        [*shards, ("optimizer_param", "w", job.shard, 20 * MIB)],
        [*shards, ("optimizer_param", "AdamW.param_groups[0]['params'][0]", job.full, 40 * MIB)],
        [("shard", "v", job.shard, 20 * MIB), ("parameter", "w", job.full, 40 * MIB), kept],
        [*shards, ("unsharded", "_flat_param", job.full, 40 * MIB), kept],
    ):
        assert job.facts(record(job.phases, [(time, names)])).dangling == ()


def test_what_went_only_as_the_program_ended_was_never_released() -> None:
    job = Job("never")
    rank_record = job.record()
    job.trace.free(job.full)
    (one,) = job.facts(rank_record).dangling
    assert one.gone_in is None


def test_no_more_holders_are_told_than_one_can_read() -> None:
    holders = tuple({"parameter": "w", "path": f"{i}" + "m" * 5_000} for i in range(200))
    job = Job("never")
    (one,) = job.facts(job.record(holders=holders)).dangling
    assert len(one.holders) == 50
    assert one.holders[0] == "0" + "m" * 999 + "…"


def test_what_goes_late_says_when() -> None:
    (one,) = Job("late").facts().dangling
    assert one.gone_in == "train/step0"


def test_the_storage_still_in_use_is_not_left_behind() -> None:
    job = Job("never")
    in_use = (job.trace.now, [("parameter", "w", job.full, 40 * MIB)])
    assert job.facts(record(job.phases, [job.before, in_use])).dangling == ()


def test_what_an_all_gather_filled_is_no_original_and_nothing_in_use() -> None:
    job = Job("never")
    # before the sharding: no original, however whole it is
    gathered = (job.before[0], [("unsharded", "w", job.full, 40 * MIB)])
    facts = job.facts(record(job.phases, [gathered, job.after]))
    assert (facts.dangling, facts.dangling_known) == ((), False)
    assert facts.dangling_why == "the record names no parameters before sharding"
    # after it: an original that is called so is not in use, nor does another become one
    other = ("unsharded", "w", job.shard, 20 * MIB)
    used = (job.trace.now, [("shard", "w", job.shard, 20 * MIB), ("unsharded", "w", job.full, 40 * MIB), other])
    (one,) = job.facts(record(job.phases, [job.before, used])).dangling
    assert (one.name, one.allocation) == ("w", 0)
    # and names of that kind alone say nothing of what is still in use
    alone = (job.trace.now, [("unsharded", "w", job.shard, 20 * MIB)])
    in_use = (job.trace.now - 20, [("parameter", "w", job.full, 40 * MIB)])
    assert job.facts(record(job.phases, [job.before, in_use, alone])).dangling == ()


def test_what_could_not_be_explained_comes_last() -> None:
    def holder(path: str, kind: str | None) -> dict[str, object]:
        return {"parameter": "w", "path": path, "kind": kind}

    holders = (
        holder("2 references", "unexplained"),
        holder("m.w", "module"),
        holder("x", None),
        holder("m.w", "module"),
    )
    job = Job("never")
    (one,) = job.facts(job.record(holders=holders)).dangling
    assert one.holders == ("m.w", "x", "2 references")
    assert one.holder_kinds == ("module", "", "unexplained")
    # of all names that share the allocation
    tied = (job.before[0], [("parameter", name, job.full, 40 * MIB) for name in ("v", "w")])
    other = {"parameter": "v", "path": "1 reference", "kind": "unexplained"}
    (one,) = job.facts(record(job.phases, [tied, job.after], holders=(other, *holders[1:]))).dangling
    assert one.holders == ("m.w", "x", "1 reference")
    many = tuple(holder(f"m{i}", "module") for i in range(60))
    (one,) = job.facts(job.record(holders=(*holders[:1], *many))).dangling
    assert len(one.holders) == len(one.holder_kinds) == 50
    assert "unexplained" not in one.holder_kinds


def test_without_a_phase_named_shard_the_first_shards_say_when() -> None:
    job = Job("never")
    (one,) = job.facts(record([("train/step0", 0, job.trace.now)], [job.before, job.after])).dangling
    assert one.should_go_in == "the first boundary with shards"


def test_nothing_is_called_dangling_where_nothing_is_sharded_or_known() -> None:
    job = Job("never")
    assert job.facts(record([("train/step0", 0, job.trace.now)], [job.before])).dangling == ()
    facts = job.facts(record(job.phases, [job.after]))
    assert facts.dangling == ()
    assert (facts.dangling_known, facts.dangling_why) == (False, "the record names no parameters before sharding")


def test_the_curve_without_it_is_exact() -> None:
    facts = Job("late").facts()
    start, curve = curve_without(facts, facts.dangling_since)
    in_time = Job("in time").facts()
    # both jobs end alike, and the late one peaks as the other does once what dangles is taken out
    assert start == 0
    assert curve[-1] == in_time.replay.allocated_bytes[-1] == 20 * MIB
    since = facts.dangling[0].since_event
    assert curve[since] == 60 * MIB
    assert curve[since + 1 :].max() == 120 * MIB
    assert (curve <= facts.replay.allocated_bytes).all()


def test_bare_files_have_suspects_with_evidence_and_nothing_certain() -> None:
    snap = Job("never").trace.snap()
    facts = analyze(0, snap.columns, snap.replay(0))
    assert facts.dangling == ()
    (one,) = facts.suspects
    assert (one.requested_bytes, len(one.allocations)) == (40 * MIB, 1)
    assert one.evidence == (
        "made before the first shard or collective",
        "live at the end",
        "its stack: a module's constructor",
        "1 live later of 20,971,520 bytes, 1/2 of it",
    )


def test_no_suspect_without_its_reasons() -> None:
    for release in ("in time", "late"):
        snap = Job(release).trace.snap()
        assert analyze(0, snap.columns, snap.replay(0)).suspects == ()
    # no shard of a fitting size
    trace = Trace()
    trace.alloc(40, INIT)
    trace.alloc(60, INIT)
    trace.alloc(22, SHARD)
    snap = trace.snap()
    assert analyze(0, snap.columns, snap.replay(0)).suspects == ()


def test_two_suspects_need_two_shards() -> None:
    trace = Trace()
    trace.alloc(40, INIT)
    trace.alloc(40, INIT)
    trace.alloc(20, SHARD)
    snap = trace.snap()
    assert analyze(0, snap.columns, snap.replay(0)).suspects == ()
    trace.alloc(20, SHARD)
    snap = trace.snap()
    assert len(analyze(0, snap.columns, snap.replay(0)).suspects[0].allocations) == 2


def test_the_world_size_that_is_known_is_the_only_one_tried() -> None:
    snap = Job("never").trace.snap()
    assert analyze(0, snap.columns, snap.replay(0), world_size=2).suspects != ()
    assert analyze(0, snap.columns, snap.replay(0), world_size=4).suspects == ()


# ------------------------------------------------------------------ what a record can and cannot tell


def why(facts: Facts) -> str:
    assert not facts.dangling_known
    assert facts.dangling == ()
    return facts.dangling_why


def test_none_dangles_and_cannot_be_told_are_two_answers() -> None:
    good = Job("in time").facts()
    assert (good.dangling, good.dangling_known, good.dangling_why) == ((), True, "")
    job = Job("never")
    for known, words in ((Job("in time").record(), "dangling: none"), (None, "dangling: cannot be told: no record")):
        report = info(run_of(Job("in time").trace, records=[known]))
        rank = report.ranks[0]
        assert (rank.dangling_known, rank.dangling_why == "") == (known is not None, known is not None)
        assert any("".join(span.text for span in spans).startswith(words) for spans in info_lines(report, 200))
    snap = job.trace.snap()
    assert "no record" in why(analyze(0, snap.columns, snap.replay(0)))
    assert "no phase shard" in why(job.facts(record([("train/step0", 0, job.trace.now)], [job.before])))
    made, names = job.before
    nowhere = [(kind, name, 16, size) for kind, name, _, size in names]
    assert "lie in no allocation" in why(job.facts(record(job.phases, [(made, nowhere), job.after])))
    for event in job.trace.events:
        del event["time_us"]
    assert "no times" in why(job.facts())


def test_names_older_than_the_ring_tell_nothing_and_suspects_are_looked_for() -> None:
    job = Job("never")
    trace = job.trace
    # the first two events, which made the parameter, are overwritten
    trace.events = trace.events[2:]
    facts = job.facts()
    assert why(facts) == "the names from before sharding are older than the first event that is left"
    (one,) = facts.suspects
    assert one.block_bytes == 40 * MIB


def test_suspects_are_looked_for_wherever_the_record_does_not_tell() -> None:
    job = Job("never")
    assert job.facts().suspects == ()
    assert len(job.facts(record(job.phases, [])).suspects) == 1


def test_what_the_record_calls_a_parameter_in_use_is_no_suspect() -> None:
    job = Job("never")
    names = [("parameter", "w", job.full, 40 * MIB)]
    assert job.facts(record([("train/step0", 0, job.trace.now)], [(job.trace.now, names)])).suspects == ()


# ------------------------------------------------------------------ shards in the original's storage


def view_job(shard: dict[str, object], whole: dict[str, object], world_size: int = 2) -> Facts:
    job = Job("never")
    document = record(job.phases, [job.before, job.after], world_size=world_size).model_dump()
    first, last = document["boundaries"]
    first["names"] = (first["names"][0] | whole,)
    last["names"] = (last["names"][0] | {"address": job.full, "nbytes": 40 * MIB} | shard,)
    return job.facts(RankRecord.model_validate(document))


def test_a_shard_that_is_a_view_keeps_the_whole_and_it_dangles() -> None:
    whole = {"dtype": "torch.float32", "shape": (10, MIB)}
    cut = {"dtype": "torch.float32", "shape": (5, MIB)}
    for shard, full in ((cut, whole), ({}, {}), ({"nbytes": 20 * MIB}, {})):
        (one,) = view_job(shard, full).dangling
        assert (one.name, one.block_bytes, one.gone_in) == ("w", 40 * MIB, None)
        assert one.holders == ("shard w, which is a view of it",)


def test_a_shard_that_is_all_of_it_is_in_use() -> None:
    whole = {"dtype": "torch.float32", "shape": (10, MIB)}
    assert view_job(whole, whole).dangling == ()
    assert view_job({}, {}, world_size=1).dangling == ()


def test_what_was_in_use_for_a_while_dangles_from_then_on() -> None:
    job = Job("never")
    later = job.trace.now - 20
    used = (later, [("parameter", "w", job.full, 40 * MIB)])
    facts = job.facts(record(job.phases, [job.before, used, job.after]))
    (one,) = facts.dangling
    assert one.since_event == facts.dangling_since[one.allocation] == event_at(facts.replay, later)
    assert one.since_event > int(facts.phases.stop[1])


# ------------------------------------------------------------------ several phases that shard


def layers(late: bool) -> tuple[Trace, RankRecord]:
    """Two layers, each sharded in a phase of its own; the first is released in its own, or in the second's."""
    trace = Trace()
    start = trace.now
    one, two = trace.alloc(40, INIT), trace.alloc(40, INIT)
    made = trace.tick()
    shards = [trace.alloc(20, SHARD)]
    if not late:
        trace.free(one)
    first = trace.tick()
    second = trace.tick()
    shards.append(trace.alloc(20, SHARD))
    for address in [one, two] if late else [two]:
        trace.free(address)
    end = trace.tick()
    whole = [("parameter", f"l{i}.w", address, 40 * MIB) for i, address in enumerate((one, two))]
    cut = [("shard", f"l{i}.w", address, 20 * MIB) for i, address in enumerate(shards)]
    phases = [("materialize", start, made), ("shard", made + 1, first), ("shard", second, end)]
    return trace, record(phases, [(made, whole), (end, cut)])


def test_each_parameter_is_due_in_the_phase_that_makes_its_shard() -> None:
    trace, known = layers(late=False)
    snap = trace.snap()
    facts = analyze(0, snap.columns, snap.replay(0), known)
    assert (facts.dangling, facts.dangling_known) == ((), True)


def test_what_goes_in_a_later_phase_of_that_name_says_so() -> None:
    trace, known = layers(late=True)
    snap = trace.snap()
    (one,) = analyze(0, snap.columns, snap.replay(0), known).dangling
    assert (one.name, one.should_go_in, one.gone_in) == ("l0.w", "shard", "a later shard")


def test_tied_names_are_all_told() -> None:
    job = Job("never")
    made, names = job.before
    both = [*names, ("parameter", "tied", job.full, 40 * MIB)]
    facts = job.facts(record(job.phases, [(made, both), job.after]))
    (one,) = dangling_of(facts, None, 0)
    assert (one.name, one.names) == ("tied and 1 more", ("tied", "w"))
    assert facts.replay.allocations.address[one.allocation] == job.full


# ------------------------------------------------------------------ suspects


def test_blocks_without_a_stack_are_nobodys_shards() -> None:
    trace = Trace()
    for size in (40, 60):
        trace.alloc(size, INIT)
    trace.free(trace.alloc(26, frame("all_reduce", "/v/site-packages/torch/distributed/distributed_c10d.py")))
    for size in (20, 30):
        trace.alloc(size)
    snap = trace.snap()
    assert analyze(0, snap.columns, snap.replay(0)).suspects == ()


@pytest.mark.parametrize(("sizes", "found"), [([(40, 20)], 0), ([(40, 20), (60, 30)], 2), ([(40, 20), (60, 20)], 0)])
def test_without_a_stack_that_shards_two_sizes_have_to_agree(sizes: list[tuple[int, int]], found: int) -> None:
    trace = Trace()
    for whole, _ in sizes:
        trace.alloc(whole, INIT)
    trace.free(trace.alloc(26, frame("all_reduce", "/v/site-packages/torch/distributed/distributed_c10d.py")))
    for _, part in sizes:
        trace.alloc(part, frame("cut", "/w/mine.py"))
    snap = trace.snap()
    assert len(analyze(0, snap.columns, snap.replay(0)).suspects) == found


def test_what_some_constructor_made_is_a_suspect_and_no_parameter() -> None:
    trace = Trace()
    trace.alloc(40, frame("__init__", "/w/model.py"))
    trace.alloc(20, SHARD)
    snap = trace.snap()
    facts = analyze(0, snap.columns, snap.replay(0))
    assert CATEGORIES[facts.category[0]] == "unknown"
    assert "its stack: a constructor" in facts.suspects[0].evidence


def test_what_only_an_optimizer_holds_is_a_suspect() -> None:
    job = Job("never")
    names = [("optimizer_param", "group0.0", job.full, 40 * MIB), ("shard", "w", job.shard, 20 * MIB)]
    facts = job.facts(record(job.phases, [(job.trace.now, names)]))
    (one,) = facts.suspects
    assert (one.block_bytes, facts.owners[facts.owner[one.allocations[0]]]) == (40 * MIB, "group0.0")


def test_a_shard_is_one_by_its_stack_whatever_the_record_calls_it() -> None:
    job = Job("never")
    names = [("parameter", "w", job.shard, 20 * MIB)]
    facts = job.facts(record(job.phases, [(job.trace.now, names)]))
    assert facts.dangling_why == "the record names no parameters before sharding"
    assert [one.block_bytes for one in facts.suspects] == [40 * MIB]
