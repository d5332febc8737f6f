"""Windows of modules: which module's forward ran when, and that noting it changes nothing."""

from __future__ import annotations

import contextlib
import copy
import gc
import pickle
import threading
import traceback
import warnings
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from snapviz.analyze.module_windows import module_windows
from snapviz.analyze.run import load_run
from snapviz.record import windows
from snapviz.record.auto import Auto
from snapviz.record.fakeworld import fake_world
from snapviz.record.recorder import Recorder
from snapviz.record.windows import WindowLog
from snapviz.schema import RECOMPUTED, ModuleRecord
from tests.record.builders import FakeBackend
from tests.record.phaselog import PhaseStub
from tests.windowtruth import BLOCKS, kept_by_window, misplaced, outside_of_windows

torch = pytest.importorskip("torch")

from tests.record.test_frameworks import Block, Model, data, hooked, run_step  # noqa: E402 - needs torch

nn = torch.nn

BLOCK = [("blocks.{}", 0), ("blocks.{}.linear", 0)]


@pytest.fixture
def log() -> PhaseStub:
    return PhaseStub()


@pytest.fixture
def auto(log: PhaseStub) -> Iterator[Auto]:
    before = hooked()
    made = Auto(log, device_type="cpu")
    undo = made.install()
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        yield made
    assert not made._off, "something went wrong"
    undo()
    assert hooked() == before


@pytest.fixture
def world() -> Iterator[None]:
    with fake_world(0, 4):
        torch.distributed.init_process_group("nccl")
        yield
        torch.distributed.destroy_process_group()


def noted(log: PhaseStub) -> ModuleRecord:
    record = log.windows.record()
    assert record is not None
    assert_nested(record)
    return record


def assert_nested(record: ModuleRecord) -> None:
    """Every window lies in the one before it that has not ended, and begins after those that have."""
    ends: list[int] = []
    before = 0
    for _, start, stop, _ in record.windows:
        assert before <= start <= stop
        while ends and ends[-1] <= start:
            ends.pop()
        assert not ends or stop <= ends[-1]
        ends.append(stop)
        before = start


def calls(log: PhaseStub) -> list[tuple[str, int]]:
    """(path, flags) of each window, in order."""
    record = noted(log)
    return [(record.names[name], flags) for name, _, _, flags in record.windows]


def forward(blocks: int = 3) -> list[tuple[str, int]]:
    return [("", 0), *((path.format(number), flags) for number in range(blocks) for path, flags in BLOCK)]


def adam(model: Any) -> Any:
    return torch.optim.AdamW(model.parameters())


# ------------------------------------------------------------------ the log


def log_of(most: int = 10) -> WindowLog:
    return WindowLog(lambda: (), most)


def test_an_outer_window_comes_before_what_lies_in_it() -> None:
    log = log_of()
    outer = log.begin("a", recomputed=False)
    inner = log.begin("a.b", recomputed=True)
    log.end(inner)
    log.end(outer)
    record = log.record()
    assert record is not None
    assert (record.names, record.complete) == (("a", "a.b"), None)
    (_, start, stop, _), (_, within, until, flags) = record.windows
    assert start < within < until < stop, "times of their own, apart from each other"
    assert flags == RECOMPUTED


def test_without_a_call_there_is_no_record() -> None:
    assert log_of().record() is None


def test_what_goes_on_at_the_end_ends_then(monkeypatch: pytest.MonkeyPatch) -> None:
    log = log_of()
    log.begin("a", recomputed=False)
    monkeypatch.setattr(windows, "now_us", lambda: 1 << 60)
    record = log.record()
    assert record is not None
    assert record.windows[0][2] == 1 << 60


def test_a_clock_that_is_set_back_makes_no_window_end_before_it_began(monkeypatch: pytest.MonkeyPatch) -> None:
    log = log_of()
    times = iter([100, 50, 200])
    monkeypatch.setattr(windows, "now_us", lambda: next(times))
    log.end(log.begin("a", recomputed=False))
    record = log.record()
    assert record is not None
    assert record.windows == ((0, 100, 100, 0),)


def test_more_than_is_kept_is_left_out_and_said_so() -> None:
    log = log_of(most=2)
    rows = [log.begin(name, recomputed=False) for name in ("a", "b", "c")]
    for row in rows:
        log.end(row)
    assert rows == [0, 1, -1]
    assert log.is_full
    record = log.record()
    assert record is not None
    assert [name for name, *_ in record.windows] == [0, 1]
    assert (record.names, record.complete) == (("a", "b"), False)


def test_a_name_that_no_file_may_hold_is_left_out() -> None:
    log = log_of()
    log.end(log.begin("a" * 1_001, recomputed=False))
    log.end(log.begin("\udc80", recomputed=False))
    record = log.record()
    assert record is not None
    assert (record.names, len(record.windows), record.complete) == (("?",), 1, False)


# ------------------------------------------------------------------ what is noted


def test_each_module_of_a_step_has_its_window(auto: Auto, log: PhaseStub) -> None:
    model = Model()
    run_step(model, adam(model))
    assert calls(log) == forward()
    assert noted(log).complete is None


def test_windows_cover_what_is_done_in_them(auto: Auto, log: PhaseStub) -> None:
    times: list[int] = []

    class Timed(Block):
        def forward(self, x: Any) -> Any:
            times.append(windows.now_us())
            return super().forward(x)

    model = Model(layers=0)
    model.blocks.extend([Timed(), Timed()])
    run_step(model)
    record = noted(log)
    within = [
        [record.names[name] for name, start, stop, _ in record.windows if start <= time <= stop] for time in times
    ]
    assert within == [["", "blocks.0"], ["", "blocks.1"]]


def test_only_the_steps_whose_names_are_read(auto: Auto, log: PhaseStub) -> None:
    model = Model()
    optimizer = adam(model)
    for _ in range(5):
        run_step(model, optimizer)
    assert calls(log) == forward() * 3


@pytest.mark.parametrize("reentrant", [False, True])
def test_what_runs_again_in_backward_is_told_from_the_rest(auto: Auto, log: PhaseStub, reentrant: bool) -> None:
    class Checkpointed(Model):
        def forward(self, x: Any) -> Any:
            for block in self.blocks:
                x = torch.utils.checkpoint.checkpoint(block, x, use_reentrant=reentrant)
            return x

    model = Checkpointed(layers=2)
    optimizer = adam(model)
    for _ in range(4):
        model(data().requires_grad_()).sum().backward()
        optimizer.step()
    again = [(path.format(number), RECOMPUTED) for number in (1, 0) for path, _ in BLOCK]
    assert calls(log) == [*forward(2), *again] * 3


def test_a_backward_in_another_thread_is_noted_where_it_runs_modules_again(auto: Auto, log: PhaseStub) -> None:
    """autograd has threads of its own for devices other than the CPU."""
    block = Block()
    model = nn.Sequential(block)
    run_step(model)
    x = data().requires_grad_()

    class Elsewhere(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            # a graph of its own, and with it a task, in a thread of its own
            def work() -> None:
                inner = torch.ones(1, requires_grad=True) * 1
                inner.register_hook(lambda _: (block(data()), None)[1])
                torch.autograd.Variable._execution_engine.run_backward(
                    (inner,), (torch.ones(1),), False, False, (), allow_unreachable=True, accumulate_grad=True
                )

            in_thread(work)
            return grad

    Elsewhere.apply(model(x)).sum().backward()
    assert calls(log)[3:] == [("", 0), ("0", 0), ("0.linear", 0), ("0", RECOMPUTED), ("0.linear", RECOMPUTED)]


def in_thread(work: Callable[[], Any]) -> None:
    raised: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert not raised


def test_a_call_in_a_thread_beside_the_forward_is_left_out_and_said_so(auto: Auto, log: PhaseStub) -> None:
    class Threaded(Model):
        def forward(self, x: Any) -> Any:
            in_thread(lambda: self.blocks[0](x))
            return self.blocks[1](x)

    run_step(Threaded())
    assert calls(log) == [("", 0), ("blocks.1", 0), ("blocks.1.linear", 0)]
    assert noted(log).complete is False


def test_micro_batches_and_a_module_that_is_called_several_times(auto: Auto, log: PhaseStub) -> None:
    class Twice(Model):
        def forward(self, x: Any) -> Any:
            return super().forward(super().forward(x))

    model = Twice(layers=1)
    run_step(model, adam(model), micro_batches=2)
    assert calls(log) == [("", 0), *forward(1)[1:], *forward(1)[1:]] * 2


def test_a_module_in_two_places_has_the_first_name(auto: Auto, log: PhaseStub) -> None:
    shared = nn.Linear(4, 4)
    run_step(nn.Sequential(shared, nn.ReLU(), shared))
    assert calls(log) == [("", 0), ("0", 0), ("1", 0), ("0", 0)]


def test_a_root_that_holds_others_of_its_class(auto: Auto, log: PhaseStub) -> None:
    model = nn.Sequential(nn.Sequential(nn.Linear(4, 4)), nn.Sequential(nn.Linear(4, 4)))
    for _ in range(2):
        model(data())
    assert calls(log) == [("", 0), ("0", 0), ("0.0", 0), ("1", 0), ("1.0", 0)] * 2


def test_an_evaluation_is_not_noted(auto: Auto, log: PhaseStub) -> None:
    model = Model(layers=1)
    run_step(model)
    model.eval()
    with torch.no_grad():
        model(data())
    assert calls(log) == forward(1)


def test_a_phase_of_the_users_own_is_not_noted(auto: Auto, log: PhaseStub) -> None:
    model = Model(layers=1)
    run_step(model)
    auto.pause()
    model(data())
    auto.resume()
    assert calls(log) == forward(1)


def test_a_module_that_nobody_knew_before_is_left_alone(auto: Auto, log: PhaseStub) -> None:
    class Making(Block):
        def forward(self, x: Any) -> Any:
            return nn.Sequential(nn.Linear(4, 4))(super().forward(x))

    run_step(nn.Sequential(Making()))
    assert calls(log) == [("", 0), ("0", 0), ("0.linear", 0)]


def test_a_module_in_the_place_of_one_that_is_gone_is_another(auto: Auto, log: PhaseStub) -> None:
    taken: list[Any] = []

    class Replacing(Model):
        def forward(self, x: Any) -> Any:
            former = id(self.blocks[1])
            self.blocks[1] = nn.Identity()
            taken.extend(Block() for _ in range(100))
            for block in taken:
                x = block(x) if id(block) == former else x
            return super().forward(x)

    run_step(Replacing(layers=2))
    assert calls(log) == forward(1)


def test_forwards_within_a_forward_that_takes_gradients(auto: Auto, log: PhaseStub) -> None:
    class Forces(Model):
        def forward(self, x: Any) -> Any:
            x = x.requires_grad_()
            (grad,) = torch.autograd.grad(super().forward(x).sum(), x, create_graph=True)
            return grad

    run_step(Forces(layers=1, checkpointed=True))
    inner = calls(log)[:5]
    assert inner == [*forward(1), *((path.format(0), RECOMPUTED) for path, _ in BLOCK)]


# ------------------------------------------------------------------ wrappers


def test_fsdp2(auto: Auto, log: PhaseStub, world: None) -> None:
    from torch.distributed.fsdp import fully_shard

    mesh = torch.distributed.init_device_mesh("cpu", (4,))
    model = Model(checkpointed=True)
    for module in (*model.blocks, model):
        fully_shard(module, mesh=mesh)
    optimizer = adam(model)
    for _ in range(4):
        run_step(model, optimizer)
    again = [(path.format(number), RECOMPUTED) for number in (2, 1, 0) for path, _ in BLOCK]
    assert calls(log) == [*forward(), *again] * 3


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")
def test_wrappers_have_no_window_beside_that_of_what_they_wrap(auto: Auto, log: PhaseStub, world: None) -> None:
    from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper

    model = Model(layers=1)
    model.blocks[0] = checkpoint_wrapper(model.blocks[0])
    wrapped = nn.parallel.DistributedDataParallel(model)
    log.paths = lambda: walked(wrapped)  # type: ignore[method-assign]
    log.windows.paths = log.paths
    run_step(wrapped)
    assert calls(log) == [*forward(1), *((path.format(0), RECOMPUTED) for path, _ in BLOCK)]


def walked(root: Any) -> Any:
    from snapviz.record.census import _walk

    return _walk("", root, set())


def test_fsdp1_names_are_those_of_the_model(auto: Auto, log: PhaseStub, world: None) -> None:
    from torch.distributed.fsdp import FullyShardedDataParallel

    model = FullyShardedDataParallel(Model(layers=1), device_id=torch.device("cpu"))
    log.windows.paths = lambda: walked(model)
    with contextlib.suppress(RuntimeError, AssertionError):  # what a faked world on a CPU cannot run
        run_step(model)
    assert calls(log)[:1] == forward(1)[:1]


# ------------------------------------------------------------------ what must not change


def test_what_a_forward_raises_passes_as_it_is(auto: Auto, log: PhaseStub) -> None:
    error = KeyError("its own")

    class Failing(Block):
        def forward(self, x: Any) -> Any:
            raise error

    model = Model(layers=1)
    model.blocks.append(Failing())
    with pytest.raises(KeyError) as raised:
        run_step(model)
    assert raised.value is error
    assert calls(log) == [*forward(1), ("blocks.1", 0)]
    assert nn.Module._compiled_call_impl is not auto_noter(auto)
    run_step(model.blocks[0])  # and all goes on


def auto_noter(auto: Auto) -> Any:
    return auto.aside.__self__.calls._noter  # type: ignore[attr-defined]


def test_results_and_gradients_are_the_same(auto: Auto) -> None:
    model, x = Model(checkpointed=True), data()
    model(x).sum().backward()
    noted_ones = [param.grad for param in model.parameters()]
    auto.stop()
    model.zero_grad()
    model(x).sum().backward()
    assert all(map(torch.equal, noted_ones, [param.grad for param in model.parameters()]))
    auto._off = False


def test_a_copy_that_a_forward_makes_carries_nothing(auto: Auto, log: PhaseStub) -> None:
    copies: list[Any] = []

    class Copying(Block):
        def forward(self, x: Any) -> Any:
            copies.extend([copy.deepcopy(self), copy.copy(self), pickle.loads(pickle.dumps(self.linear))])
            return super().forward(x)

    model = nn.Sequential(Copying())
    run_step(model)
    assert [path for path, _ in calls(log)] == ["", "0", "0.linear"]
    for module in (*copies, *model.modules()):
        assert "_compiled_call_impl" not in vars(module)
        assert not module._forward_hooks
        assert not module._forward_pre_hooks


def test_nothing_is_kept(auto: Auto, log: PhaseStub) -> None:
    seen: list[weakref.ref[Any]] = []

    class Seen(Block):
        def forward(self, x: Any) -> Any:
            seen.append(weakref.ref(x))
            return super().forward(x)

    model = nn.Sequential(Seen(), Seen())
    run_step(model, adam(model))
    gc.disable()
    try:
        ref = weakref.ref(model[0])
        log.watched.clear()
        del model
        assert ref() is None
        assert [x() for x in seen] == [None, None]
    finally:
        gc.enable()


def test_no_more_is_noted_when_all_is_full_and_the_step_goes_on(auto: Auto, log: PhaseStub) -> None:
    log.windows = WindowLog(log.paths, most=5)
    model = Model()
    optimizer = adam(model)
    for _ in range(2):
        run_step(model, optimizer)
    assert calls(log) == forward()[:5]
    assert noted(log).complete is False
    assert auto.steps_begun == 2


def test_what_goes_wrong_is_told_once_and_the_step_goes_on(log: PhaseStub) -> None:
    before = hooked()
    auto = Auto(log, device_type="cpu")
    undo = auto.install()

    def broken(*_: Any) -> Any:
        raise ValueError("broken")

    log.windows.begin = broken  # type: ignore[method-assign]
    model = Model()
    with pytest.warns(RuntimeWarning, match=r"no more calls of modules are noted .*broken") as told:
        run_step(model, adam(model))
    assert len(told) == 1
    run_step(model)
    undo()
    assert hooked() == before
    assert log.names.count("train/step0/forward") == 1


def test_the_end_of_the_recording_within_a_forward(log: PhaseStub) -> None:
    before = hooked()
    auto = Auto(log, device_type="cpu")
    undo = auto.install()

    class Ending(Block):
        def forward(self, x: Any) -> Any:
            undo()
            return super().forward(x)

    run_step(nn.Sequential(nn.Linear(4, 4), Ending(), nn.Linear(4, 4)))
    assert hooked() == before
    assert calls(log) == [("", 0), ("0", 0), ("1", 0)]


def test_two_threads_that_train_leave_nothing_behind(auto: Auto, log: PhaseStub) -> None:
    model, other = Model(), Model()
    started, done = threading.Event(), threading.Event()

    class Waiting(Block):
        def forward(self, x: Any) -> Any:
            started.set()
            done.wait(10)
            return super().forward(x)

    other.blocks.append(Waiting())
    run_step(model)
    thread = threading.Thread(target=lambda: other(data()))
    thread.start()
    started.wait(10)
    run_step(model)
    done.set()
    thread.join()
    assert nn.Module._compiled_call_impl is not auto_noter(auto)
    assert [path for path, _ in calls(log)].count("") >= 2


# ------------------------------------------------------------------ torch.compile


def compile_counts(make: Callable[[Any], Any], hooks: bool) -> tuple[list[int], list[int]]:
    """Graphs compiled after each of five steps: without the hooks, and with them."""
    from torch._dynamo.testing import CompileCounter

    counts: list[list[int]] = []
    for recorded in (False, True):
        torch._dynamo.reset()
        counter = CompileCounter()
        log = PhaseStub()
        auto = Auto(log, device_type="cpu")
        undo = auto.install() if recorded else lambda: None
        model = make(counter)
        if hooks:
            for module in model.modules():
                if isinstance(module, nn.Linear):
                    module.register_forward_hook(lambda *_: None)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        counts.append([])
        for _ in range(5):
            run_step(model, optimizer)
            counts[-1].append(counter.frame_count)
        undo()
    torch._dynamo.reset()
    return counts[0], counts[1]


def compiled_model(counter: Any) -> Any:
    return torch.compile(Model(), backend=counter)


def model_of_compiled_blocks(counter: Any) -> Any:
    model = Model()
    for number, block in enumerate(model.blocks):
        model.blocks[number] = torch.compile(block, backend=counter)
    return model


def model_whose_blocks_compile(counter: Any) -> Any:
    model = Model()
    for block in model.blocks:
        block.compile(backend=counter)
    return model


def checkpointed_compiled_blocks(counter: Any) -> Any:
    model = Model(checkpointed=True)
    for block in model.blocks:
        block.compile(backend=counter)
    return model


class Broken(Block):
    def forward(self, x: Any) -> Any:
        x = self.linear(x)
        torch._dynamo.graph_break()
        return x.relu()


def blocks_with_breaks(counter: Any) -> Any:
    model = Model(layers=0)
    model.blocks.extend(torch.compile(nn.Sequential(Broken()), backend=counter) for _ in range(2))
    return model


class Calling(Model):
    """Calls its blocks in a function that is compiled."""

    compiled: Any = None

    def inner(self, x: Any) -> Any:
        return super().forward(x)

    def forward(self, x: Any) -> Any:
        return self.compiled(x)


def model_with_a_compiled_function(counter: Any) -> Any:
    model = Calling()
    object.__setattr__(model, "compiled", torch.compile(model.inner, backend=counter))
    return model


def compiled_forward_of_blocks(counter: Any) -> Any:
    model = Model()
    for block in model.blocks:
        block.forward = torch.compile(block.forward, backend=counter)  # type: ignore[method-assign]
    return model


WAYS = [
    compiled_model,
    model_of_compiled_blocks,
    model_whose_blocks_compile,
    checkpointed_compiled_blocks,
    blocks_with_breaks,
    model_with_a_compiled_function,
    compiled_forward_of_blocks,
]


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:The .grad attribute:UserWarning")
@pytest.mark.parametrize("hooks", [False, True], ids=["plain", "hooks"])
@pytest.mark.parametrize("make", WAYS)
def test_nothing_is_compiled_that_would_not_be(make: Callable[[Any], Any], hooks: bool) -> None:
    alone, recorded = compile_counts(make, hooks)
    assert alone[0] > 0
    assert recorded == alone


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:The .grad attribute:UserWarning")
@pytest.mark.parametrize("make", [model_of_compiled_blocks, model_whose_blocks_compile])
def test_a_compiled_module_is_one_window(auto: Auto, log: PhaseStub, make: Callable[[Any], Any]) -> None:
    model = make("eager")
    log.windows.paths = lambda: walked(model)
    run_step(model)
    assert calls(log) == [("", 0), *((f"blocks.{number}", 0) for number in range(3))]
    assert noted(log).complete is None
    torch._dynamo.reset()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_where_a_function_is_compiled_nothing_is_noted_and_that_is_said(auto: Auto, log: PhaseStub) -> None:
    torch.compile(lambda x: x, backend="eager")
    run_step(Model())
    record = log.windows.record()
    assert record == ModuleRecord(complete=False)


def test_a_function_of_torchs_own_calls_no_modules(auto: Auto, log: PhaseStub) -> None:
    torch.compile(nn.functional.relu, backend="eager")
    run_step(Model())
    assert calls(log) == forward()


def test_what_was_compiled_before_us_is_one_window_too(log: PhaseStub) -> None:
    before = hooked()
    model = Model(layers=2)
    model.blocks[0].compile(backend="eager")
    compiled = vars(model.blocks[0])["_compiled_call_impl"]
    auto = Auto(log, device_type="cpu")
    undo = auto.install()
    run_step(model)
    undo()
    assert calls(log) == [("", 0), ("blocks.0", 0), ("blocks.1", 0), ("blocks.1.linear", 0)]
    assert vars(model.blocks[0])["_compiled_call_impl"] is compiled
    assert hooked() == before
    torch._dynamo.reset()


class Holder(nn.Module):
    def __init__(self, inner: Any) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Any) -> Any:
        return self.inner(x)


def test_a_module_has_one_frame_of_ours_in_a_stack(auto: Auto) -> None:
    ours: list[int] = []

    class Looking(Block):
        def forward(self, x: Any) -> Any:
            files = [frame.filename for frame in traceback.extract_stack()]
            ours.append(sum("snapviz/record" in name for name in files))
            return super().forward(x)

    for inner in (Looking(), Holder(Looking()), Holder(Holder(Looking()))):
        run_step(nn.Sequential(inner))
    assert [ours[1] - ours[0], ours[2] - ours[1]] == [1, 1]


# ------------------------------------------------------------------ a whole recording


def test_what_a_module_makes_is_made_in_its_windows(tmp_path: Path) -> None:
    names: dict[str, Any] = {"torch": torch}
    exec(BLOCKS, names)
    backend = FakeBackend()
    saved: list[list[tuple[str, int]]] = []
    with Recorder(tmp_path / "run", backend=backend) as rec:
        rec.auto = Auto(rec, device_type="cpu")
        rec.at_stop(rec.auto.install())
        with owning(backend):
            model = names["model_of"](4, 128)
            rec.watch(model=model)  # what earlier tests left has names too
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for _ in range(4):
                model(torch.randn(2, 128)).sum().backward()
                saved.append([each for block in model for each in block.saved])
                for block in model:
                    block.saved.clear()
                optimizer.step()
                optimizer.zero_grad()
    rank, blocks = load_run(tmp_path / "run").ranks[0], [f"model.{number}" for number in range(4)]
    for step in range(3):
        forward = f"train/step{step}/forward"
        assert len(saved[step]) == 8
        assert misplaced(rank, forward, saved[step]) == []
        kept = kept_by_window(rank, forward, blocks)
        assert list(kept) == blocks
        assert set(kept.values()) == {2 * (512 + 512 + 128) * 4}
        assert outside_of_windows(rank, forward, ["model"], "train.py") == []
    assert misplaced(rank, "train/step1/forward", [(blocks[0], address) for _, address in saved[1][2:]]) != []
    found = module_windows(rank.record)
    assert found is not None
    assert len(found) == 3 * (1 + 4 * 3)
    facts = rank.facts()
    made = [facts.modules[module] for module in facts.module[facts.replay.allocations.requested_bytes == 4096]]
    # what an up makes, and what gelu makes of it in the block; backward is not noted, the last step is like the others
    assert list(filter(None, made)) == [f"{block}{part}" for block in blocks for part in (".up", "")] * 4


def owning(backend: FakeBackend) -> Any:
    """What torch makes inside is the stand-in's, where it has whole blocks of it."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Owning(TorchDispatchMode):
        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = function(*args, **(kwargs or {}))
            for each in result if isinstance(result, (tuple, list)) else [result]:
                storage = each.untyped_storage() if type(each) in (torch.Tensor, nn.Parameter) else None
                if storage is not None and storage.nbytes() % 512 == 0 and storage.data_ptr() not in backend.live:
                    backend.own(each)
            return result

    return Owning()
