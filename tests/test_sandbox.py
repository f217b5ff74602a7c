"""The sandbox: what a program sees, what it may use up, and that nothing of it stays behind."""

import json
import os
import socket
import struct
import sys
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path

import cloudpickle
import psutil
import pytest

from grader.evidence import parcel
from grader.sandbox import bubblewrap as sandbox
from grader.sandbox import programs, watch
from grader.sandbox.bubblewrap import Limits, NoSandbox
from grader.sandbox.weighing import kept_in_sockets, weight_of
from tests.course import SANDBOX
from utils.ranks.server import RankServer

pytestmark = pytest.mark.skipif(not SANDBOX, reason="needs bubblewrap")
ROOT = Path(__file__).resolve().parent.parent


def run(source: str, data: bytes = b"", **limits):
    return sandbox.run(["-c", source], data, Limits(**limits))


def test_what_is_handed_in_below_usr_is_hidden(monkeypatch):
    look = "import os; print(len(os.listdir('/usr/share')))"
    assert int(run(look).output) > 0
    monkeypatch.setattr(sandbox, "EXCHANGE", "/usr/share")
    assert int(run(look).output) == 0


def test_a_program_sees_only_what_it_is_given(tmp_path, monkeypatch):
    (tmp_path / "gradebook.db").write_text("marks")
    monkeypatch.setenv("SECRET_TOKEN", "hunter2")
    paths = [ROOT / "solutions", ROOT / "grader" / "judging", ROOT / "grader" / "exercises", tmp_path / "gradebook.db",
             Path.home() / ".bashrc", Path("/etc/passwd"), Path("/var"), Path("/sys"), Path("/course/grader/judging")]
    done = run(f"""
import json, os, socket
def tries(what):
    try:
        what()
        return "worked"
    except OSError as error:
        return type(error).__name__
print(json.dumps({{
    "seen": [path for path in {[str(p) for p in paths]} if os.path.exists(path)],
    "secret": os.environ.get("SECRET_TOKEN"),
    "processes": sorted(int(p) for p in os.listdir("/proc") if p.isdigit()),
    "interfaces": [name for _, name in socket.if_nameindex()],
    "network": tries(lambda: socket.create_connection(("192.0.2.1", 80), timeout=2)),
    "writes": {{path: tries(lambda: open(path + "/x", "w")) for path in ("/usr", "/course/utils", {sys.prefix!r})}},
    "own": tries(lambda: open("/tmp/mine", "w")),
    "capabilities": [line.split()[1] for line in open("/proc/self/status") if line.startswith("CapEff")],
}}))""")
    assert done.problem == "", done.log
    found = json.loads(done.output)
    assert found["seen"] == [] and found["secret"] is None
    assert max(found["processes"]) < 10 and found["interfaces"] == ["lo"]
    assert found["network"] == "OSError" and found["own"] == "worked"
    assert set(found["writes"].values()) == {"OSError"}
    assert int(found["capabilities"][0], 16) == 0


def test_command_lines_do_not_tell_where_the_course_lies():
    done = run("""
import os
for process in filter(str.isdigit, os.listdir("/proc")):
    with open(f"/proc/{process}/cmdline") as file:
        print(file.read())""")
    assert "bwrap" in done.output.decode() and str(ROOT / "utils") not in done.output.decode(), done.output
    lines = [line for line in done.output.decode().splitlines() if str(ROOT) in line.replace(sys.prefix, "")]
    assert lines == []


def test_what_is_hidden_can_be_imported_and_neither_used_nor_read():
    program = """
import gc, importlib, json, os, pickle, types
from utils.costs.formulas import ring_time_s
from utils.costs.strategies import STRATEGIES
from utils.planner.layout import Layout
from utils.planner.memory import peak_memory, never_there
import utils.figures.costs_figures, utils.trace.calls, utils.costs.tables
import utils.planner as planner
def told(what):
    try:
        return repr(what())
    except Exception as error:
        return str(error)
def annotated(layout: Layout | None) -> list[Layout]: pass
def text_of(path):
    with open(path, "rb") as file:
        return file.read()
places = [os.path.join(folder, file) for folder, _, files in os.walk("/course") for file in files]
codes = {value.co_filename for value in gc.get_objects() if isinstance(value, types.CodeType)}
codes |= {value.__code__.co_filename for value in gc.get_objects() if isinstance(value, types.FunctionType)}
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
print(json.dumps({
    "used": [told(lambda: ring_time_s("all_reduce", 1, 2, 0, 1)), told(lambda: next(iter(STRATEGIES))),
             told(lambda: Layout(dp=2)), told(lambda: peak_memory.value), told(lambda: planner.plan.plan)],
    "packed": pickle.loads(pickle.dumps(Layout)) is Layout and pickle.loads(
        pickle.dumps(utils.trace.calls.bytes_sent_per_rank)) is utils.trace.calls.bytes_sent_per_rank,
    "counted": repr(utils.trace.calls.bytes_sent_per_rank("all_reduce", 8, 2)),
    "table": len(utils.costs.tables.read_table("links")) > 0,
    "texts": [path for path in places if b"alpha_s + total_bytes" in text_of(path) or b"alpha + M/n*beta" in text_of(path)],
    "codes": [path for path in codes if path.endswith(("costs/formulas.py", "costs/strategies.py")) or "/planner/" in path],
    "uncovered": [libc.unshare(0x10000000 | 0x00020000), libc.umount2(b"/course/utils/planner", 2)][1] == 0,
}))"""
    forbidden = ["utils.planner", "utils.costs.formulas", "utils.costs.strategies", "torch.utils.checkpoint"]
    done = sandbox.run(["-c", program], b"", hidden=forbidden)
    assert done.problem == "", done.log
    found = json.loads(done.output)
    names = ["utils.costs.formulas", "utils.costs.strategies", *["utils.planner"] * 3]
    assert found["used"] == [f"{name} is what this exercise has you write: do without it" for name in names]
    assert found["packed"] and found["counted"] == "nan" and found["table"]
    assert found["texts"] == [] and found["codes"] == [] and not found["uncovered"]


@pytest.mark.parametrize("source, problem", [
    ("while True: pass", "was not done after 3 s"),
    ("import signal, time\nfor s in range(1, 32):\n  try: signal.signal(s, signal.SIG_IGN)\n  except OSError: pass\n"
     "time.sleep(100)", "was not done after 3 s"),
    ("x = []\nwhile True: x.append(bytearray(b'x' * (1 << 20)))", "MemoryError|of memory"),  # whichever limit comes first
    ("import os, time\nfor _ in range(4):\n  if os.fork() == 0: break\nx = bytearray(b'x') * (80 << 20)\ntime.sleep(100)",
     "used more than 0.3125 GiB of memory"),
    ("import os\nwhile True:\n  try: os.fork()\n  except OSError: pass", "started more than 50 processes and threads"),
    ("import os\nwhile True: os.write(1, b'x' * 100_000)", "wrote more than 10 MiB"),
    ("import os\nwhile True: os.write(2, b'x' * 100_000)", "wrote more than"),
    ("with open('/tmp/full', 'wb') as f:\n  while True: f.write(b'x' * (1 << 20))", "No space left"),
    ("with open('/dev/shm/full', 'wb') as f:\n  while True: f.write(b'x' * (1 << 20))", "No space left"),
    ("import os\nos._exit(3)", "exit code 3"),
], ids=["endless loop", "ignored signals", "memory", "memory of many", "fork bomb", "output", "log", "disk", "shm", "exit"])
def test_a_program_that_goes_too_far_is_ended_and_leaves_nothing(source, problem):
    run("pass")  # the server that programs are forked from is there, and stays
    before = set(psutil.pids())
    done = run(source, wall_s=3.0 if "3 s" in problem else 60.0, memory_bytes=320 << 20, processes=10_000, tasks=50,
               disk_bytes=50 << 20, output_bytes=10 << 20)
    assert any(words in done.problem + done.log for words in problem.split("|"))
    left = [p for p in psutil.process_iter(["cmdline", "ppid"]) if p.pid not in before and p.info["ppid"] == os.getpid()]
    assert left == [] and len(done.output) <= 10 << 20


@pytest.mark.long
def test_without_control_groups_a_fork_bomb_is_noticed(monkeypatch):
    monkeypatch.setattr("grader.sandbox.cgroup.MOUNT", Path("/nowhere"))
    done = run("import os, time\nfor _ in range(1200):\n  if os.fork() == 0: time.sleep(100)\ntime.sleep(100)",
               processes=10_000, tasks=50)
    assert "started more than 50 processes and threads" in done.problem + done.log or "unavailable" in done.log


def test_processes_are_counted_before_they_are_a_flood():
    done = run("import os, time\nfor _ in range(40):\n  if os.fork() == 0: time.sleep(100)\ntime.sleep(100)", processes=20)
    assert done.problem == "it started more than 20 processes"


def test_a_detached_process_ends_with_the_sandbox():
    done = run("""
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execvp("sleep", ["sleep", "31415"])
    os._exit(0)
time.sleep(0.5)""")
    assert done.problem == ""
    assert not [p for p in psutil.process_iter(["cmdline"]) if p.info["cmdline"] == ["sleep", "31415"]]


def test_what_was_written_before_the_end_stays():
    done = run("""
import os, sys
from grader.evidence import parcel
writer = parcel.Writer(sys.stdout.buffer)
writer.add("first", b"1" * 1000)
writer.add("second", b"2" * 100_000)
os._exit(1)""")
    files = parcel.from_bytes(done.output[:-600])
    assert list(files) == ["first"] and files["first"] == b"1" * 1000
    assert len(parcel.from_bytes(done.output)["second"]) == 100_000


def test_nothing_of_the_system_can_be_written_to():
    done = run("""
import os
for path in ("/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/new", "/dev/new", "/etc/new", "/usr/new"):
    try:
        os.close(os.open(path, os.O_WRONLY | (os.O_CREAT if path.endswith("new") else 0)))
        print("could write to", path)
    except OSError:
        pass
open("/tmp/new", "w").close()
open("/dev/shm/new", "w").close()
print("done")""")
    assert done.output.decode() == "done\n", done.log


def test_without_bubblewrap_it_refuses_and_says_what_to_do(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NoSandbox, match=r"apt install bubblewrap.*MarkExercises.unsafe"):
        sandbox.require()


def test_where_bubblewrap_may_not_work_it_refuses_and_says_why(monkeypatch, tmp_path):
    (tmp_path / "bwrap").write_text("#!/bin/sh\necho 'No permissions to create a new namespace' >&2; exit 1")
    (tmp_path / "bwrap").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    for begin in (sandbox.require, lambda: run("print(1)")):
        with pytest.raises(NoSandbox, match=r"No permissions to create a new namespace.*user namespaces"):
            begin()


def test_a_sandbox_that_cannot_be_entered_runs_nothing(monkeypatch):
    held_open = programs._held_open
    monkeypatch.setattr(programs, "_held_open", lambda *command: (held_open(*command)[0], os.getpid()))  # namespaces of ours
    with pytest.raises(NoSandbox, match="setns: Invalid argument"):
        run("print(1)")


def test_programs_come_from_one_that_knows_nothing_of_who_asks_and_from_a_new_one_once_it_has_ended(monkeypatch):
    monkeypatch.setenv("SECRET_TOKEN", "hunter2")
    program = """
import gc, os, sys
print(open("/proc/self/environ", "rb").read().count(b"SECRET"), sorted(int(n) for n in os.listdir("/proc/self/fd"))[:3],
      [name for name in sys.modules if name.partition(".")[0] in ("utils", "grader")], "torch" in sys.modules,
      gc.isenabled(), os.getsid(0) == os.getpid())"""
    assert run(program).output.decode() == "0 [0, 1, 2] [] True True True\n"
    server = next(child for child in psutil.Process().children() if str(programs.PRELOAD) in " ".join(child.cmdline()))
    server.kill()
    server.wait()
    assert run(program).output.decode() == "0 [0, 1, 2] [] True True True\n"


def test_who_is_forked_from_one_that_prepared_for_it_begins_no_server_and_shares_none_with_others():
    server, told = RankServer.fresh(), []
    for _ in range(2):
        near, far = Pipe()
        with near, far:
            process = server.fork(_asks_for_two_programs, None, [far], [sandbox.prepare_for_child])
            assert near.poll(60)
            told.append(near.recv())
            process.join()
            process.close()
    assert [outputs for _, outputs in told] == [[b"True\n"] * 2] * 2
    assert len({servers for servers, _ in told}) == 2


def _asks_for_two_programs(pipe: Connection, _: None) -> None:
    """In a process that cannot begin a server."""
    programs._begun = None
    outputs = [run("import sys; print('torch' in sys.modules)").output for _ in range(2)]
    pipe.send((os.stat(programs.source()._server._socket.fileno()).st_ino, outputs))


def test_the_interpreter_s_own_file_cannot_be_changed_through_a_process_that_runs_it():
    program = """
import os
for change in (lambda: os.chmod("/proc/self/exe", 0o755), lambda: os.utime("/proc/self/exe"),
               lambda: os.setxattr("/proc/self/exe", "user.word", b"1")):
    try:
        change()
        print("changed")
    except OSError as error:
        print(error.strerror)"""
    for _ in range(2):  # the server was begun in a sandbox that has ended
        assert run(program).output.decode().splitlines() == ["Read-only file system"] * 3


def test_who_hides_its_memory_is_counted_all_the_same(monkeypatch):
    def hidden(path, *arguments):  # from an ordinary user; root would see it
        if path.endswith("smaps_rollup"):
            raise PermissionError(path)
        return open(path, *arguments)

    monkeypatch.setattr(watch, "open", hidden, raising=False)
    done = run("import ctypes\nctypes.CDLL(None).prctl(4, 0, 0, 0, 0)\nx = bytearray(b'x' * (300 << 20))\n"
               "import time; time.sleep(100)", memory_bytes=400 << 20)
    assert done.problem == "it used more than 0.390625 GiB of memory"


def test_what_the_kernel_keeps_for_a_process_is_weighed(tmp_path):
    before = weight_of(os.getpid())
    os.mkfifo(tmp_path / "pipe")
    pipe = os.open(tmp_path / "pipe", os.O_RDWR)
    os.remove(tmp_path / "pipe")
    os.write(pipe, bytes(60_000))
    near, far = socket.socketpair()
    near.send(bytes(100_000))
    answered, plain = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0), socket.socket()
    for _ in range(50):  # of no kind that the kernel knows: it gives the whole message back
        answered.send(struct.pack("=IHHII", 1016, 2000, 5, 1, 0) + bytes(1000))
    assert 200_000 < sum(dict(kept_in_sockets(os.getpid())).values()) < 500_000
    assert weight_of(os.getpid()) - before > 250_000
    for one in (near, far, answered, plain):
        one.close()
    os.close(pipe)


def test_memory_that_nobody_would_count_is_refused():
    program = """
import ctypes, mmap, os, threading, torch
libc = ctypes.CDLL(None)
def many_files():
    try:
        return [os.dup(0) for _ in range(5000)]
    except OSError:
        return libc.close_range(3, 10_000, 0)
calls = {"file": lambda: os.memfd_create("kept"), "segment": lambda: libc.shmget(0, 4096, 0o1600) + 1,
         "queue": lambda: libc.msgget(0, 0o1600) + 1, "pages": lambda: mmap.mmap(-1, 4096),
         "device": lambda: mmap.mmap(os.open("/dev/zero", os.O_RDWR), 4096),
         "namespaces": lambda: libc.unshare(0x10000000) + 1, "files": many_files}
for name, call in calls.items():
    try:
        print(end=name if call() else "")
    except OSError:
        pass
thread = threading.Thread(target=lambda: print(torch.ones(1000).sum().item()))
thread.start()
thread.join()"""
    done = run(program)
    assert done.output.decode() == "1000.0\n", done.output.decode() + done.log


def test_isolated_ranks_share_nothing_but_the_network():
    source = f"""
import sys
sys.path.insert(0, "/course")
import cloudpickle, json
from grader.sandbox.isolated_place import IsolatedPlace
from utils.ranks.job import Job
from utils.ranks.launcher import launch
from utils.ranks.server import RankServer
server = RankServer.split_off()
job = Job({cloudpickle.dumps(look_around)!r}, [b"1000", b"100000"], show_output=False)
outcome = launch(job, IsolatedPlace(server, witness=None))
print(json.dumps([[json.loads(outcome.blobs[r]) if r in outcome.blobs else None for r in (0, 1)],
                  [str(e) for e in outcome.errors], outcome.observed[0]]))
"""
    done = sandbox.run(["-c", source], b"", Limits(wall_s=100.0), may_isolate=True)
    assert done.problem == "", done.log
    looks, errors, loopback_bytes = json.loads(done.output)
    assert errors == []
    for rank, look in enumerate(looks):
        side_channels = look.pop("side channels")
        assert side_channels.pop("memory of a device") == "OSError"  # there is no such device
        assert side_channels.pop("names of files") == "OSError"  # there is no room
        assert side_channels.pop("terminal") == "FileNotFoundError"
        assert set(side_channels.values()) == {"PermissionError"}
        assert look == {"files": [f"mine{rank}"], "shared": [f"mine{rank}"], "processes": ["1"], "capabilities": 0,
                        "parent": 0}
    assert 400_000 < loopback_bytes < 460_000  # 100,000 float32 each way, and headers


def look_around(blob, done, ask):
    """A rank's view of the machine, after each rank has left something where others might find it."""
    import ctypes
    import fcntl
    import json
    import mmap
    import os
    import socket

    import torch
    import torch.distributed as dist

    rank = dist.get_rank()
    for folder in ("/tmp", "/dev/shm"):
        with open(f"{folder}/mine{rank}", "w"):
            pass
    x = torch.ones(100_000)
    if rank == 0:
        dist.send(x, 1)
    else:
        dist.recv(x, 0)
    dist.barrier()
    libc = ctypes.CDLL(None, use_errno=True)
    shared = os.open("/proc/version", os.O_RDONLY)  # which every rank can open
    numbers = {"clone": 56, "bpf": 321} if os.uname().machine == "x86_64" else {"clone": 220, "bpf": 280}
    calls = {
        "unix": lambda: socket.socket(socket.AF_UNIX), "flock": lambda: fcntl.flock(shared, fcntl.LOCK_SH),
        "lock": lambda: fcntl.lockf(shared, fcntl.LOCK_SH | fcntl.LOCK_NB),
        "locks of others": lambda: fcntl.fcntl(shared, fcntl.F_GETLK, bytes(32)),
        "lock of an open file": lambda: fcntl.fcntl(shared, 37, bytes(32)),
        "lease": lambda: fcntl.fcntl(shared, fcntl.F_SETLEASE, fcntl.F_RDLCK),
        "notice": lambda: fcntl.fcntl(shared, fcntl.F_NOTIFY, fcntl.DN_ACCESS),
        "inotify": lambda: refused_by(libc.inotify_init1(0)), "fanotify": lambda: refused_by(libc.fanotify_init(0, 0)),
        "file in memory": lambda: os.memfd_create("kept"), "shared memory": lambda: mmap.mmap(-1, 4096),
        "memory of a device": lambda: mmap.mmap(os.open("/dev/zero", os.O_RDWR), 4096),
        "segment": lambda: refused_by(libc.shmget(0, 4096, 0o1600)), "queue": lambda: refused_by(libc.msgget(0, 0o1600)),
        "hiding from who weighs": lambda: refused_by(libc.prctl(4, 0, 0, 0, 0)),  # PR_SET_DUMPABLE
        "names of pages": lambda: refused_by(libc.prctl(0x53564D41, 0, 0, 0, 0)),  # PR_SET_VMA
        "names of files": lambda: [os.symlink("x" * 200, f"/tmp/{number:0200}") for number in range(1000)],
        "terminal": os.openpty, "pair of sockets": socket.socketpair,
        "program of a socket": lambda: socket.socket().setsockopt(socket.SOL_SOCKET, 26, bytes(16)),  # SO_ATTACH_FILTER
        "namespaces": lambda: refused_by(libc.unshare(0x10000000)),  # CLONE_NEWUSER
        "namespaces of a child": lambda: refused_by(libc.syscall(numbers["clone"], 0x10000011, 0)),
        "program of the kernel": lambda: refused_by(libc.syscall(numbers["bpf"], 0, 0, 0)),
        "io_uring": lambda: refused_by(libc.syscall(425, 1, ctypes.create_string_buffer(120)))}

    def refused_by(answer):
        if answer < 0:
            raise OSError(ctypes.get_errno(), "refused")

    def outcome_of(call):
        try:
            call()
        except OSError as error:
            return type(error).__name__
        return "allowed"

    fcntl.fcntl(shared, fcntl.F_GETFD)  # whatever else it can do, it may
    with open("/proc/self/status") as file:
        capabilities = sum(int(line.split()[1], 16) for line in file if line.startswith("Cap"))
    return json.dumps({"files": [name for name in os.listdir("/tmp") if name.startswith("mine")],
                       "shared": os.listdir("/dev/shm"), "capabilities": capabilities,
                       "processes": [p for p in os.listdir("/proc") if p.isdigit()], "parent": os.getppid(),
                       "side channels": {name: outcome_of(call) for name, call in calls.items()}}).encode()
