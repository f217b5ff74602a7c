"""The planner's command line, what it writes, what failures cost, and every command of docs/planner.md as written."""

import csv
import io
import json
import re
import shlex
import subprocess
import sys

import pytest

import utils.planner
from tests.course import ROOT
from utils.costs.tables import read_table
from utils.figures.planner_figures import stage_memory_figure
from utils.figures.tables import Column, Table
from utils.planner import (
    ZERO_16,
    Assumptions,
    Layout,
    checkpoint_interval,
    checkpoint_size,
    cluster_from_json,
    cluster_named,
    comparison,
    device_mtbf,
    goodput,
    model_named,
    plan,
    search,
)
from utils.planner.command import COMMANDS, main
from utils.planner.goodput import checkpoint_time, run_mtbf
from utils.planner.words import assumptions_in_words

GPT3 = ["--model", "GPT-3 175B", "--devices", "1024", "--device", "A100", "--batch", "1536", "--tp", "8", "--pp", "16",
        "--zero", "1", "--sp", "--recompute", "selective"]
GPT = ["plan", "--model", "GPT 22B", "--devices", "8"]
COMPARED = ["compare", *GPT[1:], "--batch", "8"]
LAYOUT = Layout(dp=8, tp=8, pp=16, zero=1, sequence_parallel=True, recompute="selective")
PAGE = (ROOT / "docs" / "planner.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def gpt3():
    return plan("GPT-3 175B", LAYOUT, "A100", 1536)


def said(capsys, *arguments):
    """(exit code, standard output, standard error)"""
    try:
        code = main(list(arguments))
    except SystemExit as stop:
        code = stop.code
    return code, *capsys.readouterr()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


# One import

def test_one_import_has_functions_and_the_modules_stay():
    from utils.planner import plan as function
    from utils.planner.plan import plan as same

    assert function is same and callable(utils.planner.search) and callable(utils.planner.scaling)
    assert all(hasattr(utils.planner, name) for name in utils.planner.__all__)


def test_a_name_is_a_model_everywhere(gpt3):
    assert plan(model_named("GPT-3 175B"), LAYOUT, "A100", 1536) == gpt3
    found = search("Llama 3 8B", "H100", 8, 8, keep=1, micro_batches=[1], schedules=["1F1B"])
    assert found.best.shape is model_named("Llama 3 8B")
    assert utils.planner.scaling("GPT 22B", "A100", 64, devices=[1, 8])[0].devices == 1
    with pytest.raises(ValueError, match="did you mean 'Llama 3 8B'"):
        search("Llama 3 9B", "H100", 8, 8)


# What a plan gives out

def test_budget_explains_itself(gpt3):
    rate = 1536 * 2048 / (float(gpt3.time) * 1024)
    assert float(gpt3.tokens_per_s_device) == pytest.approx(rate, rel=1e-12)
    hours = 300e9 / rate / 3600
    assert float(gpt3.device_hours(300e9)) == pytest.approx(hours, rel=1e-12)
    assert float(gpt3.device_hours(300e9, goodput=0.9)) == pytest.approx(hours / 0.9, rel=1e-12)
    assert float(gpt3.money(300e9, 2.5)) == pytest.approx(2.5 * hours, rel=1e-12)
    assert float(gpt3.energy(300e9, 700, pue=1.3)) == pytest.approx(0.7 * 1.3 * hours, rel=1e-12)
    assert float(gpt3.days(300e9)) == pytest.approx(hours / 1024 / 24, rel=1e-9)
    assert str(gpt3.money(300e9, 2)).startswith("$") and "H·watts·PUE/1000" in gpt3.energy(300e9, 700).text


@pytest.mark.parametrize(("ask", "words"), [
    (lambda plan: plan.money(300e9, 0), "price_per_device_hour must be positive"),
    (lambda plan: plan.money("1T", 2), "tokens must be a number"),
    (lambda plan: plan.energy(300e9, 700, pue=0.8), "pue compares"),
    (lambda plan: plan.device_hours(300e9, goodput=1.2), "goodput is a share"),
])
def test_a_budget_that_cannot_be_is_refused_in_words(gpt3, ask, words):
    with pytest.raises((TypeError, ValueError), match=words):
        ask(gpt3)


def test_a_plan_is_read_back_from_json(gpt3, tmp_path):
    read = json.loads(gpt3.to_json(tmp_path / "plan.json"))
    assert read == json.loads((tmp_path / "plan.json").read_text()) == json.loads(json.dumps(gpt3.to_dict()))
    figures = read["figures"]
    assert figures["time"]["value"] == float(gpt3.time) and figures["time"]["unit"] == "s"
    assert sum(part["value"] for part in figures["time"]["parts"]) == pytest.approx(figures["time"]["value"])
    assert figures["mfu"]["formula"] == "F/(T·n·peak)" and figures["mfu"]["values"]["n"] == 1024
    assert [stage["value"] for stage in read["memory_by_stage"]] == [float(stage) for stage in gpt3.memory_by_stage]
    assert len(read["memory_by_stage"]) == 16 and read["layout"]["tp"] == 8 and read["fits"] is True
    assert read["model"]["parameters"] == float(gpt3.shape.parameters()) and read["framework"] == "" and "off" not in read
    modern = json.loads(plan("Llama 3 8B", Layout(dp=8, zero=3), "H100", 8).to_json())
    assert modern["framework"] == "torchtitan" and 0 < modern["off"]["value"] < 1


def test_tables_are_written_as_csv(gpt3, tmp_path):
    text = gpt3.table.to_csv(tmp_path / "plan.csv")
    assert text == (tmp_path / "plan.csv").read_text()
    rows = {row["what"]: row for row in csv.DictReader(io.StringIO(text))}
    assert float(rows["step"]["value"]) == float(gpt3.time) and rows["step"]["unit"] == "s"
    assert rows["compute"]["formula"] == gpt3.time.part("compute").steps
    table = Table([{"a": 1.25, "b": None, "c": "x, y"}], [Column("a", show="{:.0f}".format), Column("b")])
    assert table.to_csv() == 'a,b,c\n1.25,,"x, y"\n'


def test_a_table_shows_formulas_with_their_values(gpt3):
    assert "each·P/N = 12·1.4618e9/8" in str(gpt3) and "tokens/s" in str(gpt3) and "1 = 1" not in str(gpt3)


def test_plans_side_by_side_name_what_differs(gpt3):
    other = plan("GPT-3 175B", LAYOUT, "H100", 1536)
    assert "1,024 × H100" in str(comparison([gpt3, other])) and "1,024 ×" not in str(comparison([gpt3, gpt3]))
    assert "tokens/s/device" in str(comparison([gpt3]))


def test_memory_by_stage_is_drawn(gpt3):
    words = stage_memory_figure(gpt3.memory_by_stage, float(gpt3.limit)).words
    assert words.count("stage") == 17 and f"stage 0: {float(gpt3.memory) / 1e9:.1f} GB" in words and "Limit: " in words
    modern = plan("Llama 3 8B", Layout(dp=8, zero=3, recompute="full"), "H100", 8, framework="torchtitan")
    kept = sum(float(modern.memory.part(name)) for name in ("framework and libraries", "held by the allocator, not in use"))
    assert f"framework, allocator {kept / 1e9:.1f} GB" in stage_memory_figure(modern.memory_by_stage, 80e9).words
    many = plan("GPT-3 175B", Layout(dp=1, tp=8, pp=96, zero=0, recompute="full"), "A100", 128)
    assert "19 of 96 shown" in stage_memory_figure(many.memory_by_stage, 80e9).words
    alike = plan("GPT-3 175B", Layout(tp=8, pp=4, schedule="GPipe", recompute="full"), "A100", 4)
    assert "stages 1–2" in stage_memory_figure(alike.memory_by_stage, 80e9).words
    with pytest.raises(ValueError, match="one or more stages"):
        stage_memory_figure([], 80e9)


def test_a_report_is_one_page_with_verdict_budget_and_formulas(gpt3, tmp_path):
    file = gpt3.report(tmp_path / "report.html", tokens=300e9, price_per_device_hour=2, watts_per_device=600, goodput=0.95)
    text = file.read_text(encoding="utf-8")
    assert file.stat().st_size < 300_000 and "http://" not in text and "https://" not in text and "src=\"data:" in text
    assert "It fits." in text and "days" in text and "kWh" in text and "95.0 %" in text
    assert "No communication is hidden" in text and "prefers-color-scheme: dark" in text and "@media print" in text
    for part in gpt3.time.parts:
        assert part.name in text and (part.parts or part.filled.replace("'", "&#39;") in text)
    large = plan("Llama 3 8B", Layout(), "H100", 8, assumptions=Assumptions(hidden_dp=0.5, activation_bytes=4))
    text = large.report(tmp_path / "large.html").read_text(encoding="utf-8")
    assert "It doesn&#39;t fit." in text or "It doesn't fit." in text
    assert "50 % of DP&#39;s" in text and "Activation bytes: 4." in text and "kWh" not in text and "±" not in text
    modern = plan("Llama 3 8B", Layout(dp=8, zero=3), "H100", 8, framework="Megatron-Bridge")
    words = " ".join(assumptions_in_words(modern))
    assert "as Megatron-Bridge trains" in words and "80 % of tensor parallelism" in words and "0.15" not in words
    explained = gpt3.report(tmp_path / "goodput.html", tokens=300e9, goodput=goodput(60, 1e5, 600))
    explained = explained.read_text(encoding="utf-8")
    assert "exp(R/M)" in explained and "failures and checkpoints" not in explained and "failures and checkpoints" in text
    with pytest.raises(ValueError, match="give its tokens"):
        large.report(tmp_path / "none.html", price_per_device_hour=2)


# Failures

def test_failures_are_those_of_llama_3():
    each = device_mtbf(466, 54, 16_384)
    run = run_mtbf(each, 16_384)
    assert float(run) / 3600 == pytest.approx(54 * 24 / 466) and float(each) == pytest.approx(45_565, rel=1e-4)
    size = checkpoint_size(model_named("Llama 3 405B"), ZERO_16)
    assert float(size) == 14 * 405_853_388_800
    stalled = checkpoint_time(size, 2e12)  # its storage, sustained
    assert goodput(stalled, run, 600) > 0.9  # "higher than 90% effective training time"


def test_the_best_interval_loses_least_and_is_young_s_for_short_checkpoints():
    best = float(checkpoint_interval(60, 10_000))
    assert best == pytest.approx(float(checkpoint_interval(60, 10_000, "Young")), rel=0.06)
    assert float(checkpoint_interval(60, 10_000, "Young")) == pytest.approx((2 * 60 * 10_000) ** 0.5)
    at = {scale: float(goodput(60, 10_000, 300, scale * best)) for scale in (0.8, 0.99, 1, 1.01, 1.25)}
    assert max(at, key=at.get) in (0.99, 1, 1.01) and at[1] > at[0.8] and at[1] > at[1.25]
    assert float(goodput(60, 10_000, 300)) == at[1] and float(checkpoint_interval(300, 100)) == 100
    # few failures: what is lost is checkpoints, half an interval each failure, and restarts
    assert 1 - float(goodput(10, 1e6, 100, 5000)) == pytest.approx(10 / 5010 + (5010 / 2 + 100) / 1e6, rel=0.01)


@pytest.mark.parametrize(("ask", "words"), [
    (lambda: checkpoint_interval(60, 0), "mtbf_s must be positive"), (lambda: goodput(60, 1e4, -1), "restart_s must not be"),
    (lambda: checkpoint_interval(60, 1e4, "Daily"), "Young"),
    (lambda: device_mtbf(0, 54, 8), "interruptions must be at least 1"),
    (lambda: goodput(60, 5, 600), "no training goes on"),
])
def test_failures_that_cannot_be_are_refused_in_words(ask, words):
    with pytest.raises(ValueError, match=words):
        ask()


# Commands

def test_plan_prints_what_python_says(capsys, gpt3):
    code, out, _ = said(capsys, "plan", *GPT3)
    assert code == 0 and out.rstrip() == str(gpt3).rstrip()


def test_a_plan_s_options_mean_what_they_say(capsys):
    code, out, _ = said(capsys, *shlex.split(
        "plan --model 'Mixtral 8x7B' --sequence 4096 --devices 64 --batch 128 --tp 2 --pp 4 --chunks 2 --ep 8 --zero 1 "
        "--fused-attention --causal --hidden dp=1,tp=0.5 --rails 4 --dtype float8_e4m3fn --efficiency 0.5 --state ZERO_16 "
        "--usable 0.9 --no-dropout --micro-batch 2 --json -"))
    read = json.loads(out)
    assert code == 0
    expected = {"dp": 8, "tp": 2, "pp": 4, "ep": 8, "chunks": 2, "zero": 1, "micro_batch": 2, "schedule": "interleaved"}
    assert {name: read["layout"][name] for name in expected} == expected
    assumed = read["assumptions"]
    assert (assumed["hidden_dp"], assumed["hidden_tp"], assumed["rails"], assumed["efficiency"]) == (1, 0.5, 4, 0.5)
    assert assumed["fused_attention"] and assumed["causal"] and assumed["dtype"] == "float8_e4m3fn"
    assert read["state"]["optimizer"] == 12 and read["usable"] == 0.9 and not read["dropout"]
    assert read["model"]["sequence"] == 4096 and read["global_batch"] == 128


def test_options_change_what_a_framework_does_and_no_more(capsys):
    asked = ["plan", "--model", "Llama 3 8B", "--devices", "8", "--batch", "8", "--zero", "3", "--json", "-"]
    usual, changed, other = (json.loads(said(capsys, *asked, *more)[1]) for more in (
        [], ["--efficiency", "0.5", "--dtype", "float8_e4m3fn"], ["--framework", "FSDP"]))
    python = plan("Llama 3 8B", Layout(dp=8, zero=3), "H100", 8)
    assert usual == python.to_dict() and usual["framework"] == changed["framework"] == "torchtitan"
    assert changed["state"] == usual["state"] and not changed["dropout"] and other["framework"] == "FSDP"
    differing = {name for name in usual["assumptions"] if usual["assumptions"][name] != changed["assumptions"].get(name)}
    assert {"efficiency", "dtype"} <= differing <= {"efficiency", "dtype", "gathered_input_bytes"}
    code, _, err = said(capsys, *asked, "--framework", "Megatron-Lm2")
    assert code == 2 and "did you mean 'Megatron" in err
    code, out, _ = said(capsys, "search", *asked[1:7], "--framework", "torchtitan", "--keep", "1")
    assert code == 0 and out.startswith(str(search("Llama 3 8B", "H100", 8, 8, keep=1, framework="torchtitan")))


def test_search_finds_what_python_finds_and_says_when_nothing_fits(capsys):
    asked = ["search", "--model", "Llama 3 8B", "--devices", "8", "--batch", "8", "--keep", "3"]
    code, out, _ = said(capsys, *asked)
    assert code == 0 and out.startswith(str(search("Llama 3 8B", "H100", 8, 8, keep=3)))
    code, out, _ = said(capsys, *asked, "--json", "-")
    assert code == 0 and len(json.loads(out)) == 3
    code, out, err = said(capsys, "search", "--model", "Llama 3 405B", "--devices", "8", "--batch", "8")
    assert code == 1 and out == "" and "No layout fits" in err and "do not fit" in err


def test_compare_names_what_cannot_run(capsys):
    code, out, err = said(capsys, "compare", *GPT3[:-7], "--zero", "1", "--vary", "tp=4,8,16")
    assert code == 0 and out.count("DP") == 2 and "tp=16" in err and "nodes of 8" in err
    code, out, _ = said(capsys, *shlex.split(
        "compare --model 'Llama 3 8B' --devices 64 --batch 64 --device A100,H100 --layout zero=3,recompute=full "
        "--layout tp=8,sp=1 --csv -"))
    rows = list(csv.DictReader(io.StringIO(out)))
    assert [row["cluster"] for row in rows] == ["64 × A100"] * 2 + ["64 × H100"] * 2 and "SP" in rows[1]["layout"]
    assert float(rows[0]["time_s"]) > float(rows[2]["time_s"])
    code, out, _ = said(capsys, "compare", "--model", "Llama 3 8B", "--zero", "3", "--batch", "64", "--vary", "devices=8,16")
    assert code == 0 and "8 × H100" in out and "16 × H100" in out
    code, out, _ = said(capsys, *COMPARED, "--vary", "sequence=1024,2048")
    assert code == 0 and "sequence" in out and "1,024" in out


@pytest.mark.parametrize(("arguments", "words"), [
    (["plan", "--model", "Llama 3 9B", "--devices", "8", "--batch", "8"], "did you mean 'Llama 3 8B'"),
    (["plan", "--model", "none/config.json", "--devices", "8", "--batch", "8"], "none/config.json: No such file"),
    (["plan", "--devices", "8", "--batch", "8"], "--model is needed"), (GPT[:3], "--devices is needed"),
    (GPT, "--batch is needed"), ([*GPT, "--batch", "8", "--tp", "3"], "does not divide 8 devices"),
    ([*GPT, "--dp", "4", "--batch", "8"], "takes 4 devices, not 8"),
    ([*GPT, "--batch", "8", "--device", "H101"], "did you mean 'H100'"),
    (["plan", "--model", "GPT 22B", "--devices", "16", "--batch", "16", "--device", "H100 node"], "has 8 devices"),
    ([*GPT, "--batch", "8", "--price", "2"], "give its --tokens, or --days, too"),
    ([*GPT, "--batch", "8", "--tokens", "many"], "such as 300e9 or 15T"),
    ([*GPT, "--batch", "8", "--hidden", "dp"], "shares such as dp=1"),
    ([*GPT, "--batch", "8", "--hidden", "dp=3"], "from 0"),
    (["plan", "--modle", "GPT 22B"], "unrecognized arguments"), (["plane"], "invalid choice"), ([], "required"),
    ([*COMPARED, "--vary", "tpp=2"], "did you mean 'tp'"), ([*COMPARED, "--vary", "tp"], "says no value"),
    ([*COMPARED, "--vary", "tp=x"], "tp must be a whole number"), ([*COMPARED, "--tp", "3"], "none of them can run"),
])
def test_errors_are_one_sentence_and_exit_code_2(capsys, arguments, words):
    code, out, err = said(capsys, *arguments)
    assert code == 2 and out == "" and words in err and err.count("\n") == 1 and err.startswith("python -m utils.planner")


def test_lists_say_all_there_is(capsys):
    for command, known in (("models", utils.planner.MODELS), ("clusters", utils.planner.CLUSTERS)):
        code, out, _ = said(capsys, command)
        assert code == 0 and all(name in out for name in known)
        rows = json.loads(said(capsys, command, "--json", "-")[1])
        assert len(rows) == len(known)


def test_devices_are_calibrated_by_steps_of_one_s_own(capsys, tmp_path, monkeypatch):
    lines = (ROOT / "utils" / "costs" / "data" / "published_steps.csv").read_text(encoding="utf-8").splitlines(keepends=True)
    (tmp_path / "steps.csv").write_text("".join(lines[:3]))
    code, out, _ = said(capsys, "calibrate", "--steps", str(tmp_path / "steps.csv"), "--json", "-")
    found = json.loads(out)
    assert code == 0 and 0.2 < found["shares"]["H100 SXM 96 GB 500 W"]["products"] < 0.9 and found["off"]["mean"] < 0.3
    (tmp_path / "steps.csv").write_text("".join(lines[:2])[:-60])
    code, out, err = said(capsys, "calibrate", "--steps", str(tmp_path / "steps.csv"))
    assert code == 2 and "row 1" in err and err.count("\n") == 1
    monkeypatch.setattr("utils.planner.command.accuracy_page", lambda: "# The page\n")
    assert said(capsys, "accuracy")[:2] == (0, "# The page\n")


def test_help_explains_every_option(capsys):
    for command in COMMANDS:
        code, out, _ = said(capsys, command, "--help")
        assert code == 0 and max(map(len, out.splitlines())) <= 110
        options = re.findall(r"^  (--[a-z-]+[^\n]*)\n(?:  (  +\S.*))?", out, re.MULTILINE)
        assert (options or command == "accuracy") and all(re.search(r"\S  +\S", line) or after for line, after in options)


def test_it_runs_as_a_module():
    done = subprocess.run([sys.executable, "-X", "importtime", "-m", "utils.planner", "clusters"], cwd=ROOT, text=True,
                          capture_output=True, check=True)
    assert "TPU v5p torus" in done.stdout
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "torch" in loaded and not loaded & {"matplotlib", "jinja2", "IPython"}


def test_a_job_of_another_tool_is_planned_and_options_change_it(capsys, tmp_path):
    (tmp_path / "job.toml").write_text(blocks("toml")[0])
    (tmp_path / "job.sh").write_text(
        "torchrun --nproc-per-node 8 --nnodes 2 pretrain_gpt.py --num-layers 32 --hidden-size 4096 --num-attention-heads 32 "
        "--seq-length 2048 --micro-batch-size 1 --vocab-size 51200 --bf16 --tensor-model-parallel-size 8\n")
    code, out, err = said(capsys, "plan", "--job", str(tmp_path / "job.toml"), "--devices", "64", "--json", "-")
    assert code == 0 and json.loads(out)["layout"]["zero"] == 3 and "torchtitan: Llama 3 8B" in err
    changed = shlex.split("--tp 4 --batch 32 --causal --json -")
    code, out, err = said(capsys, "plan", "--job", str(tmp_path / "job.sh"), *changed)
    read = json.loads(out)
    assert code == 0 and "Megatron-LM" in err and read["layout"]["dp"] == 4 and read["layout"]["tp"] == 4
    assert read["global_batch"] == 32 and read["assumptions"]["causal"] and read["dropout"]


def test_a_cluster_of_one_s_own_is_read(tmp_path):
    ours = cluster_from_json({"like": "H100", "n_devices": 64, "between": {"bytes_per_s": 25e9},
                              "device": {"memory_bytes": 96e9}})
    usual = cluster_named("H100")
    assert ours.between.bytes_per_s == 25e9 and ours.between.latency_s == usual.between.latency_s
    assert ours.device.memory_bytes == 96e9 and ours.device.flops == usual.device.flops and ours.topology == usual.topology
    whole = {"name": "ours", "n_devices": 4, "devices_per_node": 4,
             "inside": {"name": "PCIe", "latency_s": 5e-6, "bytes_per_s": 2e10},
             "device": {"name": "L4", "flops": {"bfloat16": 121e12}, "memory_bytes": 24e9, "memory_bytes_per_s": 3e11}}
    (tmp_path / "ours.json").write_text(json.dumps(whole))
    assert cluster_from_json(tmp_path / "ours.json").device.name == "L4"
    for change, words in (({"lik": "H100"}, "did you mean 'like'"), ({"inside": {"speed": 1}}, "no entry of inside called"),
                          ({"inside": {"name": "PCIe"}}, "a cluster's inside lacks"), ({"device": 3}, "must be a dict")):
        with pytest.raises((TypeError, ValueError), match=words):
            cluster_from_json({**whole, **change})
    with pytest.raises(ValueError, match="needs name, device"):
        cluster_from_json({})


# The page

def test_every_command_of_the_page_runs_as_written(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (config, cluster), (job,) = blocks("json"), blocks("toml")
    for name, text in (("config.json", config), ("cluster.json", cluster), ("job.toml", job)):
        assert f"`{name}`" in PAGE
        (tmp_path / name).write_text(text)
    lines = [line for block in blocks("sh") for line in block.replace("\\\n", "").splitlines()]
    assert len(lines) == 9 and {line.split()[3] for line in lines} == COMMANDS.keys() - {"calibrate", "accuracy", "measure"}
    for line in lines:
        program, arguments = line.split()[:3], shlex.split(line)[3:]
        code, out, err = said(capsys, *arguments)
        assert program == ["python", "-m", "utils.planner"] and code == 0 and (out or "written" in err), line
    assert {"report.html", "plan.json", "tp.csv"} <= {file.name for file in tmp_path.iterdir()}
    (tmp_path / "report.html").unlink()
    exec(compile(blocks("python")[0], "the page", "exec"), {})
    assert "±" in (tmp_path / "report.html").read_text(encoding="utf-8") and "$" in capsys.readouterr().out


def test_the_page_is_short_and_linked():
    assert len(PAGE.split()) <= 700 and "docs/planner.md" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_what_a_search_finds_is_said_as_options_that_plan_it(capsys):
    usual = ["--model", "Llama 3 8B", "--batch", "64", "--devices", "16", "--framework", "Megatron-LM"]
    assert main(["search", *usual, "--keep", "2"]) == 0
    out = capsys.readouterr().out
    assert "fit into 90 % of a device's memory" in out
    options = out.rpartition("beside those given here: ")[2].split()
    assert main(["plan", *usual, *options]) == 0
    layout = next(line for line in out.split("\n") if line.startswith("DP ")).partition("  ")[0]
    assert layout in capsys.readouterr().out


def test_days_are_tokens_and_dtypes_have_short_names(capsys):
    usual = ["plan", "--model", "Llama 3 8B", "--batch", "16", "--devices", "16", "--zero", "3", "--dtype", "fp8"]
    assert main([*usual, "--days", "2", "--price", "3"]) == 0
    out = capsys.readouterr().out
    assert "device hours: 768 h" in out and "$2,304" in out


def test_a_model_of_an_unknown_type_is_planned_as_a_decoder_and_said_so(tmp_path, capsys):
    config = {"model_type": "jamba2", "hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32,
              "num_attention_heads": 32, "vocab_size": 32000, "max_position_embeddings": 4096, "rms_norm_eps": 1e-5}
    file = tmp_path / "config.json"
    file.write_text(json.dumps(config))
    assert main(["plan", "--model", str(file), "--batch", "16", "--devices", "16", "--zero", "3"]) == 0
    assert "Note: " in (said := capsys.readouterr().err) and "read by its fields, as a decoder" in said


def test_a_step_that_cannot_be_is_named(tmp_path, capsys):
    rows = read_table("published_steps")[:2]
    rows[1]["tp"] = 3
    file = tmp_path / "steps.csv"
    file.write_text("\n".join(",".join(str(value if value is not None else "") for value in cells)
                              for cells in (rows[0], *(row.values() for row in rows))).replace(", FP8", " FP8"))
    assert main(["calibrate", "--steps", str(file)]) == 2
    assert "row 2, L3 8B 8xH100 same FP8: " in capsys.readouterr().err


def test_this_machine_is_measured_and_planned_with(tmp_path, capsys):
    file = tmp_path / "here.json"
    assert main(["measure", "--seconds", "1", "--on", "cpu", "--json", str(file), "--csv", "-"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    shares = [float(row["share"]) for row in rows if row["what"].startswith("product")]
    assert max(shares) == 1 and len(shares) == 3 and all(float(row["value"]) > 0 for row in rows)
    here = cluster_from_json(file)
    assert here.device.flops["float32"] == max(float(row["value"]) for row in rows if row["what"].startswith("product"))
    assert here.device.efficiency == sorted(shares)[1]
    assert main(["plan", "--model", "Gemma 2 2B", "--device", str(file), "--devices", "2", "--batch", "2", "--tp", "2",
                 "--dtype", "float32"]) == 0
    assert "processors of this machine" in capsys.readouterr().out
    assert main(["measure", "--seconds", "0"]) == 2 and "seconds must be positive" in capsys.readouterr().err
