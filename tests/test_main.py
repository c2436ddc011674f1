"""The command line: what it prints, and what it refuses."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import pytest

import fgrad
from fgrad import __main__ as command_line


def printed_by(capsys, *argv) -> dict[str, str]:
    assert command_line.main(argv) == 0
    lines = capsys.readouterr().out.splitlines()
    return {line[:13].strip(): line[14:] for line in lines}


def test_prints_versions_threads_cache_and_devices(capsys):
    rows = printed_by(capsys)
    assert list(rows) == ["fgrad", "python", "numpy", "numba", "optree", "threads", "kernel cache", "devices"]
    assert all(rows.values())
    assert rows["devices"].startswith("cpu; cuda ")


def test_does_not_import_numba():
    script = "import sys; from fgrad.__main__ import main; main([]); assert 'numba' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("fgrad ")


def test_runs_as_a_module():
    done = subprocess.run([sys.executable, "-m", "fgrad"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("fgrad ")


def test_the_version_alone(capsys):
    assert command_line.main(["--version"]) == 0
    assert capsys.readouterr().out == f"fgrad {fgrad.__version__}\n"


def test_who_reads_may_stop(tmp_path):
    script = (
        "import sys\nfrom fgrad import __main__ as m\nm.coverage = lambda: 'line\\n' * 100000\n"
        "sys.exit(m.main(['coverage']))"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "line\n"
        process.stdout.close()
        assert process.wait(60) == 1
        assert process.stderr.read() == ""


def test_data_parallel_without_mpi_names_the_extra(capsys, monkeypatch):
    def absent(*_):
        raise ImportError("fgrad.distributed needs mpi4py; install the extra, pip install 'fgrad[mpi]'")

    monkeypatch.setattr(command_line.parallel, "world", absent)
    assert command_line.main(["demo", "--data-parallel"]) == 1
    said = capsys.readouterr()
    assert "pip install 'fgrad[mpi]'" in said.err
    assert "Traceback" not in said.err
    assert said.out == ""


def test_the_demo_says_what_it_uses_and_shows(capsys):
    assert command_line.main(["demo", "--epochs", "1"]) == 0
    out = capsys.readouterr().out
    for words in ("1797 handwritten digits", "UCI", "360 of them held out", "held-out accuracy: fraction",
                  "microseconds per step: of a batch", "loss: mean cross-entropy"):  # fmt: skip
        assert words in " ".join(out.split())


def test_threads_follow_the_environment(capsys, monkeypatch):
    monkeypatch.setenv("FGRAD_NUM_THREADS", "3")
    assert printed_by(capsys)["threads"] == "3"


def test_kernel_cache_is_named_and_measured(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("FGRAD_CACHE_DIR", str(tmp_path / "kernels"))
    assert printed_by(capsys)["kernel cache"] == f"{tmp_path / 'kernels'} (0 files, 0.0 MB)"
    (tmp_path / "kernels" / "deeper").mkdir(parents=True)
    (tmp_path / "kernels" / "one").write_bytes(bytes(1_000_000))
    (tmp_path / "kernels" / "deeper" / "two").write_bytes(bytes(500_000))
    assert printed_by(capsys)["kernel cache"] == f"{tmp_path / 'kernels'} (2 files, 1.5 MB)"


def test_an_uninstalled_fgrad_says_so(capsys, monkeypatch):
    monkeypatch.setattr(command_line, "version", missing)
    rows = printed_by(capsys)
    assert rows["fgrad"] == "not installed: runs from its source"
    assert rows["optree"] == "not installed"


def missing(name: str) -> str:
    raise command_line.PackageNotFoundError(name)


def devices(capsys, monkeypatch, get_device_count) -> str:
    runtime = SimpleNamespace(getDeviceCount=get_device_count)
    cupy = SimpleNamespace(cuda=SimpleNamespace(runtime=runtime))
    monkeypatch.setattr(command_line, "find_spec", lambda name: name)
    monkeypatch.setattr(command_line, "import_module", {"cupy": cupy}.__getitem__)
    return printed_by(capsys)["devices"]


def test_cuda_without_its_extra_is_not_checked(capsys, monkeypatch):
    monkeypatch.setattr(command_line, "find_spec", lambda name: None)
    assert printed_by(capsys)["devices"] == 'cpu; cuda not checked: needs pip install "fgrad[cuda]"'


@pytest.mark.parametrize(("count", "said"), [(0, "(0 devices)"), (1, "(1 device)"), (2, "(2 devices)")])
def test_cuda_devices_are_counted(capsys, monkeypatch, count, said):
    assert devices(capsys, monkeypatch, lambda: count) == f"cpu; cuda {said}"


def test_cuda_without_a_driver_says_why(capsys, monkeypatch):
    def no_driver():
        raise RuntimeError("CUDA driver version is insufficient")

    assert (
        devices(capsys, monkeypatch, no_driver)
        == "cpu; cuda not available: CUDA driver version is insufficient"
    )


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["demo", "--epochs", "0"], "must be at least 1, got 0"),
        (["demo", "--seed", "-1"], "must be at least 0, got -1"),
        (["demo", "--seed", "x"], "invalid integer value: 'x'"),
        (["fly"], "invalid choice: 'fly'"),
    ],
)
def test_wrong_command_lines_are_refused_with_a_reason(capsys, argv, message):
    with pytest.raises(SystemExit) as exit_:
        command_line.main(argv)
    assert exit_.value.code == 2
    assert message in capsys.readouterr().err


def test_demo_gets_its_options(monkeypatch):
    calls = []
    monkeypatch.setattr(command_line.run, "main", lambda *options: calls.append(options) or 7)
    assert command_line.main(["demo"]) == 7
    assert command_line.main(["demo", "--epochs", "3", "--seed", "5"]) == 7
    assert calls == [(40, 0), (3, 5)]


@pytest.mark.parametrize("name", sorted(fgrad._LATE))
def test_a_late_name_is_there_before_anything_else_was_loaded(name):
    script = f"from fgrad import {name}"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
