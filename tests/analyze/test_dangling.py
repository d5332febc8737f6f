from __future__ import annotations

from snapviz.analyze.dangling import curve_without
from snapviz.analyze.facts import Facts
from snapviz.analyze.passes import analyze
from snapviz.schema import RankRecord
from tests.analyze.builders import MIB, Trace, frame, record

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


def test_what_goes_late_says_when() -> None:
    (one,) = Job("late").facts().dangling
    assert one.gone_in == "train/step0"


def test_the_storage_still_in_use_is_not_left_behind() -> None:
    job = Job("never")
    in_use = (job.trace.now, [("parameter", "w", job.full, 40 * MIB)])
    assert job.facts(record(job.phases, [job.before, in_use])).dangling == ()


def test_without_a_phase_named_shard_the_first_shards_say_when() -> None:
    job = Job("never")
    (one,) = job.facts(record([("train/step0", 0, job.trace.now)], [job.before, job.after])).dangling
    assert one.should_go_in == "the first boundary with shards"


def test_nothing_is_called_dangling_where_nothing_is_sharded_or_known() -> None:
    job = Job("never")
    assert job.facts(record([("train/step0", 0, job.trace.now)], [job.before])).dangling == ()
    facts = job.facts(record(job.phases, [job.after]))
    assert facts.dangling == ()
    assert any("names no parameters before sharding" in note for note in facts.notes)


def test_the_curve_without_it_is_exact() -> None:
    facts = Job("late").facts()
    start, curve = curve_without(facts)
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
