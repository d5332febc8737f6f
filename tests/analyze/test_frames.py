from __future__ import annotations

import time

import pytest

from snapviz.analyze.frames import FrameNames, normal_file, normal_function
from tests.analyze.builders import Trace, frame


@pytest.mark.parametrize(
    ("file", "name", "kind"),
    [
        ("/opt/conda/lib/python3.11/site-packages/torch/optim/adam.py", "torch/optim/adam.py", "library"),
        ("/usr/lib/python3/dist-packages/yaml/__init__.py", "yaml/__init__.py", "library"),
        ("/usr/lib/python3.12/json/decoder.py", "python3/json/decoder.py", "library"),
        ("C:\\venv\\Lib\\site-packages\\torch\\_tensor.py", "torch/_tensor.py", "library"),
        ("<frozen runpy>", "<frozen runpy>", "library"),
        ("/tmp/torchinductor_root/ab/cabcdefghijklmnopqrstuvwxyz.py", "<torchinductor>", "generated"),
        ("/root/.triton/cache/0a1b/add.py", "<triton>", "generated"),
        ("<eval_with_key>.17", "<eval_with_key>", "generated"),
        ("<eval_with_key>.3 from /w/model.py:20 in wrapped", "<eval_with_key>", "generated"),
        ("/tmp/ipykernel_421/1234.py", "<ipython>", "generated"),
        ("<ipython-input-3-0f>", "<ipython>", "generated"),
        ("thunder.computation_3", "<thunder.computation>", "generated"),
        ("<fx-generated_1>", "<fx-generated>", "generated"),
        ("/tmp/tmpab12cd34/train.py", "<tmp>/train.py", "generated"),
        ("/repo/main/model_2.py", "/repo/main/model_2.py", "user"),
        ("train.py", "train.py", "user"),
        ("", "", "user"),
    ],
)
def test_a_file_has_one_name_on_every_machine(file: str, name: str, kind: str) -> None:
    assert normal_file(file) == (name, kind)


def test_numbers_that_a_compiler_chose_are_cut_and_no_others() -> None:
    assert normal_function("torch_dynamo_resume_in_forward_at_123", "user") == "torch_dynamo_resume_in_forward"
    assert normal_function("__compiled_fn_12_0a1b2c3d_4e5f", "user") == "__compiled_fn"
    assert normal_function("triton_poi_fused_add_3", "generated") == "triton_poi_fused_add"
    assert normal_function("block_3", "user") == "block_3"


def test_frames_of_one_function_are_one_pair_whatever_the_line() -> None:
    trace = Trace()
    trace.alloc(20, frame("f", line=1), frame("f", line=2), frame("g", "/x/site-packages/a.py"))
    names = FrameNames(trace.snap().columns)
    assert sorted(names.names) == [("/repo/model.py", "f"), ("a.py", "g")]
    assert len(names.of_frame) == 3
    assert len(set(names.of_frame.tolist())) == 2


@pytest.mark.parametrize("name", ["<a" + "-" * 4_000, "<a" + "1" * 4_000, "a_" * 2_000, "<a" + "-1" * 2_000])
def test_no_name_takes_the_square_of_its_length(name: str) -> None:
    start = time.process_time()
    for _ in range(300):
        normal_file(name)
    assert time.process_time() - start < 2


def test_a_name_longer_than_any_path_is_taken_as_it_is() -> None:
    assert normal_file("<a" + "-" * 5_000 + "1>")[1] == "user"
    path = "/x/" + "d" * 5_000 + "/site-packages/a.py"
    assert normal_file(path) == (path, "user")


def test_names_of_frames_are_cut_and_each_is_made_once() -> None:
    trace = Trace()
    long = "f" * 100_000
    trace.alloc(20, *(frame(long, f"/x/{'d' * 1_000}/site-packages/{'e' * 1_000}{i}.py") for i in range(20)))
    names = FrameNames(trace.snap().columns).names
    assert {len(function) for _, function in names} == {501}
    assert len({id(function) for _, function in names}) == 1
    assert {len(file) for file, _ in names} == {501}
    assert all(file.startswith("…") and file.endswith(".py") for file, _ in names)
    assert len({file for file, _ in names}) == 20


@pytest.mark.parametrize("root", ["/repo/", "/venv/lib/python3.12/site-packages/", "C:\\venv\\Lib\\site-packages\\"])
def test_a_recorded_program_has_the_stacks_of_one_that_was_not(root: str) -> None:
    program = [frame("__init__", "/v/site-packages/torch/nn/modules/linear.py"), frame("main", "/w/train.py", 7)]
    started = [frame("<module>", "/w/train.py", 9)]
    around = [frame("call", f"{root}snapviz/record/frameworks/patching.py")]
    launched = [
        frame("_execute", f"{root}snapviz/record/program.py"),
        frame("main", f"{root}snapviz/cli/main.py"),
        frame("_run_code", "<frozen runpy>"),
    ]
    trace = Trace()
    trace.alloc(20, *program[:1], *around, *program[1:], *started, *launched)
    trace.alloc(20, *program, *started)
    trace.alloc(20, frame("open", "/w/snapviz/recorder.py"))
    names = FrameNames(trace.snap().columns)
    stacks = names.columns.events.stack[names.columns.events.action == 1]
    texts = [[names.text(one) for one in names.of(stack).tolist()] for stack in stacks.tolist()]
    assert texts[0] == texts[1]
    assert len(texts[0]) == 3
    assert texts[2] == ["open (/w/snapviz/recorder.py:1)"]
    assert len(names.of(-1)) == 0
