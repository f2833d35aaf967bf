"""Local copies of CIFAR-10: every form, files that are not what they should be, and the download without a network."""

import hashlib
import io
import pickle
import struct
import sys
import tarfile
from pathlib import Path

import numpy as np
import pytest

from lpkit import cifar10
from lpkit.__main__ import main
from lpkit.cifar10 import cifar10_image, data_folder, download_cifar10
from lpkit.datasets import RECORD

BESIDE = Path(__file__).parents[2] / "shared" / "data" / "cifar10_jpeg.npz"
FEW = 3  # images a file, in place of 10,000


@pytest.fixture(autouse=True)
def small_files(monkeypatch):
    monkeypatch.setattr(cifar10, "IMAGES", FEW)
    monkeypatch.delenv("LPKIT_DATA", raising=False)


def records():
    found = np.random.default_rng(0).integers(0, 256, (6 * FEW, RECORD), dtype=np.uint8)
    found[:, 0] %= 10
    return found


def binary(folder):
    folder.mkdir(parents=True)
    for name, part in zip(cifar10.NAMES, np.split(records(), 6)):
        (folder / f"{name}.bin").write_bytes(part.tobytes())
    return folder


def old_pickle(pixels, labels):
    """A file of the Python version as Python 2 wrote it (protocol 2), opcode by opcode."""

    def text(value):
        return b"U" + bytes([len(value)]) + value

    raw = pixels.tobytes()
    numbers = b"]q\x01(" + b"".join(b"K" + bytes([label]) for label in labels) + b"e"
    array = (b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85" + text(b"b")
             + b"\x87R(K\x01K\x02K\x03\x86cnumpy\ndtype\n" + text(b"u1") + b"K\x00K\x01\x87R\x89T"
             + struct.pack("<I", len(raw)) + raw + b"tb")  # fmt: skip
    return (b"\x80\x02}q\x00(" + text(b"batch_label") + text(b"training batch 1 of 5") + text(b"labels") + numbers
            + text(b"data") + array + text(b"filenames") + b"](" + text(b"frog.png") + b"eu.")  # fmt: skip


def python_version(folder, monkeypatch, content=None):
    folder.mkdir(parents=True)
    sums = {}
    for name, part in zip(cifar10.NAMES, np.split(records(), 6)):
        data = content or old_pickle(part[:, 1:], part[:, 0].tolist())
        (folder / name).write_bytes(data)
        sums[name] = hashlib.md5(data).hexdigest()
    monkeypatch.setattr(cifar10, "PYTHON_MD5", sums)


@pytest.mark.parametrize("inner", [".", "cifar-10-batches-bin"])
def test_binary_version(tmp_path, inner, monkeypatch):
    binary(tmp_path / "copy" / inner)
    monkeypatch.setenv("LPKIT_DATA", str(tmp_path / "copy"))
    for index, record in enumerate(records()):
        part, number = ("train", index) if index < 5 * FEW else ("test", index - 5 * FEW)
        pixels, label = cifar10_image(number, part=part)
        assert label == record[0] and np.array_equal(pixels.ravel(), record[1:])
        assert pixels.shape == (3, 32, 32) and pixels.dtype == np.uint8 and type(label) is int


@pytest.mark.parametrize("inner", [".", "cifar-10-batches-py"])
def test_python_version_is_read_without_unpickling(tmp_path, inner, monkeypatch):
    python_version(tmp_path / "copy" / inner, monkeypatch)
    for name in ("load", "loads", "Unpickler"):
        monkeypatch.setattr(pickle, name, None)
    for index, record in enumerate(records()[: 5 * FEW]):
        pixels, label = cifar10_image(index, tmp_path / "copy")
        assert label == record[0] and np.array_equal(pixels.ravel(), record[1:])
    assert cifar10_image(0, tmp_path / "copy", part="test")[1] == records()[5 * FEW, 0]


def test_a_python_version_that_would_act_does_not(tmp_path, monkeypatch):
    harm = tmp_path / "harm"
    act = b"cos\nmkdir\n(U" + bytes([len(str(harm))]) + str(harm).encode() + b"tR."
    pickle.loads(act)
    harm.rmdir()  # it would act, if it were unpickled
    python_version(tmp_path / "copy", monkeypatch, act)
    with pytest.raises(ValueError, match="data_batch_1' is no file .*it holds 0 bytes of pixels and 0 labels"):
        cifar10_image(0, tmp_path / "copy")
    assert not harm.exists()


@pytest.mark.skipif(not BESIDE.exists(), reason="CIFAR-10 is not beside the checkout; small files like it are tested")
def test_images_without_loss():
    with np.load(BESIDE) as arrays:
        wanted = arrays["x_train_png"][[0, 22, 3999]].transpose(0, 3, 1, 2)
    for index, pixels in zip((0, 22, 3999), wanted):
        assert np.array_equal(cifar10_image(index, BESIDE)[0], pixels)
    assert [cifar10_image(i, BESIDE)[1] for i in (0, 22, 23)] == [6, 6, 6]


def test_where_data_is_looked_for(monkeypatch):
    assert data_folder() == Path.home() / ".cache" / "lpkit"
    monkeypatch.setenv("LPKIT_DATA", "~/copies")
    assert data_folder() == Path.home() / "copies" and data_folder("here") == Path("here")


# wrong files and numbers ---------------------------------------------------------------------------------------------


def test_a_binary_file_that_is_cut_off_or_changed(tmp_path):
    file = binary(tmp_path / "copy") / "data_batch_1.bin"
    whole = file.read_bytes()
    file.write_bytes(whole[:-1])
    with pytest.raises(ValueError, match=r"data_batch_1.bin' has 9218 bytes; a file of CIFAR-10 has 9219: it was"):
        cifar10_image(0, tmp_path / "copy")
    file.write_bytes(b"\x0a" + whole[1:])
    with pytest.raises(ValueError, match=r"data_batch_1.bin' holds the class 10"):
        cifar10_image(0, tmp_path / "copy")
    (file.parent / "SHA256SUMS").write_text(f"{hashlib.sha256(whole).hexdigest()}  data_batch_1.bin\n")
    with pytest.raises(ValueError, match=r"data_batch_1.bin' has another SHA-256 than when it was downloaded"):
        cifar10_image(0, tmp_path / "copy")
    file.write_bytes(whole)
    assert cifar10_image(0, tmp_path / "copy")[1] == whole[0]


def test_a_file_of_the_python_version_that_is_cut_off(tmp_path, monkeypatch):
    python_version(tmp_path / "copy", monkeypatch)
    file = tmp_path / "copy" / "data_batch_1"
    whole = file.read_bytes()
    file.write_bytes(whole[:-1])
    with pytest.raises(ValueError, match="data_batch_1' has not the MD5 of CIFAR-10's data_batch_1: it was cut off"):
        cifar10_image(0, tmp_path / "copy")


@pytest.mark.parametrize("content", [b"", b"\x80\x02}", b"text", b"\x80\x02U\xff"])
def test_a_python_version_that_is_no_pickle(tmp_path, monkeypatch, content):
    python_version(tmp_path / "copy", monkeypatch, content or b" ")
    with pytest.raises(ValueError, match="data_batch_1' is no file of CIFAR-10's Python version"):
        cifar10_image(0, tmp_path / "copy")


@pytest.mark.parametrize("call, sentence", [
    (lambda copy: cifar10_image(5 * FEW, copy), "index of a train image is 15; it must be a whole number from 0 to 14"),
    (lambda copy: cifar10_image(FEW, copy, part="test"), "index of a test image is 3; .* from 0 to 2"),
    (lambda copy: cifar10_image(-1, copy), "index of a train image is -1"),
    (lambda copy: cifar10_image(0, copy, part="best"), "part is 'best'; did you mean 'test'"),
])  # fmt: skip
def test_wrong_numbers(tmp_path, call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call(binary(tmp_path / "copy"))


def test_no_copy(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no CIFAR-10 at .*; lpkit data cifar10 downloads it; or give"):
        cifar10_image(0, tmp_path)
    np.savez(tmp_path / "few.npz", x_train_png=np.zeros((8, 32, 32, 3), np.uint8), y_train_png=np.arange(8))
    with pytest.raises(ValueError, match="few.npz' holds images to train on only"):
        cifar10_image(0, tmp_path / "few.npz", part="test")
    with pytest.raises(ValueError, match="index of a train image is 8"):
        cifar10_image(8, tmp_path / "few.npz")
    assert cifar10_image(7, tmp_path / "few.npz")[1] == 7


# the download --------------------------------------------------------------------------------------------------------


def served(tmp_path, drop=None, **changed):
    """An archive like that of CIFAR-10 as a file:// address, with its MD5."""
    folder, file = binary(tmp_path / "served"), io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as tar:
        for path in sorted(folder.iterdir()):
            if path.name != drop:
                data = changed.get(path.stem, path.read_bytes())
                member = tarfile.TarInfo(f"cifar-10-batches-bin/{path.name}")
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))
    (tmp_path / "archive.tar.gz").write_bytes(file.getvalue())
    return {"url": (tmp_path / "archive.tar.gz").as_uri(), "md5": hashlib.md5(file.getvalue()).hexdigest()}


@pytest.fixture
def fetched(monkeypatch):
    """pooch with a downloader for file:// addresses, and how often it was asked."""
    pooch, asked = pytest.importorskip("pooch", reason="pooch is not installed (extra: datasets)"), []
    retrieve = pooch.retrieve

    def copy(url, output, _):
        asked.append(url)
        Path(output).write_bytes(Path(url.removeprefix("file://")).read_bytes())

    monkeypatch.setattr(pooch, "retrieve", lambda *given, progressbar: retrieve(*given, downloader=copy))
    return asked


def test_download(tmp_path, fetched):
    options = served(tmp_path)
    for _ in range(2):
        folder = download_cifar10(tmp_path / "data", **options)
    assert len(fetched) == 1 and folder == tmp_path / "data" / "cifar-10-batches-bin"
    assert sorted(p.name for p in folder.iterdir()) == ["SHA256SUMS", *sorted(f"{n}.bin" for n in cifar10.NAMES)]
    assert [p.name for p in (tmp_path / "data").iterdir()] == ["cifar-10-batches-bin"]
    assert cifar10_image(4, tmp_path / "data")[1] == records()[4, 0]


def test_a_download_with_another_checksum(tmp_path, fetched):
    told = "CIFAR-10 could not be downloaded .*does not match the known hash.*LPKIT_DATA"
    with pytest.raises(ValueError, match=told):
        download_cifar10(tmp_path / "data", **served(tmp_path) | {"md5": "0" * 32})
    assert not list((tmp_path / "data").rglob("*.bin"))


@pytest.mark.parametrize("change", [{"test_batch": b"short"}, {"drop": "data_batch_2.bin"}])
def test_a_download_that_lacks_something(tmp_path, fetched, change):
    with pytest.raises(ValueError, match="archive.tar.gz' is not the archive of CIFAR-10"):
        download_cifar10(tmp_path / "data", **served(tmp_path, **change))
    assert not list((tmp_path / "data").rglob("*.bin"))


def test_the_command_without_a_network(tmp_path, capsys, monkeypatch):
    pooch = pytest.importorskip("pooch", reason="pooch is not installed (extra: datasets)")

    class ConnectionError(OSError):
        """As that of the library pooch downloads with."""

    def retrieve(*given, **options):
        raise ConnectionError("HTTPSConnectionPool(...)\nMax retries exceeded")

    monkeypatch.setattr(pooch, "retrieve", retrieve)
    assert main(["data", "cifar10", "--path", str(tmp_path)]) == 2
    out, error = capsys.readouterr()
    assert not out and error.count("\n") == 1
    assert "could not be downloaded (no connection to www.cs.toronto.edu); fetch https://www.cs" in error


def test_the_command(tmp_path, capsys, fetched, monkeypatch):
    folder = download_cifar10(tmp_path / "data", **served(tmp_path))
    assert main(["data", "cifar10", "--path", str(tmp_path / "data")]) == 0
    assert capsys.readouterr().out == f"cifar10: {folder}\n"
    assert main(["data", "cifar10", "--path", str(tmp_path / "data"), "--json"]) == 0
    assert '"name": "cifar10"' in capsys.readouterr().out
    assert main(["data", "cifar100"]) == 2
    assert "did you mean 'cifar10'" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "pooch", None)
    assert main(["data", "cifar10", "--path", str(tmp_path / "none")]) == 2
    assert "pooch is not installed here; get it with the extra: pip install '.[datasets]'" in (
        capsys.readouterr().err)  # fmt: skip
