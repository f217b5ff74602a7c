"""Marking in the sandbox: cheats in the ranks and in the cells earn nothing and are named; evidence must be well formed."""

import io
import json
from dataclasses import replace
from textwrap import dedent

import nbformat
import pytest

from grader.course.mark import mark_notebook
from grader.evidence import parcel
from grader.evidence.evidence import RETURNED, Evidence
from grader.evidence.traffic import Flow, Observed
from grader.exercises import EXERCISES
from grader.sandbox import accept, cells
from grader.sandbox.collect import evidence_files
from tests.course import ROOT, SANDBOX, belongs, solution_cell, verdict_text
from utils.ranks.server import shared_server
from utils.trace.memory import RankMemory
from utils.trace.trace import Trace

pytestmark = [pytest.mark.xdist_group("autograde"), pytest.mark.skipif(not SANDBOX, reason="needs bubblewrap")]
NAME = "ring_all_reduce"


def marked(source: str):
    """(points, verdict, notebook, remarks) of ring_all_reduce, written as `source`."""
    notebook = nbformat.read(ROOT / "solutions" / "01_collectives" / "01_collectives.ipynb", as_version=4)
    notebook.cells = [cell for cell in notebook.cells if belongs(cell, {NAME})]
    if source:
        solution_cell(notebook, NAME).source = dedent(source)
    marks = mark_notebook(notebook)
    return marks.verdicts[NAME].points, str(marks.verdicts[NAME]), notebook, marks.remarks


TALKS_THROUGH_SOCKETS = """
    import socket, time, torch, torch.distributed as dist

    def exchange(x, group):
        n, r = dist.get_world_size(group), dist.get_rank(group)
        data, rows = x.view(torch.uint8).numpy().tobytes(), []
        server = socket.create_server(("127.0.0.1", 20_000 + dist.get_rank()))
        for one in dist.get_process_group_ranks(group):
            for _ in range(200):
                try:
                    client = socket.create_connection(("127.0.0.1", 20_000 + one))
                    break
                except OSError:
                    time.sleep(0.01)
            client.sendall(data)
            client.close()
        for _ in range(n):
            peer, received = server.accept()[0], b""
            while chunk := peer.recv(1 << 16):
                received += chunk
            rows.append(torch.frombuffer(bytearray(received), dtype=x.dtype))
        return torch.stack(rows).sum(0)

    def ring_all_reduce(x, group):
        return exchange(x, group)
    """

TALKS_THROUGH_SYSTEM_FILES = """
    import time, torch, torch.distributed as dist

    def ring_all_reduce(x, group):
        total, r = x.clone(), dist.get_rank()
        torch.save(x, f"/dev/rank{r}")
        for one in dist.get_process_group_ranks(group):
            if one != r:
                for _ in range(50):
                    try:
                        total += torch.load(f"/dev/rank{one}")
                        break
                    except OSError:
                        time.sleep(0.01)
        return total
    """

FORGES_A_RING = """
    import gc, torch, torch.distributed as dist

    def forge_ring(x, group):
        from utils.trace.calls import CallFacts
        from utils.trace.recorder import PendingCall
        recorder = next(one for one in gc.get_objects() if type(one).__name__ == "Recorder")
        n, r, size = dist.get_world_size(group), dist.get_rank(group), -(-len(x) // dist.get_world_size(group))
        for _ in range(2 * (n - 1)):
            for op, peer in (("send", (r + 1) % n), ("recv", (r - 1) % n)):
                sent = size * x.itemsize * (op == "send")
                facts = CallFacts(
                    group=group.group_name, members=dist.get_process_group_ranks(group), is_async=True, waits=False,
                    alone=True, op=op, dtype="float32", shape=[size], bytes=size * x.itemsize, bytes_given=sent,
                    bytes_formula=sent, root=None, peer=peer, tag=0, reduce_op=None, splits=None, element_count=size,
                    source=None)
                with recorder.waiting(PendingCall(recorder.announce(object(), lambda: facts)[0])):
                    pass
    """

CALLS_THE_LIBRARY_UNSEEN = FORGES_A_RING + """
    def ring_all_reduce(x, group):
        forge_ring(x, group)
        group._untraced.allreduce(x).wait()
        return x
    """

SENDS_TO_ONE_UNSEEN = FORGES_A_RING + """
    def ring_all_reduce(x, group):
        forge_ring(x, group)
        n, r, backend = dist.get_world_size(group), dist.get_rank(group), group._untraced
        other = torch.empty_like(x)
        for one in range(1, n):
            if r == one:
                backend.send([x], 0, 0).wait()
            elif r == 0:
                backend.recv([other], one, 0).wait()
                x += other
        for one in range(1, n):
            if r == one:
                backend.recv([x], 0, 0).wait()
            elif r == 0:
                backend.send([x], one, 0).wait()
        return x
    """

WRITES_EVIDENCE = """
    import os
    from grader.evidence import parcel

    try:
        writer = parcel.Writer(open(f"/proc/{os.getppid()}/fd/1", "wb"))
        writer.add("ring_all_reduce/0.json", b"{}")
    except OSError:
        pass

    def ring_all_reduce(x, group):
        raise NotImplementedError
    """


@pytest.mark.long
@pytest.mark.parametrize("source, words", [
    (CALLS_THE_LIBRARY_UNSEEN, "gloo's all-reduce moved"),
    (SENDS_TO_ONE_UNSEEN, "rank 0 sent rank 1"),
    (TALKS_THROUGH_SOCKETS, "that are not dist calls"),
    (TALKS_THROUGH_SYSTEM_FILES, "Read-only file system"),
    (WRITES_EVIDENCE, "not written yet"),
], ids=["calls the library unseen", "sends to one unseen", "sockets", "system files", "writes evidence"])
def test_a_cheat_earns_nothing_and_is_named(source, words):
    points, verdict, _, _ = marked(source)
    assert points == 0 and words in verdict


def test_the_reference_earns_everything_also_where_a_rank_is_late():
    points, verdict, _, remarks = marked("")
    assert points == 4 and remarks == []
    assert "rank 0 late" in verdict and "rank 4 late" in verdict


def test_a_receive_that_is_not_waited_for_is_caught():
    points, verdict, _, _ = marked("""
        import torch, torch.distributed as dist

        def ring_all_reduce(x, group):
            n, r, total = dist.get_world_size(group), dist.get_rank(group), x.clone()
            boxes = [torch.zeros_like(x) for _ in range(n)]
            works = [dist.irecv(boxes[i], group=group, group_src=i) for i in range(n) if i != r]
            for i in range(n):
                if i != r:
                    dist.send(x, group=group, group_dst=i)
            return total + sum(boxes)
        """)
    assert points == 0 and ("waited" in verdict or "wait" in verdict)


def test_outputs_that_a_browser_would_run_are_dropped():
    _, _, notebook, _ = marked("""
        from IPython.display import HTML, display
        display(HTML("<script>alert(1)</script>"))
        print("plain")
        def ring_all_reduce(x, group):
            raise NotImplementedError
        """)
    outputs = solution_cell(notebook, NAME).outputs
    assert "script" not in json.dumps([o.get("data", {}).get("text/html", "") for o in outputs])
    assert any("plain" in o.get("text", "") for o in outputs)
    assert "not written yet" in verdict_text(notebook, NAME)


def test_a_cell_that_hangs_is_given_up_and_the_next_one_runs(tmp_path):
    sources = ("import time\ntime.sleep(1000)", "7 * 6", "while True:\n    pass\ndef f():\n    return 3", "f()")
    steps = [{"source": source, "words": f"cell {number}", "hands_over": ""} for number, source in enumerate(sources, 1)]
    (tmp_path / "exercises.json").write_text("{}")
    out = io.BytesIO()
    remarks = cells.run_cells(steps, 1, tmp_path, tmp_path, parcel.Writer(out), shared_server())
    assert remarks == [f"cell {number} was not done after 1 s and was interrupted" for number in (1, 3)]
    files = parcel.from_bytes(out.getvalue())
    outputs = [json.loads(files[f"outputs/{number}.json"])[0] for number in (0, 1, 3)]
    assert outputs[0]["ename"] == "KeyboardInterrupt" and outputs[1]["data"]["text/plain"] == "42"
    assert outputs[2]["data"]["text/plain"] == "3"  # what stands below the line that hung is defined all the same


@pytest.mark.long
def test_a_flood_of_output_is_cut_and_costs_nothing():
    source = solution_cell(nbformat.read(ROOT / "solutions" / "01_collectives" / "01_collectives.ipynb", as_version=4),
                           NAME).source
    points, _, notebook, remarks = marked("for _ in range(400):\n    print('x' * 10_000, flush=True)\n" + source)
    assert points == 4 and any("wrote more than 1 MiB" in remark for remark in remarks)
    assert len(json.dumps(solution_cell(notebook, NAME).outputs)) < 2 << 20


# ── evidence ──

GOOD = Evidence([1.5], RETURNED, Trace(1), memory=[RankMemory({"parameters": 1}, {"parameters": 2})], prints={0: ["hello"]},
                messages=Observed(True, (Flow(0, None, "send", 1, 8),), 12))


def files_with(**changes) -> dict[str, bytes]:
    files = evidence_files("x", 0, GOOD)
    return files | {"x/0.json": json.dumps(json.loads(files["x/0.json"]) | changes).encode()}


def test_evidence_survives_the_way_out():
    assert accept.evidences("x", files_with(), cases=1) == [GOOD]


CALL = dict.fromkeys(("rank", "number", "bytes", "bytes_given"), 0) | dict.fromkeys(("op", "group", "dtype"), "") | {
    "bytes_formula": 0.0, "members": [0], "shape": [], "is_async": False, "changed": False,
    "start_s": 0.0, "blocked_s": 0.0, "waiting_s": 0.0,
    **dict.fromkeys(("peer", "root", "reduce_op", "end_s", "wait_start_s", "source"))}


def trace_with(**changes) -> dict:
    return {"trace": {"world_size": 1, "calls": [CALL | changes], "spans": [], "wire_bytes": None, "duration_s": 0.0,
                      "only": None}}


def test_a_call_and_a_span_are_taken_as_they_are():
    trace = trace_with()
    span = {"rank": 0, "name": "x", "start_s": 0, "end_s": 1.5, "facts": {"loss": float("nan"), "deep": [{"a": None}]}}
    trace["trace"]["spans"] = [span]
    evidence, = accept.evidences("x", files_with(**trace), cases=1)
    assert evidence.trace.calls[0].members == (0,) and evidence.trace.spans[0].facts["deep"] == [{"a": None}]


@pytest.mark.parametrize("changes, words", [
    ({"ending": "won"}, "x/0.ending"),
    ({"ending": 3}, r"x/0: Expected `str`, got `int` - at `\$.ending`"),
    ({"elapsed_s": "long"}, r"Expected `float`, got `str` - at `\$.elapsed_s`"),
    ({"elapsed_s": "1.5"}, r"\$.elapsed_s"),
    ({"elapsed_s": True}, r"\$.elapsed_s"),
    ({"elapsed_s": float("nan")}, r"\$.elapsed_s"),
    ({"elapsed_s": float("inf")}, r"\$.elapsed_s"),
    ({"elapsed_s": 10**400}, r"\$.elapsed_s"),
    ({"loopback_bytes": True}, r"\$.loopback_bytes"),
    ({"loopback_bytes": "12"}, r"\$.loopback_bytes"),
    ({"loopback_bytes": 12.0}, r"\$.loopback_bytes"),
    ({"messages": {"complete": True, "flows": [{"source": 0}], "store_bytes": 0}}, r"\$.messages"),
    ({"messages": {"complete": True, "flows": []}}, "missing required field `store_bytes`"),
    ({"messages": {"complete": 1, "flows": [], "store_bytes": 0}}, r"\$.messages"),
    ({"prints": {"zero": []}}, r"Expected `int`, got `str` - at `key` in `\$.prints`"),
    ({"prints": {"1.0": []}}, r"\$.prints"),
    ({"prints": {"\ud800": []}}, "x/0"),
    ({"prints": []}, r"\$.prints"),
    ({"extra": 1}, "x/0: Object contains unknown field `extra`"),
    ({"\ud800": 1}, "x/0"),
    ({"x" * 100_000: 1}, r"^.{1,310}$"),
    ({"trace": {"calls": [{}]}}, "missing required field"),
    ({"trace": None}, r"\$.trace"),
    (trace_with(rank="0"), r"\$.trace.calls\[0\].rank"),
    (trace_with(bytes_formula=float("-inf")), r"\$.trace.calls\[0\].bytes_formula"),
    (trace_with(is_async=0), r"\$.trace.calls\[0\].is_async"),
    (trace_with(members={"0": 0}), r"\$.trace.calls\[0\].members"),
    (trace_with(source={"file": "x"}), r"\$.trace.calls\[0\].source"),
    (trace_with(waited=True), "unknown field `waited`"),
    ({"memory": [{"now": {"parameters": -0.5}, "peak": {}}]}, r"\$.memory"),
    ({"missing": None}, "x/0.missing"),
    ({"missing": [True]}, "x/0.missing"),
], ids=lambda value: str(value)[:40])
def test_malformed_evidence_is_refused_by_name(changes, words):
    with pytest.raises(accept.Malformed, match=words):
        accept.evidences("x", files_with(**changes), cases=1)


@pytest.mark.parametrize("content", [b"", b"[", b"[" * 100_000, b"null", b"\xff\xfe", b"[]"], ids=range(6))
def test_evidence_that_is_not_json_is_refused(content):
    with pytest.raises(accept.Malformed):
        accept.evidences("x", evidence_files("x", 0, GOOD) | {"x/0.json": content}, cases=1)


@pytest.mark.parametrize("content", [b"", b"x" * 100, b"\xff" * 8 + b"{}"])
def test_outputs_that_are_not_safetensors_are_refused(content):
    with pytest.raises(accept.Malformed, match="not a packed result"):
        accept.evidences("x", evidence_files("x", 0, GOOD) | {"x/0.safetensors": content}, cases=1)


def test_late_cases_come_with_grading_only():
    for exercise in EXERCISES.values():
        unanswered = replace(exercise, oracle=lambda case: [])
        public, graded = ([trial.case for trial in unanswered.trials(0, grading)] for grading in (False, True))
        assert not any(case.late_s for case in public)
        wide = [case for case in graded if case.world_size > 1 and case.groups is None]
        assert bool(wide) == any(case.late_s for case in graded)
