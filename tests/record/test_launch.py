"""``snapviz record``: the program runs, ends and looks as it would have alone, and a run directory is there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from snapviz.cli.main import main
from tests.record.builders import manifest, record_of

pytest.importorskip("torch")

ROOT = Path(__file__).parents[2]

DRIVER = """
import sys
from snapviz.cli.main import main
from snapviz.record import launch
from tests.record.builders import FakeBackend
launch.cuda_backend = FakeBackend
sys.exit(main())
"""

TRAIN = """
import sys, torch
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(4):
    model(torch.ones(1, 4)).sum().backward()
    optimizer.step()
    print("step", step)
print("end")
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "drive.py").write_text(DRIVER)
    monkeypatch.chdir(tmp_path)
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "PYTHONSAFEPATH"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(text))


def python(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    path = {"PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        env=os.environ | path | environment,
        check=False,
        timeout=120,
    )


def recorded(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return python("drive.py", "record", *arguments, **environment)


def said(result: subprocess.CompletedProcess[str]) -> list[str]:
    return [line for line in result.stderr.splitlines() if line.startswith("snapviz: ")]


def ends_alike(*command: str) -> subprocess.CompletedProcess[str]:
    """Runs a program both ways; all but our own two lines has to be the same. Returns the recorded one."""
    alone = python(*command)
    ours = recorded("-o", "run", "--", *command)
    others = [line for line in ours.stderr.splitlines() if not line.startswith("snapviz: ")]
    expected = [line for line in alone.stderr.splitlines() if "<frozen runpy>" not in line]
    assert (ours.returncode, ours.stdout, others) == (alone.returncode, alone.stdout, expected)
    return ours


# ------------------------------------------------------------------ as it would have run


WHO = """
    import atexit, gc, inspect, sys, threading, time
    from pathlib import Path
    print(sys.argv, __name__, Path(__file__), __package__, sys.path[0], gc.isenabled())
    print(None if __spec__ is None else (__spec__.name, __spec__.origin), type(__loader__).__name__, __cached__)
    print(sys.stdout.errors, type(__builtins__).__name__, sys.modules["__main__"].__dict__ is globals())
    print(sorted(name for name in globals() if name.startswith("__") and name != "__annotations__"))
    class Here: pass
    print(Here.__module__, inspect.getsource(Here))
    kept = [1]
    atexit.register(lambda: print("at exit", kept))
    threading.Thread(target=lambda: (time.sleep(0.1), print("later", kept))).start()
"""


def test_a_script_sees_what_it_would_see(here: Path) -> None:
    write(here / "sub" / "who.py", WHO)
    (here / "link.py").symlink_to(here / "sub" / "who.py")
    ends_alike("sub/who.py", "--lr", "1e-4", "-o", "its own")
    (here / "run").rename(here / "before")
    ends_alike("link.py", "--", "-f")


def test_a_module_sees_what_it_would_see(here: Path) -> None:
    write(here / "package" / "__init__.py", "")
    write(here / "package" / "who.py", WHO)
    write(here / "package" / "__main__.py", "from . import who\nprint(__name__, __package__, __spec__.name)")
    ends_alike("-m", "package.who", "--steps", "9")
    (here / "run").rename(here / "before")
    ends_alike("-m", "package")


ENDS = {
    "code": "import sys; sys.exit(7)",
    "words": "import sys; sys.exit('that was it')",
    "nothing": "raise SystemExit",
    "syntax": "x = = 1",
    "interrupt": "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nimport time; time.sleep(9)",
    "abrupt": "import os; os._exit(5)",
    "own hook": "import sys\nsys.excepthook = lambda kind, value, trace: print('mine', value)\nraise ValueError('no')",
    "cause": """
        def inner(): raise KeyError("deep")
        try:
            inner()
        except KeyError as error:
            raise ValueError("shallow") from error
    """,
}


@pytest.mark.parametrize("how", ENDS)
def test_it_ends_as_it_would(here: Path, how: str) -> None:
    write(here / "ends.py", ENDS[how])
    result = ends_alike("ends.py")
    assert len(said(result)) == (1 if how == "abrupt" else 2)
    assert (here / "run" / "rank00000.json").exists() == (how != "abrupt")


def test_hooks_are_not_in_a_traceback(here: Path) -> None:
    write(
        here / "ends.py",
        """
        import torch
        class Model(torch.nn.Linear):
            def forward(self, x):
                return super().forward(x) + torch.ones(7)
        model = Model(4, 4)
        try:
            model(torch.ones(1, 4))
        except RuntimeError as error:
            raise ValueError("through a hook") from error
        """,
    )
    frames = [
        # torch comes through another line of its own
        re.findall(r'^  File "(.*)", line .* in (.*)$|^(\w+Error)', result.stderr, re.MULTILINE)
        for result in (python("ends.py"), recorded("-o", "run", "--", "ends.py"))
    ]
    assert len(frames[0]) == 7
    assert frames[0] == frames[1]


TERMINATED = """
    import os, signal, time
    former = signal.getsignal(signal.SIGTERM)
    print("handler", callable(former), flush=True)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(9)
"""


def test_what_was_recorded_until_sigterm_is_written(here: Path) -> None:
    write(here / "terminated.py", TERMINATED)
    result = recorded("-o", "run", "--", "terminated.py")
    assert result.returncode == -15
    assert re.search("recorded 0 steps, 0 phases", result.stderr)
    assert (here / "run" / "rank00000.pickle.zst").exists()


def test_sigterm_while_files_are_written_waits_for_them(here: Path) -> None:
    write(
        here / "ends.py",
        """
        import os, pickle, signal
        plain = pickle.dump
        def slow(*arguments):
            os.kill(os.getpid(), signal.SIGTERM)  # torchrun's, as another rank has failed
            plain(*arguments)
        pickle.dump = slow
        """,
    )
    result = recorded("-o", "run", "--", "ends.py")
    assert result.returncode == -15
    assert {path.name for path in (here / "run").iterdir()} == {"run.json", "rank00000.json", "rank00000.pickle.zst"}
    assert record_of(here / "run").rank == 0


def test_steps_that_a_script_names_itself_count(here: Path) -> None:
    write(
        here / "named.py",
        """
        import torch, snapviz
        model = torch.nn.Linear(4, 4)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(6):
            with snapviz.phase(f"train/step{step}"):
                model(torch.ones(1, 4)).sum().backward()
                optimizer.step()
            print("step", step)
        """,
    )
    result = recorded("-o", "run", "--steps", "2", "--exit", "--", "named.py")
    assert result.returncode == 0
    assert result.stdout.split() == ["step", "0"]
    assert [phase.name for phase in record_of(here / "run").phases][-2:] == ["train/step0", "train/step1"]
    assert "recorded 2 steps" in result.stderr


def test_an_attempt_of_torchrun_takes_the_place_of_the_one_that_failed(here: Path) -> None:
    write(here / "train.py", TRAIN)
    assert recorded("-o", "run", "--", "train.py").returncode == 0
    assert recorded("-o", "run", "--", "train.py").returncode == 2
    assert recorded("-o", "run", "--", "train.py", TORCHELASTIC_RESTART_COUNT="1").returncode == 0


def test_a_rank_that_no_world_has_is_told_before_all_else(here: Path) -> None:
    write(here / "train.py", TRAIN)
    result = python("-m", "snapviz", "record", "-o", "run", "--world-size", "2", "--rank", "2", "--", "train.py")
    assert result.returncode == 2
    assert "rank 2 is not one of a world of 2: 0 to 1" in result.stderr


def test_a_forked_process_writes_nothing(here: Path) -> None:
    write(
        here / "forks.py",
        """
        import os, signal, sys, time
        if not (child := os.fork()):
            sys.exit(3)  # the way out of a script
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), os.listdir("run"))
        if not (child := os.fork()):
            time.sleep(20)
            sys.exit(4)
        os.kill(child, signal.SIGTERM)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), os.listdir("run"))
        """,
    )
    result = recorded("-o", "run", "--", "forks.py")
    assert result.stdout.splitlines() == ["3 ['run.json']", "-15 ['run.json']"]
    assert len(said(result)) == 2
    assert (here / "run" / "rank00000.json").exists()


def test_spawned_workers_and_pickle_find_main(here: Path) -> None:
    write(
        here / "spawns.py",
        """
        import multiprocessing, os, pickle, sys
        class Task:
            def __init__(self, number): self.number = number
        def work(task): return task.number + 1, "snapviz.record.launch" in sys.modules
        if __name__ == "__main__":
            print(pickle.loads(pickle.dumps(Task(4))).number)
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                print(pool.map(work, [Task(1), Task(2)]))
        """,
    )
    result = ends_alike("spawns.py")
    assert result.stdout.splitlines() == ["4", "[(2, False), (3, False)]"]


# ------------------------------------------------------------------ what is recorded


def test_a_training_is_recorded(here: Path) -> None:
    write(here / "train.py", TRAIN)
    result = recorded(
        "-o", "runs/pr", "--name", "PR", "--set", "batch_size=8", "--set", "x=a=b", "--", "train.py", "-a"
    )
    assert result.returncode == 0
    assert said(result) == ["snapviz: recording to runs/pr", "snapviz: recorded 4 steps, 19 phases → runs/pr"]
    phases = [phase.name for phase in record_of(here / "runs" / "pr").phases]
    assert len(phases) == 19
    assert phases[:5] == ["materialize", "optimizer", "train", "train/step0", "train/step0/forward"]
    assert phases[-1] == "train/step3/optimizer"
    modules = record_of(here / "runs" / "pr").modules
    assert modules is not None
    assert (modules.names, len(modules.windows), modules.complete) == (("",), 3, None)
    written = manifest(here / "runs" / "pr")
    assert (written.name, written.command) == ("PR", ("train.py", "-a"))
    assert written.settings == {"batch_size": "8", "x": "a=b"}


def test_after_the_steps_the_script_goes_on(here: Path) -> None:
    write(here / "train.py", TRAIN)
    result = recorded("-o", "run", "--steps", "2", "--", "train.py")
    assert result.stdout.splitlines()[-1] == "end"
    assert said(result)[-1] == "snapviz: recorded 2 steps, 11 phases → run"
    assert record_of(here / "run").phases[-1].name == "train/step1/optimizer"


def test_after_the_steps_it_may_end(here: Path) -> None:
    write(here / "train.py", TRAIN + "\nraise ValueError")
    result = recorded("-o", "run", "--steps", "3", "--exit", "--", "train.py")
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines() == ["step 0", "step 1", "step 2"]
    assert said(result)[-1] == "snapviz: recorded 3 steps, 15 phases → run"


def test_fewer_steps_than_asked_for_are_written_too(here: Path) -> None:
    write(here / "train.py", TRAIN)
    result = recorded("-o", "run", "--steps", "4", "--", "train.py")
    assert said(result)[-1] == "snapviz: recorded 4 steps, 19 phases → run"


def test_without_hooks_there_are_the_scripts_own_phases(here: Path) -> None:
    write(here / "train.py", f"import snapviz\nwith snapviz.phase('all'):\n{textwrap.indent(TRAIN, '    ')}")
    result = recorded("-o", "run", "--no-auto", "--", "train.py")
    assert said(result)[-1] == "snapviz: recorded 0 steps, 1 phase → run"
    assert [phase.name for phase in record_of(here / "run").phases] == ["all"]
    assert record_of(here / "run").modules is None


def test_a_faked_world_is_one_rank_of_it(here: Path) -> None:
    write(
        here / "train.py",
        """
        import os, torch
        from torch.distributed.fsdp import fully_shard
        torch.distributed.init_process_group("nccl")
        model = torch.nn.Linear(8, 8)
        fully_shard(model, mesh=torch.distributed.init_device_mesh("cpu", (8,)))
        print(os.environ["RANK"], model.weight.to_local().shape[0])
        torch.distributed.destroy_process_group()
        """,
    )
    result = recorded("-o", "run", "--world-size", "8", "--rank", "3", "--", "train.py")
    assert result.stdout == "3 1\n", result.stderr
    assert len(said(result)) == 2
    record = record_of(here / "run", rank=3)
    assert (record.rank, record.world_size) == (3, 8)
    assert [phase.name for phase in record.phases] == ["materialize", "shard"]
    assert manifest(here / "run").fake_process_group


def test_only_rank_0_speaks(here: Path) -> None:
    write(here / "nothing.py", "")
    result = recorded("-o", "run", "--", "nothing.py", RANK="1", WORLD_SIZE="2")
    assert result.returncode == 0
    assert result.stderr == ""
    assert (here / "run" / "rank00001.json").exists()


def test_what_could_not_be_written_is_not_claimed(here: Path) -> None:
    write(here / "train.py", "import os, shutil\nshutil.rmtree('run')\nopen('run', 'w')\nprint('end')")
    result = recorded("-o", "run", "--", "train.py")
    assert (result.returncode, result.stdout) == (0, "end\n")
    assert "rank 0 could not be recorded" in result.stderr
    assert said(result) == ["snapviz: recording to run"]


# ------------------------------------------------------------------ what cannot be


def test_without_a_device_nothing_runs(here: Path) -> None:
    write(here / "train.py", "open('it ran', 'w')")
    result = python("-m", "snapviz", "record", "-o", "run", "--", "train.py", CUDA_VISIBLE_DEVICES="")
    assert result.returncode == 2
    assert re.fullmatch(r"snapviz: error: nothing can be recorded here: .*CUDA.*\n", result.stderr)
    assert not (here / "it ran").exists()
    assert not (here / "run").exists()


def test_another_run_is_not_replaced_unless_asked_to(here: Path) -> None:
    write(here / "train.py", "print('ran')")
    assert recorded("-o", "run", "--", "train.py").returncode == 0
    again = recorded("-o", "run", "--", "train.py")
    assert (again.returncode, again.stdout) == (2, "")
    assert "of an earlier run is there" in again.stderr
    assert recorded("-f", "-o", "run", "--", "train.py").stdout == "ran\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["-o", "run", "--", "missing.py"], "missing.py: there is no such script"),
        (["-o", "run", "--", "."], ".: is not a file; name the script in it"),
        (["-o", "run", "--", "-m", "no_such.module"], "no_such"),
        (["-o", "run", "--", "-m"], "-m needs the name of a module"),
        (["-o", "run", "--", "--lr", "1"], "say what to run after --"),
        (["-o", "run"], "say what to run after --"),
        (["--", "train.py"], "required: -o/--output"),
        (["-o", "run", "--exit", "--", "train.py"], "say how many"),
        (["-o", "run", "--no-auto", "--steps", "3", "--", "train.py"], "--steps counts what hooks see"),
        (["-o", "run", "--rank", "1", "--", "train.py"], "give --world-size too"),
        (["-o", "run", "--steps", "0", "--", "train.py"], "0 is less than 1"),
        (["-o", "run", "--set", "batch", "--", "train.py"], "'batch' is not KEY=VALUE"),
    ],
)
def test_what_cannot_be_meant_is_told(
    here: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    write(here / "train.py", "raise AssertionError")
    assert main(["record", *arguments]) == 2
    assert words in capsys.readouterr().err
    assert not (here / "run").exists()


def test_a_world_is_not_faked_under_torchrun(here: Path, monkeypatch: Any, capsys: Any) -> None:
    write(here / "train.py", "raise AssertionError")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert main(["record", "-o", "run", "--world-size", "8", "--", "train.py"]) == 2
    assert "torchrun has started real ones" in capsys.readouterr().err


def test_help_imports_no_torch(here: Path) -> None:
    code = "import sys; from snapviz.cli.main import main; main(['record', '--help']); print('torch' in sys.modules)"
    result = python("-c", code)
    assert result.stdout.endswith("False\n")
    assert "torchrun --nproc_per_node=8 -m snapviz record" in result.stdout
