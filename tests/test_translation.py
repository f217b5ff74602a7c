"""What students are told in another language: unit 00 in Chinese, whole; and English stays as it is."""

import re
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import nbformat
import pytest
from markupsafe import Markup
from nbformat.v4 import new_code_cell, new_notebook

from grader.__main__ import main
from grader.bundle import archive
from grader.checks import trials_of, tried_on
from grader.course import feedback, mark, student_page
from grader.course.assigning import assigned
from grader.course.cell import LANGUAGE, language_of
from grader.course.course_file import Assigned, CourseFile
from grader.course.student_page import Row
from grader.exercises import order_of
from grader.exercises.references import mistakes_of
from grader.judging.html import fill_in
from grader.judging.judge import judge
from grader.judging.verdict import Verdict
from grader.translation import catalogues
from grader.translation.catalogues import State, fields_in, file_of, state_of, text_of, updated
from grader.translation.sentences import GENERAL, SOURCES, sentences, sentences_in
from tests.many import in_short_time
from utils.deadlocks.errors import BadValue
from utils.languages import choice
from utils.languages.catalogue import Catalogue
from utils.languages.choice import ENGLISH, VARIABLE, languages, speaking, translated

UNIT = "00_start_here"  # of which every verdict is in Chinese
ROOT = Path(__file__).parents[1]
CATALOGUES = [(language, name) for language in languages() if language != ENGLISH
              for name in SOURCES if file_of(language, name).exists()]
MISTAKES = [(name, mistake) for name in order_of(UNIT) for mistake in mistakes_of(UNIT, name)[::4]]
QUOTED = re.compile(r"""`[^`]*`|'[^']*'|\([^()]*\)|\b\w*Error: .*|第 \d+ 行：.*|位于：.*""")  # code, and what Python said
COMMON = "an|and|are|at|for|in|is|not|of|one|the|then|to|was"
ENGLISH_WORDS = re.compile(rf"\b[A-Za-z]{{2,}}(?: [A-Za-z]{{2,}})+|(?<![.\w])(?:{COMMON})\b")
TERMS = re.compile(r"\b(world size|rank|raise NotImplementedError)\b")  # which Chinese texts leave in English


def english_in(text: str) -> list[str]:
    """Two English words or more that follow each other, and common ones, outside code."""
    return ENGLISH_WORDS.findall(TERMS.sub("…", QUOTED.sub("…", text)))


def waiting() -> list[str]:
    """Sentences that were written or changed since somebody translated."""
    states = [state_of(name, updated("zh", name)) for name in (GENERAL, UNIT)]
    return [text for state in states for text in (*state.untranslated, *state.unsure)]


# ── one unit in Chinese ──


@pytest.fixture(scope="module")
def verdicts(warm) -> dict[str, tuple[Verdict, Verdict]]:
    """Of wrong answers, judged in English and in Chinese, from the same evidence."""
    found = {}
    for name, mistake in MISTAKES:
        exercise, trials = in_short_time(name), trials_of(name)[:4]
        evidences = list(tried_on(exercise, mistake.make(), trials, warm(exercise)))
        with speaking("zh"):
            chinese = judge(exercise, trials, evidences)
        found[f"{name}: {mistake.id}"] = judge(exercise, trials, evidences), chinese
    return found


def test_points_are_those_of_the_english_verdict(verdicts):
    assert len(verdicts) >= 15
    assert {what for what, (english, chinese) in verdicts.items() if english.record() != chinese.record()} == set()


def test_some_of_them_stand_still_raise_and_return(verdicts):
    endings = {case.ending for english, _ in verdicts.values() for case in english.cases}
    assert endings == {"returned", "raised", "deadlocked"}


def test_a_verdict_has_no_english_sentence(verdicts):
    if left := waiting():
        pytest.xfail(f"these wait for a translator: {left}")
    with speaking("zh"):
        shown = {what: f"{verdict}\n{feedback.as_text(verdict)}" for what, (_, verdict) in verdicts.items()}
    assert {what: english for what, text in shown.items() if (english := english_in(text))} == {}


def test_the_search_for_english_finds_some(verdicts):
    assert all(english_in(str(verdict)) and english_in(feedback.as_text(verdict)) for verdict, _ in verdicts.values())


def test_numbers_and_code_survive(verdicts):
    for verdict, _ in verdicts.values():
        for show in (str, feedback.as_text):
            with speaking("zh"):
                chinese = show(verdict)
            numbers, names = re.compile(r"\d+(?:\.\d+)?"), re.compile(r"\w+(?:[._]\w+)*\(|\b[a-z]+_[a-z_]+")
            assert Counter(numbers.findall(chinese)) == Counter(numbers.findall(show(verdict))), chinese
            assert set(names.findall(re.sub("[一-鿿]", " ", chinese))) == set(names.findall(show(verdict))), chinese


def test_the_page_says_the_same_and_in_which_language(verdicts):
    for verdict, _ in verdicts.values():
        assert "lang=" not in verdict._repr_html_() + feedback.as_html(verdict)
        with speaking("zh"):
            pages, texts = (verdict._repr_html_(), feedback.as_html(verdict)), (str(verdict), feedback.as_text(verdict))
        for page, text in zip(pages, texts, strict=True):
            assert page.startswith('<div lang="zh"')
            words = re.compile("[一-鿿]+")
            assert set(words.findall(re.sub("<[^>]*>", " ", page))) >= set(words.findall(text)) - {"技巧"}


def test_a_marked_notebook_speaks_the_language_of_the_released_one(verdicts):
    english, _ = verdicts[next(iter(verdicts))]
    marks = mark.Marks(0, verdicts={english.exercise: english})
    for language, words in (("zh", "分中得"), ("tlh", " points ("), (None, " points (")):  # nobody speaks the second here
        check = new_code_cell(metadata={"nbgrader": {"grade_id": f"{english.exercise}_check", "grade": True}})
        notebook = new_notebook(cells=[check], metadata={LANGUAGE: language} if language else {})
        mark._show_verdicts(notebook, marks)
        assert all(words in text for text in check.outputs[0].data.values())


def test_the_page_of_feedback_has_no_english_but_the_student_s():
    verdict, words = Markup("<b>判定</b>"), "x = 1  # all my own words"
    row = Row("reduce", "归约", "2", "4", "", verdict, words, ("well done, Ann",), by_hand=True)
    page = {"unit": "u", "title": "t", "student": "ann", "name": "Ann Lee", "rows": [row], "total": "2", "most": "4",
            "penalty": "1", "late": "2 days × 10 %"}
    with speaking("zh"):
        text = fill_in(student_page.__file__, remarks=[feedback.sentence("nothing is written in it")], **page)
    assert '<html lang="zh">' in text and "里面什么也没有写。" in text and "：2 天 × 10 %。" in text
    body = re.sub("<[^>]*>", " ", text.partition("<main>")[2])
    assert english_in(body) == ["Ann Lee", "well done", "well done", "all my own words"]  # the comment also says why
    assert '<html lang="en">' in fill_in(student_page.__file__, remarks=[], **page)


def test_an_error_is_shown_in_chinese_and_raised_in_english():
    error = BadValue("world_size must be from 1 to 64; got 65")
    with speaking("zh"):
        assert error._render_traceback_() == ["BadValue: world_size 必须在 1 到 64 之间；得到的是 65"]
    assert str(error) == "world_size must be from 1 to 64; got 65" and str(error) in error._render_traceback_()[0]


# ── catalogues and sources ──


@pytest.mark.parametrize("language, name", CATALOGUES)
def test_a_catalogue_has_the_sentences_of_the_sources_and_their_fields(language, name):
    """`python -m grader translate LANGUAGE` brings it up to date."""
    here, told = catalogues.read_catalogue(file_of(language, name)), set(sentences(name))
    assert {message.id for message in here if message.id} == told
    assert {m.id for m in here if m.id and m.string and not m.fuzzy and fields_in(m.id) != fields_in(m.string)} == set()


def test_chinese_is_there_for_a_whole_unit():
    assert {("zh", GENERAL), ("zh", UNIT)} <= set(CATALOGUES)


@pytest.mark.parametrize("source, found", [
    ('"""Not this."""\nsay(f"rank {rank} waits for {a.peer} in {call()}")', ["rank {rank} waits for {peer} in {call}"]),
    ('f"{n} message{\'s\' * (n > 1)} came"', ["{n} messages came", "{n} message came"]),
    ('f"{\'every rank\' if all else who + \' alone\'} waits"', ["every rank waits", "{who} alone waits"]),
    ('"none of " + f"{len(x)} came"', ["none of {len} came"]), ('counted(n, "rank")', ["{n} rank", "{n} ranks"]),
    ('TEXT = "first {}, then {}"', ["first {value}, then {value_2}"]), ('raised("not this one", "id")', []),
    ('def f(x: "not this one") -> "nor this": pass', []), ('f"{a}{b} stay, {a} goes"', ["{a} stay, {a} goes"]),
])
def test_sentences_are_found_with_their_fields(tmp_path, source, found):
    (tmp_path / "module.py").write_text(source)
    texts = [text for text, _ in sentences_in(tmp_path / "module.py")]
    assert [text for text in texts if " " in text.strip()] == found


@pytest.fixture
def another(tmp_path, monkeypatch):
    """A folder of catalogues, and the sentences of a course that has two."""
    monkeypatch.setattr(catalogues, "HERE", tmp_path)
    told = {"rank {rank} waits": ["a.py"], "no rank waits": ["a.py"]}
    monkeypatch.setattr(catalogues, "sentences", lambda name: told)
    monkeypatch.setattr("grader.translation.command.SOURCES", {GENERAL: ()})
    return told


def test_the_command_writes_a_catalogue_and_says_what_is_new_gone_and_wrong(another, capsys):
    assert main(["translate", "de", "--check"]) == 1 and not file_of("de", GENERAL).exists()
    assert main(["translate", "de"]) == 0
    assert "0 of 2 translated" in capsys.readouterr().out
    file = file_of("de", GENERAL)
    file.write_text(file.read_text().replace('waits"\nmsgstr ""', 'waits"\nmsgstr "Rang {rang} wartet"', 1)
                    .replace('no rank waits"\nmsgstr ""', 'no rank waits"\nmsgstr "Kein Rang wartet"'))
    assert main(["translate", "de", "--check"]) == 1
    assert "other fields in braces than the English text: 1" in capsys.readouterr().out
    file.write_text(file.read_text().replace("{rang}", "{rank}"))
    assert main(["translate", "de", "--check"]) == 0 and "2 of 2 translated" in capsys.readouterr().out
    del another["no rank waits"]
    another["an entirely different text about gradients"] = ["a.py"]
    assert main(["translate", "de", "--check"]) == 1
    out = capsys.readouterr().out
    assert "not translated: 1, such as 'an entirely different" in out and "gone: 1, such as 'no rank waits'" in out
    main(["translate", "de"])
    assert '#~ msgid "no rank waits"' in file.read_text()


def test_a_changed_sentence_keeps_its_translation_as_unsure_and_it_is_not_shown(another):
    catalogue = updated("de", GENERAL)
    catalogue["no rank waits"].string = "Kein Rang wartet"
    file_of("de", GENERAL).parent.mkdir()
    file_of("de", GENERAL).write_bytes(text_of(catalogue))
    del another["no rank waits"]
    another["no rank waits now"] = ["a.py"]
    state = state_of(GENERAL, updated("de", GENERAL))
    assert state.unsure == ("no rank waits now",) and not state.in_order
    assert isinstance(state, State) and state.total == 2


@pytest.mark.parametrize("arguments, words", [
    (["deutsch"], "no code of a language"), (["de", "99_none"], "no catalogue 99_none")])
def test_the_command_refuses_what_it_does_not_know(arguments, words, capsys):
    assert main(["translate", *arguments]) == 2
    assert words in capsys.readouterr().err


# ── a course in another language ──


def test_the_archive_has_the_catalogues_of_its_units_and_the_course_s_language():
    everything = archive.languages()
    assert {f"utils/languages/{language}/{name}.po" for language, name in CATALOGUES} == everything.keys()
    course = CourseFile(units={"01_collectives": Assigned("01_collectives", ())}, language="zh")
    packed = archive.languages(course)
    assert set(packed) == {"course.toml", "utils/languages/zh/general.po"} and packed["course.toml"] == 'language = "zh"\n'


def test_a_students_copy_speaks_the_language_that_its_archive_names(monkeypatch, tmp_path):
    monkeypatch.delenv(VARIABLE)
    for text, language in (('language = "zh"\n', "zh"), ("title = 3", ENGLISH), ("language = 3", ENGLISH), ("", ENGLISH)):
        (tmp_path / "course.toml").write_text(text)
        monkeypatch.setattr(choice, "_COURSE", tmp_path / "course.toml")
        choice._of_the_course.cache_clear()
        assert choice.language() == language
    choice._of_the_course.cache_clear()


def test_an_assigned_notebook_names_the_course_s_language():
    solutions = nbformat.read(ROOT / "solutions" / UNIT / f"{UNIT}.ipynb", as_version=4)
    unit = Assigned(UNIT, order_of(UNIT))
    assert language_of(assigned(solutions, unit, CourseFile(units={UNIT: unit}, language="zh"))) == "zh"
    assert LANGUAGE not in assigned(solutions, unit, CourseFile(units={UNIT: unit})).metadata


# ── looking up ──

TOY = Catalogue({
    "rank {rank} waits for {whom} in {call}": "{call}：{rank} ← {whom}", "ranks {a} and {b}": "{a}/{b}",
    "Hint: {text}": "提示：{text}", "Stop here. Then go on.": "停。走。", "Likely fix: {fix}": "修改：{fix}",
    "a b c": "甲乙丙", "one": "一", "two": "二", ", ": "、", "{a} of {b}": "{b} 中 {a}",
    "{place}, line {number}: {code}": "{place} 第 {number} 行：{code}", "{x} was changed": "{x} 变了",
    ", then ": "，又 ", "{n} rank": "{n} 个 rank", "one rank": "一 rank",
    "{x} ({n} was changed)": "{x} ({n} 变了)"})


@pytest.mark.parametrize("text, wanted", [
    ("rank 0 waits for ranks 1 and 2 in recv(src=1)", "recv(src=1)：0 ← 1/2"),  # what a field holds is looked up too
    ("  a b c\n    one", "  甲乙丙\n    一"),
    ("Hint: Stop here. Then go on. Unknown.", "提示：停。走。Unknown."),
    ("Likely fix: a b\n  c", "修改：甲乙丙"),
    ("one, two", "一、二"),
    ("2 of 3", "3 中 2"),
    ("KeyError: a b c", "KeyError: 甲乙丙"),
    ("a name: Stop here. Then go on.", "a name: 停。走。"),
    ("a name — Stop here. Then go on.", "a name — 停。走。"),
    ("Cell In[1], line 2: print('one')", "Cell In[1] 第 2 行：print('one')"),
    ("'a', then 'b'", "'a'，又 'b'"),
    ("1 rank", "1 个 rank"),
    ("one, one rank", "一、一 rank"),
    ("one (1 was changed), two (2 was changed)", "一 (1 变了)、二 (2 变了)"),
    *((text, text) for text in ("one, three things", "some of them", "this piece of that cake", "'one'", "", "[1, 2]",
                                "(one, (two was changed", "unknown words")),
])
def test_a_text_is_translated_as_far_as_it_is_known(text, wanted):
    assert TOY.translated(text) == wanted


@pytest.mark.parametrize("text", ["rank 1 waits for ", "a: ", "one, ", "A b. ", "rank 1 ", "In the case “", "(one) and "])
@pytest.mark.parametrize("times", [100, 400, 10_000])
def test_looking_up_takes_neither_long_nor_too_many_calls(text, times):
    began = time.process_time()
    with speaking("zh"):
        translated(text * times)
    assert time.process_time() - began < 2


# ── English ──


def test_an_english_course_needs_no_catalogue_and_loads_none():
    """Nor does it read one: the catalogues' module is not even imported."""
    code = ("import sys, grader.judging.verdict as v; from grader.course import feedback\n"
            "verdict = v.Verdict('reduce', 'Reduce', (), (('id', 'Wait for it.'),), {'values': 1}, {'values': 2})\n"
            "print(verdict, feedback.as_html(verdict))\n"
            "print([name for name in sys.modules if name.startswith('babel') or name == 'utils.languages.catalogue'])")
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert run.stdout.startswith("Reduce: 1 of 2 points (values 1/2)\n  Hint: Wait for it. <div style=")
    assert run.stdout.endswith("\n[]\n")


def test_the_variable_chooses_and_a_language_that_is_not_there_is_english(monkeypatch):
    monkeypatch.setenv(VARIABLE, "zh")
    assert translated("Hint") == "提示"
    monkeypatch.setenv(VARIABLE, "tlh")
    with pytest.warns(UserWarning, match="no language 'tlh'; there are en, zh"):
        assert translated("Hint") == "Hint"
