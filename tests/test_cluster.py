"""Marking on a Dask cluster of two hosts without a shared folder, and into a gradebook in PostgreSQL."""

import contextlib
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from grader.course import cluster
from grader.course.cluster import ClusterError, mark_here
from tests.course import ROOT, SANDBOX, Course
from tests.submissions import CHOSEN, MARKS, SAMPLES, UNIT, hand_in

pytestmark = [pytest.mark.xdist_group("cluster"), pytest.mark.timeout(600)]
NEEDS_DASK = pytest.mark.skipif(find_spec("distributed") is None, reason="needs Dask: make cluster")
SERVERS = sorted(glob.glob("/usr/lib/postgresql/*/bin"))  # where Debian's package puts them


def handed_in(folder: Path) -> Course:
    course = Course(folder, UNIT, CHOSEN)
    hand_in(course, {student: SAMPLES[student] for student in MARKS})
    return course


def _namespaces() -> bool:
    user = [] if os.getuid() == 0 else ["--user", "--map-root-user"]
    return all(map(shutil.which, ("unshare", "nsenter", "ip"))) and not subprocess.run(
        ["unshare", *user, "--net", "--mount", "--pid", "--fork", "true"], capture_output=True).returncode


@pytest.mark.long
@NEEDS_DASK
@pytest.mark.skipif(not SANDBOX, reason="needs bubblewrap")
@pytest.mark.skipif(not _namespaces(), reason="needs network namespaces and Debian's iproute2")
def test_two_hosts_without_a_shared_folder_mark_by_address(tmp_path):
    course = handed_in(tmp_path / "course")
    with open(course.root / "submitted" / "blank" / UNIT / f"{UNIT}.ipynb", "a") as file:
        file.write(" " * (11 << 20))  # of so large a file Dask warns
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    done = subprocess.run([str(ROOT / "tests" / "two_hosts.sh"), sys.executable, str(ROOT), str(course.root), str(scratch),
                           sys.executable, "-m", "grader", "autograde", UNIT, "--scheduler", "{}"],
                          capture_output=True, text=True, env=course.environment(), timeout=500)
    assert done.returncode == 0, done.stdout + done.stderr
    assert course.marks() == MARKS and "Warning" not in done.stderr
    sent = {host: int(size) for host, size in re.findall(r"(host\d): sent (\d+) bytes", done.stdout)}
    smallest = min(path.stat().st_size for path in (course.root / "autograded").rglob("*.ipynb"))
    assert len(sent) == 2 and min(sent.values()) > 0.9 * smallest, "each host must have sent a marked notebook back"


def test_a_worker_with_another_version_of_the_course_refuses():
    with pytest.raises(ClusterError, match="not of the same version"):
        mark_here(b"", b"", "another", unsafe=False)


def test_without_dask_a_sentence_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ClusterError, match=r"needs Dask, .* run `make cluster`"), cluster.connect("tcp://127.0.0.1:1"):
        pass


@NEEDS_DASK
def test_a_scheduler_that_is_none_is_named():
    with pytest.raises(ClusterError, match="no Dask scheduler answers at carrier-pigeon"), cluster.connect("carrier-pigeon://x"):
        pass


@NEEDS_DASK
def test_a_scheduler_without_workers_is_named(monkeypatch):
    from distributed import LocalCluster

    monkeypatch.setattr(cluster, "PATIENCE_S", 2)
    with (LocalCluster(n_workers=0, dashboard_address=None, host="127.0.0.1") as empty,
          pytest.raises(ClusterError, match="has no workers"), cluster.connect(empty.scheduler_address)):
        pass


@contextlib.contextmanager
def postgresql() -> Iterator[str]:
    """A server of our own with one empty database; its URL. It listens on a socket in its folder only."""
    user = {"user": "postgres", "group": "postgres"} if os.getuid() == 0 else {}
    with tempfile.TemporaryDirectory(prefix="postgresql-") as folder:
        if user:
            shutil.chown(folder, "postgres", "postgres")
        data, programs = f"{folder}/data", Path(SERVERS[-1])
        options = {"check": True, "capture_output": True, "cwd": folder, **user}
        subprocess.run([programs / "initdb", "-D", data, "-A", "trust", "-U", "course", "--no-sync"], **options)
        listen = f"-c listen_addresses= -c unix_socket_directories={folder} -c fsync=off"
        subprocess.run([programs / "pg_ctl", "-D", data, "-w", "-l", f"{folder}/log", "-o", listen, "start"],
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True, cwd=folder, **user)
        try:
            subprocess.run(["createdb", "-h", folder, "-U", "course", "gradebook"], **options)
            yield f"postgresql+psycopg://course@/gradebook?host={folder}"
        finally:
            subprocess.run([programs / "pg_ctl", "-D", data, "-m", "immediate", "stop"], **options)


@pytest.mark.skipif(not SERVERS, reason="Debian's package postgresql is not installed")
def test_a_gradebook_in_postgresql(tmp_path):
    course = handed_in(tmp_path)
    with postgresql() as url:
        printed = course.grader("autograde", UNIT, "--db", url)
        assert f"The gradebook did not know {UNIT}: entered." in printed
        assert course.marks(url) == MARKS
        assert "3 unchanged" in course.grader("autograde", UNIT, "--db", url)
        assert "No mark changes." in course.grader("autograde", UNIT, "--db", url, "--student", "blank", "--regrade")
    assert course.marks() == {}, "nothing must have gone into the usual gradebook"
