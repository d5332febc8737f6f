"""What may be dropped on the page: archives of every kind, and what an archive can do wrong."""

from __future__ import annotations

import gzip
import io
import lzma
import tarfile
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from snapviz.app.archives import Allowance, Unpacked, kind_of, safe_name, unpack
from snapviz.app.tars import BLOCK, TarStream
from snapviz.errors import RunError, SnapshotError, SnapvizError

RUN = {"run.json": b"{}", "rank00000.pickle.zst": b"zero", "rank00000.json": b"record", "rank00001.pickle": b"one"}


def tar(files: dict[str, bytes], *more: tarfile.TarInfo, form: int = tarfile.PAX_FORMAT) -> bytes:
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w", format=form) as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            info.mtime = 1.5  # type: ignore[assignment]  # as pax keeps it: a header of its own
            archive.addfile(info, io.BytesIO(content))
        for info in more:
            archive.addfile(info)
    return held.getvalue()


def entry(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type = kind
    info.linkname = target
    return info


def zipped(files: dict[str, bytes], how: int = zipfile.ZIP_DEFLATED) -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", how) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return held.getvalue()


def unpacked(tmp: Path, content: bytes, **allowed: int) -> tuple[Unpacked, dict[str, bytes]]:
    body, folder = tmp / "body", tmp / "folder"
    body.write_bytes(content)
    folder.mkdir()
    kind = kind_of(body)
    if kind == "snapshot":
        raise SnapshotError("no archive")
    done = unpack(body, kind, folder, Allowance(**({"files": 100, "most_bytes": 1 << 20} | allowed)))
    return done, {path.name: path.read_bytes() for path in folder.rglob("*")}


FORMS: dict[str, Callable[[dict[str, bytes]], bytes]] = {
    "zip": zipped,
    "stored zip": lambda files: zipped(files, zipfile.ZIP_STORED),
    "pax": tar,
    "gnu": lambda files: tar(files, form=tarfile.GNU_FORMAT),
    "ustar": lambda files: tar(files, form=tarfile.USTAR_FORMAT),
    "tar.gz": lambda files: gzip.compress(tar(files)),
    "tar.xz": lambda files: lzma.compress(tar(files)),
    "tar.zst": lambda files: zstandard.compress(tar(files)),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("folder", ["", "./", "main/", "a/b/main/"])
def test_a_run_comes_out_as_it_went_in(form: str, folder: str, tmp_path: Path) -> None:
    others = {"README.md": b"words", "._rank00000.pickle": b"of a Mac"}
    done, files = unpacked(tmp_path, FORMS[form]({folder + name: content for name, content in (RUN | others).items()}))
    assert files == RUN
    assert sorted(done.names) == sorted(RUN)
    assert done.left_out == 2
    assert done.size_bytes == sum(map(len, RUN.values()))
    assert done.folder == folder.removeprefix("./").rstrip("/")


@pytest.mark.parametrize("form", ["pax", "gnu"])
def test_long_names(form: str, tmp_path: Path) -> None:
    folder = "/".join(["x" * 90] * 5)
    _, files = unpacked(tmp_path, FORMS[form]({f"{folder}/rank00000.pickle": b"zero"}))
    assert files == {"rank00000.pickle": b"zero"}


def test_what_gnu_tar_and_python_read_alike(tmp_path: Path) -> None:
    """The reader against ``tarfile`` on its three formats, folders among the files."""
    for form in (tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT):
        content = tar({"a/x": b"1" * 512, "a/y": b"", "z": b"3" * 700}, entry("a", tarfile.DIRTYPE), form=form)
        stream = TarStream(iter([content[i : i + 77] for i in range(0, len(content), 77)]))
        ours = [(e.name.decode(), e.kind, b"".join(stream.content())) for e in stream.entries()]
        with tarfile.open(fileobj=io.BytesIO(content)) as archive:
            theirs = [
                (m.name, "folder" if m.isdir() else "file", b"" if m.isdir() else archive.extractfile(m).read())  # type: ignore[union-attr]
                for m in archive.getmembers()
            ]
        assert [(name.rstrip("/"), kind, data) for name, kind, data in ours] == theirs


LINKS = [
    entry("rank00000.pickle", tarfile.SYMTYPE, "/etc/passwd"),
    entry("rank00000.pickle", tarfile.LNKTYPE, "/etc/passwd"),
    entry("readme", tarfile.SYMTYPE, "run.json"),
    entry("rank00000.pickle", tarfile.CHRTYPE),
    entry("rank00000.pickle", tarfile.BLKTYPE),
    entry("rank00000.pickle", tarfile.FIFOTYPE),
    entry("sparse", tarfile.GNUTYPE_SPARSE),
]


@pytest.mark.parametrize("link", LINKS, ids=lambda info: f"{info.name} {info.type!r}")
def test_links_and_devices_are_refused(link: tarfile.TarInfo, tmp_path: Path) -> None:
    with pytest.raises(RunError, match="a link or a device"):
        unpacked(tmp_path, tar(RUN, link, form=tarfile.GNU_FORMAT))


def test_links_in_a_zip_are_refused(tmp_path: Path) -> None:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as archive:
        info = zipfile.ZipInfo("rank00000.pickle")
        info.external_attr = 0o120777 << 16
        archive.writestr(info, "/etc/passwd")
    with pytest.raises(RunError, match="a link or a device"):
        unpacked(tmp_path, held.getvalue())


NAMES = [
    "../rank00000.pickle",
    "a/../../rank00000.pickle",
    "/tmp/rank00000.pickle",
    "a\\..\\rank00000.pickle",
    "C:rank00000.pickle",
    "rank\n.pickle",
    "\x1b[2Jrank.pickle",
    "\udcffrank.pickle",
]


@pytest.mark.parametrize("form", ["zip", "pax", "gnu"])
@pytest.mark.parametrize("name", NAMES)
def test_names_that_lead_out_are_refused(form: str, name: str, tmp_path: Path) -> None:
    if form == "zip" and "\udcff" in name:
        pytest.skip("zipfile writes no such name")
    with pytest.raises(RunError, match="nothing was unpacked"):
        unpacked(tmp_path, FORMS[form]({name: b"x"}))
    assert list((tmp_path / "folder").iterdir()) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["body", "folder"]


def test_a_name_cut_by_a_null_stays_inside(tmp_path: Path) -> None:
    """zipfile cuts a name at its first null; what is left is looked at like any other."""
    raw = zipped({"rank00000.pickle?../x": b"zero"}).replace(b"?../x", b"\0../x")
    assert unpacked(tmp_path, raw)[1] == {"rank00000.pickle": b"zero"}


@pytest.mark.parametrize("second", ["rank00000.pickle", "RANK00000.pickle", "./rank00000.pickle"])
def test_a_name_may_come_once(second: str, tmp_path: Path) -> None:
    with pytest.raises(RunError, match="twice"):
        unpacked(tmp_path, tar({"rank00000.pickle": b"a"}, entry(second, tarfile.REGTYPE)))


def test_several_runs_are_refused(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"'main' and 'pr'.*pack each run by itself"):
        unpacked(tmp_path, zipped({"main/rank00000.pickle": b"a", "pr/rank00000.pickle": b"b"}))


@pytest.mark.parametrize(("files", "words"), [({}, "holds no snapshot"), ({"run.json": b"{}"}, "holds no snapshot")])
def test_no_run_in_it(files: dict[str, bytes], words: str, tmp_path: Path) -> None:
    for form in ("zip", "pax"):
        (tmp_path / form).mkdir()
        content = FORMS[form](files | {"README.md": b"words"})
        with pytest.raises(RunError, match=words):
            unpacked(tmp_path / form, content)


def test_a_checkpoint_is_named(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="a checkpoint is not a memory snapshot"):
        unpacked(tmp_path, zipped({"archive/data.pkl": b"x", "archive/version": b"3", "archive/data/0": b"0"}))


def test_a_password_is_named(tmp_path: Path) -> None:
    raw = bytearray(zipped({"rank00000.pickle": b"zero"}))
    raw[6] |= 1
    raw[raw.index(b"PK\x01\x02") + 8] |= 1
    with pytest.raises(RunError, match="password"):
        unpacked(tmp_path, bytes(raw))


@pytest.mark.parametrize("how", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_other_methods_are_refused(how: int, tmp_path: Path) -> None:
    with pytest.raises(RunError, match="use deflate"):
        unpacked(tmp_path, zipped({"rank00000.pickle": b"zero"}, how))


# ------------------------------------------------------------------ bombs


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["rank00000.pickle", "README.md"])
def test_bombs_stop_at_the_limit(form: str, name: str, tmp_path: Path) -> None:
    content = FORMS[form]({name: bytes(8 << 20), "run.json": b"{}"})
    if form == "stored zip" or (name == "README.md" and "zip" in form):
        return  # nothing of it is read
    with pytest.raises(RunError, match=r"more than 1\.00 MiB, which is the limit"):
        unpacked(tmp_path, content)
    assert sum(path.stat().st_size for path in (tmp_path / "folder").iterdir()) <= 1 << 20


def test_a_bomb_takes_no_memory(tmp_path: Path) -> None:
    content = zstandard.compress(tar({"rank00000.pickle": bytes(256 << 20)}))
    tracemalloc.start()
    with pytest.raises(SnapvizError, match="more than"):
        unpacked(tmp_path, content, most_bytes=200 << 20)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 150 << 20, "one turn of zstd gives up to 64 MiB"


@pytest.mark.parametrize("form", ["zip", "pax"])
def test_many_entries_stop_at_the_limit(form: str, tmp_path: Path) -> None:
    with pytest.raises(RunError, match="more than 100 entries"):
        unpacked(tmp_path, FORMS[form]({f"x{i}": b"" for i in range(101)}))


def test_a_table_of_contents_is_not_read_at_any_length(tmp_path: Path) -> None:
    table = bytes(16 << 20)
    end = b"PK\x05\x06" + bytes(4) + (1).to_bytes(2, "little") * 2 + len(table).to_bytes(4, "little") + bytes(6)
    with pytest.raises(RunError, match="longer table of contents"):
        unpacked(tmp_path, b"PK\x03\x04" + table + end)


def test_a_header_of_names_is_not_read_at_any_length(tmp_path: Path) -> None:
    info = tarfile.TarInfo("x")
    info.type = tarfile.XHDTYPE
    info.size = 1 << 30
    with pytest.raises(RunError, match="a name of 1,073,741,824 bytes"):
        unpacked(tmp_path, info.tobuf(tarfile.GNU_FORMAT))
    names = tarfile.TarInfo("x")
    names.type = tarfile.XHDTYPE
    with pytest.raises(RunError, match="names without a file"):
        list(TarStream(iter([names.tobuf(tarfile.GNU_FORMAT) * 50])).entries())


# ------------------------------------------------------------------ damage


@pytest.mark.parametrize("form", FORMS)
def test_any_cut_is_an_error_in_words(form: str, tmp_path: Path) -> None:
    """Never a run with a rank less. The end of a tar is two blocks of zeros: the first of them has to be there."""
    content = FORMS[form](RUN)
    # a tar is filled up with zeros beyond its end
    whole = len(content) if form not in ("pax", "gnu", "ustar") else len(content.rstrip(b"\0")) // BLOCK * BLOCK + BLOCK
    for at in range(0, whole, max(1, whole // 60)):
        place = tmp_path / str(at)
        place.mkdir()
        with pytest.raises(SnapvizError):
            unpacked(place, content[:at])


FORM_NAMES = st.sampled_from(sorted(FORMS))


@settings(max_examples=150, deadline=None)
@given(form=FORM_NAMES, flips=st.lists(st.tuples(st.integers(0), st.integers(0, 255)), max_size=6))
def test_damage_gives_a_run_or_an_error(
    form: str, flips: list[tuple[int, int]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    raw = bytearray(FORMS[form](RUN))
    for at, value in flips:
        raw[at % len(raw)] = value
    tmp = tmp_path_factory.mktemp("damage")
    try:
        _, files = unpacked(tmp, bytes(raw))
    except SnapvizError as error:
        assert str(error)
    else:
        assert all(name in RUN or "/" not in name for name in files)
    assert {path.name for path in tmp.iterdir()} <= {"body", "folder"}


@given(st.binary(max_size=2000))
def test_any_bytes_are_of_a_kind_or_refused(content: bytes) -> None:
    import tempfile

    with tempfile.NamedTemporaryFile() as file:
        file.write(content)
        file.flush()
        try:
            assert kind_of(Path(file.name)) in ("zip", "tar", "snapshot")
        except SnapshotError as error:
            assert str(error)


@pytest.mark.parametrize(
    ("content", "words"),
    [(b"", "empty"), (b"BZh91AY", "bzip2"), (b"7z\xbc\xaf\x27\x1c", "7-Zip"), (gzip.compress(zipped(RUN)), "zip")],
)
def test_what_it_can_not_be_is_said(content: bytes, words: str, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(SnapshotError, match=words):
        kind_of(tmp_path / "x")


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("rank3.pickle", "rank3.pickle"),
        ("../../etc/passwd", "passwd"),
        ("C:\\runs\\main.tar.gz", "main.tar.gz"),
        ("<img src=x>.pickle", "_img_src_x_.pickle"),
        ("\0", "_"),
        ("..", "snapshot"),
        (".hidden", "hidden"),
        ("", "snapshot"),
        ("é" * 300 + ".pickle", "_.pickle"),
    ],
)
def test_safe_names(name: str, safe: str) -> None:
    assert safe_name(name) == safe


@given(st.text())
def test_a_safe_name_is_one_name_anywhere(name: str) -> None:
    safe = safe_name(name)
    assert safe.isascii()
    assert 0 < len(safe) <= 100
    assert not safe.startswith((".", "-"))
    assert not set(safe) & set("/\\\0<>&\"' ")
