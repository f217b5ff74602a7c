"""The planner's command line: plan, search and compare layouts, calibrate, list models and clusters.

A new subcommand is a function that takes the parsed arguments and returns an exit code, and a line in COMMANDS.
"""

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from utils.costs.tables import read_rows
from utils.deadlocks.errors import BadType, BadValue
from utils.figures.tables import Column, Table
from utils.planner import budget, settings
from utils.planner.accuracy import accuracy_page
from utils.planner.calibrate import calibrate
from utils.planner.explained import Explained, in_words
from utils.planner.goodput import checkpoint_size, checkpoint_time, goodput, run_mtbf
from utils.planner.inputs import from_megatron, from_torchtitan
from utils.planner.layout import Layout
from utils.planner.measure import measure
from utils.planner.plan import Plan, comparison
from utils.planner.published import MODELS
from utils.planner.search import search
from utils.simulation.clusters import CLUSTERS

PROGRAM = "python -m utils.planner"
EXAMPLES = f"""examples:
  {PROGRAM} plan --model "Llama 3 8B" --devices 64 --device H100 --batch 128 --zero 3 --recompute full
  {PROGRAM} search --model my_model/config.json --sequence 8192 --devices 1024 --device H100 --batch 1024
  {PROGRAM} compare --model "GPT-3 175B" --devices 1024 --device A100,H100 --batch 1536 --pp 16 --zero 1 --vary tp=2,4,8
"""


class Command(NamedTuple):
    """A subcommand: what it does in a line, which groups of options it takes, and the function."""

    purpose: str
    options: Sequence[Callable[[argparse.ArgumentParser], None]]
    run: Callable[[argparse.Namespace], int]


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one line; --help has the rest."""

    def error(self, message: str) -> Any:
        self.exit(2, f"{self.prog}: {message} (--help lists all options)\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one subcommand and return its exit code: 0, 1 if no layout fits, 2 for what can't be read or planned."""
    parser = Parser(prog=PROGRAM, description="Memory, traffic, time and price of training a model on a cluster.",
                    epilog=EXAMPLES, formatter_class=_wide, allow_abbrev=False)
    parsers = parser.add_subparsers(metavar="COMMAND", required=True, title="commands")
    for name, command in COMMANDS.items():
        own = parsers.add_parser(name, help=command.purpose, description=command.purpose, allow_abbrev=False,
                                 usage=f"{PROGRAM} {name} [OPTIONS]", formatter_class=_wide)
        for add in command.options:
            add(own)
        own.set_defaults(run=command.run, prog=f"{PROGRAM} {name}")
    asked = parser.parse_args(arguments)
    try:
        return asked.run(asked)
    except BrokenPipeError:  # whoever read the output has seen enough (`| head`)
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  else Python complains when it closes it
        return 0
    except OSError as error:
        sentence = f"{error.filename}: {error.strerror}" if error.filename else str(error)
    except (BadType, BadValue) as error:
        sentence = str(error)
    print(f"{asked.prog}: {sentence}", file=sys.stderr)
    return 2


def _wide(prog: str) -> argparse.HelpFormatter:
    return argparse.RawDescriptionHelpFormatter(prog, max_help_position=32, width=110)


# Subcommands


def run_plan(asked: argparse.Namespace) -> int:
    """One layout: its table, what a training run costs, or files of both."""
    planned = _plan_of_job(asked) if asked.job else settings.plan_of(asked, settings.model_of(asked))
    share, spent = _spent(asked, planned)
    if not _written(asked, planned.to_json, planned.table.to_csv, lambda: _report(asked, planned, share)):
        print(planned)
        for number in spent:
            print(repr(number))
    return 0


def run_search(asked: argparse.Namespace) -> int:
    """All layouts: the best that fit, and what rules the others out."""
    shape, cluster = settings.model_of(asked), settings.cluster_of(asked.device, asked.devices)
    options = settings.options_of(asked, lambda: settings.plan_with(shape, Layout(), cluster, 1, asked, {}))
    found = search(shape, cluster, settings.required(asked, "devices"), settings.required(asked, "batch"), keep=asked.keep,
                   uneven_stages=bool(asked.uneven_stages), **options)
    if not found.plans:
        print(f"No layout fits.\n{found.reasons}", file=sys.stderr)
        return 1
    share, spent = _spent(asked, found.best)
    if not _written(asked, lambda: _as_json(found.plans), comparison(found.plans).to_csv,
                    lambda: _report(asked, found.best, share)):
        print(found)
        print(f"\nThe first as options of `plan`, beside those given here: {settings.options_for(found.best.layout)}")
        for number in spent:
            print(repr(number))
    return 0


def run_compare(asked: argparse.Namespace) -> int:
    """Layouts, clusters or values of one setting side by side; those that can't run are named below with the reason."""
    shape = settings.model_of(asked)
    plans, refused = [], []
    for case in settings.cases_of(asked):
        try:
            plans.append(settings.plan_of(case, shape if case.sequence is None else shape.with_sequence(case.sequence)))
        except BadValue as error:
            refused.append(f"{case.label}: {error}")
    if not plans:
        raise BadValue(f"none of them can run. {refused[0]}")
    table = comparison(plans)
    if not _written(asked, lambda: _as_json(plans), table.to_csv):
        print(table)
    for sentence in refused:
        print(sentence, file=sys.stderr)
    return 0


def run_models(asked: argparse.Namespace) -> int:
    """All models that go by their names."""
    rows = [{"model": shape.name, "parameters": float(shape.parameters()), "active": float(shape.active_parameters()),
             "sequence": shape.sequence, "source": shape.source} for shape in MODELS.values()]
    table = Table(rows, [
        Column("model"), Column("parameters", unit="billions", show=_billions),
        Column("active", "for a token", "billions", show=_billions), Column("sequence", show="{:,}".format),
        Column("source")])
    if not _written(asked, lambda: json.dumps(rows, indent=2, ensure_ascii=False), table.to_csv):
        print(table)
    return 0


def run_clusters(asked: argparse.Namespace) -> int:
    """All clusters that go by their names."""
    rows = [{"cluster": each.name, "device": each.device.name, "n_devices": each.n_devices,
             "devices_per_node": each.devices_per_node, "memory_bytes": each.device.memory_bytes,
             "flops": max(each.device.flops.get(dtype, 0) for dtype in ("bfloat16", "float16")),
             "inside_bytes_per_s": each.inside.bytes_per_s,
             "between_bytes_per_s": each.between.bytes_per_s if each.between else None} for each in CLUSTERS.values()]
    table = Table(rows, [
        Column("cluster"), Column("device"), Column("n_devices", "devices", show="{:,}".format),
        Column("devices_per_node", "in a node"), Column("memory_bytes", "memory", "GB", show=lambda size: f"{size / 1e9:g}"),
        Column("flops", "peak, 16 bits", show=lambda flops: in_words(flops, "FLOP/s")),
        Column("inside_bytes_per_s", "inside a node", show=lambda speed: in_words(speed, "B/s")),
        Column("between_bytes_per_s", "between nodes", show=lambda speed: in_words(speed, "B/s"))])
    if not _written(asked, lambda: json.dumps(rows, indent=2, ensure_ascii=False), table.to_csv):
        print(table)
    return 0


def run_calibrate(asked: argparse.Namespace) -> int:
    """The shares of the peak that agree with measured steps, and how far each step is then off."""
    found = calibrate(read_rows(asked.steps) if asked.steps else None)
    as_plain = {"shares": found.shares, "off": found.summary}
    if not _written(asked, lambda: json.dumps(as_plain, indent=2), found.residuals.to_csv):
        print(found)
    return 0


def run_measure(asked: argparse.Namespace) -> int:
    """What this machine's device reaches; as JSON, a cluster for --device."""
    found = measure(asked.seconds, asked.on)
    if not _written(asked, found.to_json, found.table.to_csv):
        print(found)
    return 0


def run_accuracy(asked: argparse.Namespace) -> int:
    """How far the planner is off, as docs/planner_accuracy.md has it."""
    print(accuracy_page(), end="")
    return 0


COMMANDS = {
    "plan": Command("Memory, traffic, time and price of one layout, each number with its formula.", (
        settings.add_model, settings.add_job, settings.add_cluster, settings.add_layout, settings.add_assumptions,
        settings.add_budget, settings.add_outputs), run_plan),
    "search": Command("The fastest layouts that fit, out of all there are.", (
        settings.add_model, settings.add_cluster, settings.add_search, settings.add_assumptions, settings.add_budget,
        settings.add_outputs), run_search),
    "compare": Command("Clusters, layouts or values of one setting side by side.", (
        settings.add_model, settings.add_cluster, settings.add_layout, settings.add_cases, settings.add_assumptions,
        settings.add_tables), run_compare),
    "calibrate": Command("The shares of a device's peak that agree with measured steps.", (
        settings.add_steps, settings.add_tables), run_calibrate),
    "measure": Command("What a device of this machine reaches, in about a minute; --json makes a file for --device.", (
        settings.add_bench, settings.add_tables), run_measure),
    "accuracy": Command("How far published steps are from their plans, as Markdown.", (), run_accuracy),
    "models": Command("The published models that --model knows by name.", (settings.add_tables,), run_models),
    "clusters": Command("The clusters that --device knows by name.", (settings.add_tables,), run_clusters),
}


# What they share


def _plan_of_job(asked: argparse.Namespace) -> Plan:
    """The job of a torchtitan or Megatron-LM file, with what the options change; what isn't planned is said on stderr."""
    if str(asked.job).endswith(".toml"):
        job = from_torchtitan(asked.job, asked.devices, settings.model_of(asked) if asked.model else None)
    else:
        job = from_megatron(_text_of(asked.job), asked.devices, asked.vocabulary)
    print(job, file=sys.stderr)
    cluster = settings.cluster_of(asked.device, job.layout.devices)
    job = replace(job, layout=settings.layout_of(asked, job.layout),
                  shape=settings.model_of(asked) if asked.model else job.shape, global_batch=asked.batch or job.global_batch)
    return job.plan(cluster, **settings.options_of(asked, lambda: job.plan(cluster, **settings.framework_of(asked))))


def _text_of(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()


def _spent(asked: argparse.Namespace, planned: Plan) -> tuple[Explained | None, list[Explained]]:
    """(goodput, if failures count; days, device hours, money and energy of the whole run, as far as they are asked for)"""
    share = None
    if asked.device_mtbf is not None:
        size = checkpoint_size(planned.shape, planned.state)
        mtbf_s = run_mtbf(asked.device_mtbf, planned.layout.devices)
        share = goodput(checkpoint_time(size, asked.storage), mtbf_s, asked.restart)
    if asked.days is not None and asked.tokens is None:
        part = float(share) if share is not None else 1.0
        asked.tokens = asked.days * 86_400 * part / float(planned.time) * planned.global_batch * planned.shape.sequence
    if asked.tokens is None:
        if asked.price is not None or asked.watts is not None:
            raise BadValue("--price and --watts are those of a whole training run: give its --tokens, or --days, too")
        return share, [share] if share is not None else []
    part = float(share) if share is not None else 1.0
    hours = planned.device_hours(asked.tokens, part)
    spent = [*([share] if share is not None else []), hours, budget.training_days(hours, planned.layout.devices)]
    if asked.price is not None:
        spent.append(planned.money(asked.tokens, asked.price, part))
    if asked.watts is not None:
        spent.append(planned.energy(asked.tokens, asked.watts, asked.pue, part))
    return share, spent


def _report(asked: argparse.Namespace, planned: Plan, share: Explained | None) -> str:
    from utils.planner.report import report_page

    return report_page(planned, asked.tokens, asked.price, asked.watts, asked.pue, 1.0 if share is None else share)


def _written(asked: argparse.Namespace, as_json: Callable[[], str], as_csv: Callable[[], str],
             as_html: Callable[[], str] | None = None) -> bool:
    """Whether standard output is taken; files are written, their names said on stderr."""
    taken = False
    for path, make in ((asked.json, as_json), (asked.csv, as_csv), (getattr(asked, "html", None), as_html)):
        if path is None or make is None:
            continue
        text = make()
        if path == "-":
            print(text, end="" if text.endswith("\n") else "\n")
            taken = True
            continue
        with open(path, "w", encoding="utf-8") as file:
            file.write(text if text.endswith("\n") else text + "\n")
        print(f"{path} written", file=sys.stderr)
    return taken


def _as_json(plans: Sequence[Plan]) -> str:
    return json.dumps([each.to_dict() for each in plans], indent=2, ensure_ascii=False)


def _billions(count: float) -> str:
    return f"{float(count) / 1e9:,.2f}"


