"""The program that tries functions inside a sandbox: a parcel of jobs in, a parcel of evidence out.

Nothing but safetensors and JSON leaves it. Each rank is isolated from the others and from this program.
"""

import json
import os
import sys
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial

from grader.calling.collect import Candidate, collect
from grader.calling.handing_out import Given
from grader.evidence import parcel
from grader.evidence.evidence import MISSING, Evidence, pack
from grader.sandbox.isolated_place import IsolatedPlace
from grader.sandbox.witness import Witness
from utils.ranks.place import Place
from utils.ranks.server import RankServer


def job_files(name: str, candidate: Candidate, cases: Sequence[Given]) -> dict[str, bytes]:
    """The files of one exercise's job."""
    facts = {"timeout_s": candidate.timeout_s, "trains": candidate.trains, "measured": candidate.measured,
             "caller": candidate.caller, "forbidden": candidate.forbidden,
             "cases": [{"world_size": case.world_size, "groups": case.groups, "weighed": case.weighed,
                        "late_s": case.late_s} for case in cases]}
    inputs = {f"{name}/{number}-{rank}.safetensors": blob for number, case in enumerate(cases)
              for rank, blob in enumerate(case.inputs)}
    return {f"{name}/job.json": json.dumps(facts).encode(), f"{name}/function.pkl": candidate.function, **inputs}


def read_job(name: str, files: Mapping[str, bytes]) -> tuple[Candidate, list[Given]]:
    """What `job_files` made."""
    facts = json.loads(files[f"{name}/job.json"])
    candidate = Candidate(files[f"{name}/function.pkl"], facts["timeout_s"], facts["trains"], facts["measured"],
                          facts["caller"], tuple(facts["forbidden"]))
    cases = []
    for number, case in enumerate(facts["cases"]):
        inputs = tuple(files[f"{name}/{number}-{rank}.safetensors"] for rank in range(case["world_size"]))
        groups = None if case["groups"] is None else tuple(map(tuple, case["groups"]))
        cases.append(Given(inputs, groups, case["weighed"], tuple(case["late_s"])))
    return candidate, cases


def evidence_files(name: str, number: int, evidence: Evidence) -> dict[str, bytes]:
    """Evidence of case `number` as one safetensors and one JSON file."""
    facts = asdict(replace(evidence, outputs=[]))
    facts["missing"] = [rank for rank, output in enumerate(evidence.outputs) if output is MISSING]
    outputs = [None if output is MISSING else output for output in evidence.outputs]
    return {f"{name}/{number}.safetensors": pack(outputs), f"{name}/{number}.json": json.dumps(facts).encode()}


def main(arguments: Sequence[str]) -> None:
    """Work through every job of the parcel on standard input; evidence goes to standard output as it comes."""
    isolated = "--isolated" in arguments
    server = RankServer.split_off() if isolated else None  # while there is nothing here that ranks may not see
    files = parcel.from_bytes(sys.stdin.buffer.read())
    stream = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever prints, prints to the log
    writer = parcel.Writer(stream)
    names = [file.split("/")[0] for file in files if file.endswith("/job.json")]
    jobs = {name: read_job(name, files) for name in names}
    weighed = any(case.weighed for _, cases in jobs.values() for case in cases)
    place = partial(IsolatedPlace, server, _witness(weighed)) if isolated else Place
    complete = True
    for name, job in jobs.items():
        try:
            for number, evidence in enumerate(collect(*job, place)):
                for file, content in evidence_files(name, number, evidence).items():
                    writer.add(file, content)
        except Exception:  # of reports that make no sense; the other exercises go on
            traceback.print_exc()
            complete = False
    writer.close()
    sys.stderr.flush()
    os._exit(not complete)  # to take torch apart, piece by piece, would take a third of a second


def _witness(weighed: bool) -> Witness | None:
    """None where the system does not let it listen; the network is then only counted."""
    try:
        return Witness(weighed)
    except OSError as error:
        print(f"the network is counted, but not read: {error}")
        return None
