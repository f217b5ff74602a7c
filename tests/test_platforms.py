"""What learning platforms give out and take back; layouts and tables of our own making, by their documentation."""

import csv
import datetime
import io
import zipfile
from subprocess import CalledProcessError

import pytest

from grader.course.folder import submission_in
from grader.course.platforms import (
    BadTable,
    HandedIn,
    Mark,
    copy_number,
    feedback_files,
    handed_in,
    marks_table,
    most_in,
    roster,
    without_copy_number,
)
from tests.course import Course
from tests.submissions import UNIT

WORKSHEET = (
    "\ufeffIdentifier,Full name,Email address,Status,Grade,Maximum grade,Grade can be changed,Last modified (submission),"
    "Last modified (grade),Feedback comments\r\n"
    'Participant 1000001,Ann Lee,ann@x.org,Submitted for grading,,26.00,Yes,"Monday, 3 May 2027, 6:21 PM",-,\r\n'
    'Participant 1000002,"Müller, Jörg",j@x.org,Submitted for grading - 2 hours late,,26.00,Yes,'
    '"Tuesday, 4 May 2027, 1:59 AM",-,\r\n'
    "Participant 1000003,Bo_Li,bo@x.org,No submission,,26.00,Yes,-,-,\r\n")
GRADEBOOK = (
    "Student,ID,SIS User ID,SIS Login ID,Section,Unit 01 (98765),Unit 02 (98766)\n"
    "    Points Possible,,,,,26,30\n"
    '"Wang, Wei",5009,u1,wangwei,L01,,\n"Wang, Wei",5010,u2,wangwei2,L01,,12\n"Student, Test",5999,,x,L01,,\n')


@pytest.mark.parametrize("platform, path, found", [
    ("moodle", "Ann Lee_1000001_assignsubmission_file_/01_collectives.ipynb",
     HandedIn("1000001", "Ann Lee", "01_collectives.ipynb", "Ann Lee_1000001_assignsubmission_file_")),
    ("moodle", "Ann Lee_1000001_assignsubmission_file_01_collectives (1).ipynb",
     HandedIn("1000001", "Ann Lee", "01_collectives (1).ipynb", "Ann Lee_1000001_assignsubmission_file_")),
    ("moodle", "PAR-Homework 1-77/Ann Lee_1000001_assignsubmission_file/deep/HW1_Dan.ipynb",
     HandedIn("1000001", "Ann Lee", "HW1_Dan.ipynb", "Ann Lee_1000001_assignsubmission_file_")),
    ("moodle", "Ann Lee_1000001_assignsubmission_onlinetext_/onlinetext.html", None), ("moodle", "index.html", None),
    ("canvas", "wangwei_5009_70001_01_collectives-1.ipynb",
     HandedIn("5009", "wangwei", "01_collectives-1.ipynb", "wangwei_5009_70001_", number=70001)),
    ("canvas", "submissions/wangwei_LATE_5010_70002_My Copy.ipynb",
     HandedIn("5010", "wangwei", "My Copy.ipynb", "wangwei_LATE_5010_70002_", late=True,
              number=70002)),
    ("canvas", "readme.txt", None), ("folder", "ann/work/x.ipynb", HandedIn("ann", "ann", "x.ipynb", "ann")),
    ("folder", "x.ipynb", None),
])
def test_a_path_says_whose_file_it_is(platform, path, found):
    assert handed_in(platform, path) == found


@pytest.mark.parametrize("file", ["01_collectives.ipynb", "01_collectives (1).ipynb", "01_collectives-2.ipynb",
                                  "01_collectives_(12).ipynb"])
def test_a_copy_s_number_is_no_part_of_its_name(file):
    assert without_copy_number(file) == "01_collectives.ipynb"


@pytest.mark.parametrize("file, number", [
    ("x.ipynb", 0), ("x (2).ipynb", 2), ("x-10.ipynb", 10), ("x_(12).ipynb", 12), ("01_collectives", 0)])
def test_a_copy_s_number_is_a_number(file, number):
    assert copy_number(file) == number


@pytest.mark.parametrize("status, until", [
    ("No submission - Extension granted until: Friday, 7 May 2027, 11:59 PM", datetime.datetime(2027, 5, 7, 21, 59)),
    ("Submitted for grading - Extension granted until: Friday, 7 May 2027, 11:59 PM - Graded",
     datetime.datetime(2027, 5, 7, 21, 59)),
    ("Submitted for grading", None)])
def test_moodle_s_worksheet_says_who_has_an_extension(status, until):
    table = WORKSHEET.replace("Submitted for grading,", f'"{status}",')
    assert roster("moodle", table, datetime.timezone(datetime.timedelta(hours=2)))[0].extension == until


def test_who_takes_part_is_in_the_platform_s_own_table():
    berlin = datetime.timezone(datetime.timedelta(hours=2))
    ann, joerg, bo = roster("moodle", WORKSHEET, berlin)
    assert (ann.id, ann.name, ann.when) == ("1000001", "Ann Lee", datetime.datetime(2027, 5, 3, 16, 21))
    assert joerg.name == "Müller, Jörg" and joerg.when == datetime.datetime(2027, 5, 3, 23, 59) and bo.when is None
    assert [student.id for student in roster("canvas", GRADEBOOK)] == ["5009", "5010"]
    with pytest.raises(BadTable, match="there is no column 'Identifier' or 'Full name'; there are 'Student', 'ID'"):
        roster("moodle", GRADEBOOK)
    with pytest.raises(BadTable, match=r"'ID-Nummer', 'Name'\. Moodle writes the worksheet .* switch Moodle to English"):
        roster("moodle", "ID-Nummer,Name\n1,Ann\n")


def test_moodle_takes_its_worksheet_back_with_the_grade_alone_changed():
    text = marks_table("moodle", "01", [Mark("1000002", 17.5, 26)], WORKSHEET)
    assert text.startswith("\ufeffIdentifier")
    assert marks_table("moodle", "01", [], WORKSHEET.removeprefix("\ufeff")).startswith("Identifier")
    row, = csv.DictReader(io.StringIO(text.removeprefix("\ufeff")))
    before = list(csv.DictReader(io.StringIO(WORKSHEET.removeprefix("\ufeff"))))[1]
    assert row == before | {"Grade": "17.5"}


def test_canvas_takes_the_columns_that_it_knows_students_by_and_one_assignment():
    text = marks_table("canvas", "unit 01", [Mark("5010", 20, 26), Mark("5009", 0, 26)], GRADEBOOK)
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [(row["ID"], row["Unit 01 (98765)"]) for row in rows] == [("5009", "0"), ("5010", "20")]
    assert list(rows[0]) == ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", "Unit 01 (98765)"]
    assert marks_table("canvas", "Unit 01 (98765)", [Mark("5010", 20, 26)], GRADEBOOK).startswith(",".join(rows[0]))


@pytest.mark.parametrize("title, words", [
    ("unit 1", "assignments are 'Unit 01', 'Unit 02': name yours with --title. Did you mean 'Unit 01'?"),
    ("01_collectives", "no assignment is called '01_collectives', and Canvas would make a new one of that name"),
    ("Section", "no assignment is called 'Section'")])
def test_a_name_that_no_assignment_has_makes_no_new_one(title, words):
    with pytest.raises(BadTable) as caught:
        marks_table("canvas", title, [Mark("5010", 20, 26)], GRADEBOOK)
    assert words in str(caught.value)


@pytest.mark.parametrize("platform, title, table, most", [
    ("moodle", "", WORKSHEET, 26), ("moodle", "", "Identifier,Full name,Grade\nParticipant 1,Ann,\n", None),
    ("canvas", "unit 02", GRADEBOOK, 30), ("folder", "", "id,name\n1,Ann\n", None)])
def test_the_table_says_how_many_points_there_are(platform, title, table, most):
    assert most_in(platform, title, table) == most


def test_feedback_goes_back_under_the_names_by_which_work_came():
    marks = [Mark("1", 3, 4, b"page", "Ann Lee_1_assignsubmission_file_"), Mark("2", 3, 4)]
    assert list(feedback_files("moodle", marks)) == [("Ann Lee_1_assignsubmission_file_/feedback.html", b"page")]
    assert list(feedback_files("canvas", [Mark("5", 3, 4, b"page", "wangwei_5_70001_")])) == [
        ("wangwei_5_70001_feedback.html", b"page")]


# ── the commands ──


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    return Course(tmp_path_factory.mktemp("platforms"), UNIT, ["ring_time"])


def download(folder, files: dict[str, bytes]):
    """An archive; its files are a minute apart, in this order."""
    with zipfile.ZipFile(folder / "download.zip", "w") as archive:
        for minute, (name, content) in enumerate(files.items()):
            archive.writestr(zipfile.ZipInfo(name, (2027, 5, 3, 10, minute, 0)), content)
    return str(folder / "download.zip")


def test_whatever_files_are_called_each_student_s_newest_notebook_comes_first(course, tmp_path):
    archive = download(tmp_path, {
        "Ann Lee_1000001_assignsubmission_file_/HW1_Dan.ipynb": b"old", "__MACOSX/._x.ipynb": b"mac",
        "Ann Lee_1000001_assignsubmission_file_/01_collectives (1).ipynb": b"new",
        "Müller, Jörg_1000002_assignsubmission_file_/01 COLLECTIVES-2.IPYNB": b"late",
        "Bo Li_1000003_assignsubmission_file_/report.pdf": b"%PDF"})
    (tmp_path / "worksheet.csv").write_text(WORKSHEET)
    arguments = ["collect", "moodle", archive, UNIT, "--roster", str(tmp_path / "worksheet.csv")]
    printed = course.grader(*arguments, "--dry-run")
    assert not (course.root / "submitted").exists()
    assert course.grader(*arguments) == printed
    for words in ("notebooks of 2 students", "Ann Lee, ann@x.org (01_collectives (1).ipynb of 2)", "nothing (1): Bo_Li",
                  "Not taken in (1): Bo Li: report.pdf"):
        assert words in printed
    folder = course.root / "submitted" / "ann@x.org" / UNIT
    assert (folder / "01_collectives.ipynb").read_bytes() == b"new" and (folder / "earlier-1.ipynb").read_bytes() == b"old"
    assert (course.root / "submitted" / "j@x.org" / UNIT / "timestamp.txt").read_text() == "2027-05-04 01:59:00 UTC\n"
    with course.gradebook() as gradebook:
        names = [(student.first_name, student.last_name) for student in gradebook.students]
        assert {("Jörg", "Müller"), ("Ann", "Lee")} <= {*names}


@pytest.mark.parametrize("platform, older_first", [
    ("moodle", ["a.ipynb", "a (1).ipynb", "a (2).ipynb", "a (10).ipynb"]),
    ("moodle", ["a.ipynb", "a-2.ipynb", "a-10.ipynb"]),
    ("canvas", ["99_b-3.ipynb", "101_a.ipynb"])])
def test_of_files_of_one_time_the_last_copy_is_the_newest(course, tmp_path, platform, older_first):
    start = "Di Roe_1000011_assignsubmission_file_/" if platform == "moodle" else "roedi_1000011_"
    with zipfile.ZipFile(tmp_path / "one.zip", "w") as archive:
        for name in older_first:
            archive.writestr(zipfile.ZipInfo(start + name, (2027, 5, 3, 10, 0, 0)), name)
    course.grader("collect", platform, str(tmp_path / "one.zip"), UNIT)
    folder = course.root / "submitted" / "1000011" / UNIT
    first, = folder.glob("[!e]*.ipynb")
    assert first.read_text() == older_first[-1] and (folder / "earlier-1.ipynb").read_text() == older_first[-2]


def test_a_student_s_own_names_of_her_files_are_kept(course, tmp_path):
    start = "Ed Poe_1000012_assignsubmission_file_/"
    course.grader("collect", "moodle", download(tmp_path, {
        f"{start}HW1.ipynb": b"1", f"{start}a/HW1.ipynb": b"2", f"{start}{UNIT} (1).ipynb": b"3"}), UNIT)
    submission = submission_in(course.root / "submitted" / "1000012" / UNIT, course.root, "1000012", UNIT)
    assert submission.called(submission.path) == f"{UNIT} (1).ipynb" and submission.found == ()
    assert submission.contents() == (b"3", (("HW1.ipynb", b"2"), ("HW1.ipynb (older)", b"1")))


def test_a_download_of_another_unit_is_refused_before_anything_is_written(tmp_path):
    course, other = Course(tmp_path / "course", UNIT, ["ring_time"]), "02_data_parallel"
    Course(tmp_path / "other", other, ["average_gradients"])
    (tmp_path / "other" / "notebooks" / other).rename(course.root / "notebooks" / other)
    notebooks = {unit: (course.root / "notebooks" / unit / f"{unit}.ipynb").read_bytes() for unit in (UNIT, other)}
    files = {f"S_{number}_assignsubmission_file_/x.ipynb": notebooks[unit]
             for number, unit in enumerate((other, other, UNIT))}
    arguments = ["collect", "moodle", download(tmp_path, files), UNIT]
    with pytest.raises(CalledProcessError) as caught:
        course.grader(*arguments)
    assert caught.value.returncode == 2 and not (course.root / "submitted").exists()
    assert f"2 of 3 students handed in the notebook of {other}, not of {UNIT}" in caught.value.stderr
    assert "notebooks of 3 students" in course.grader(*arguments, "--yes")
    assert "notebooks of 3 students" in course.grader("collect", "moodle", arguments[2], other, "--dry-run")


def test_who_is_not_in_a_partial_download_has_not_lost_her_work(course, tmp_path):
    (tmp_path / "worksheet.csv").write_text(WORKSHEET)
    roster_of = ["--roster", str(tmp_path / "worksheet.csv")]
    course.grader("collect", "moodle", download(tmp_path, {"Ann Lee_1000001_assignsubmission_file_/x.ipynb": b"1"}), UNIT,
                  *roster_of)
    printed = course.grader("collect", "moodle", download(tmp_path, {
        "Müller, Jörg_1000002_assignsubmission_file_/x.ipynb": b"1"}), UNIT, *roster_of)
    assert "Not in this download; what they handed in before is kept (1): Ann Lee" in printed
    assert "Handed in nothing (1): Bo_Li" in printed


def test_an_extension_on_the_platform_alone_is_told_with_the_line_for_it(tmp_path):
    course = Course(tmp_path / "course", UNIT, ["ring_time"])
    extended = "No submission - Extension granted until: Friday, 7 May 2027, 11:59 PM"
    (tmp_path / "worksheet.csv").write_text(WORKSHEET.replace("No submission", f'"{extended}"'))
    arguments = ["collect", "moodle", download(tmp_path, {"Ann Lee_1000001_assignsubmission_file_/x.ipynb": b"1"}), UNIT,
                 "--roster", str(tmp_path / "worksheet.csv"), "--dry-run"]
    text = f'timezone = "Europe/Berlin"\n[units.{UNIT}]\nexercises = ["ring_time"]\ndue = 2027-05-03\n[extensions]\n'
    line = f'"bo@x.org" = {{ {UNIT} = 2027-05-07T23:59:00 }}\n'
    (course.root / "course.toml").write_text(text)
    course.grader("assign")
    assert line in course.grader(*arguments)
    (course.root / "course.toml").write_text(text + line)
    assert "extensions that course.toml" not in course.grader(*arguments)


def test_what_was_there_before_is_kept_beside(course, tmp_path):
    path = "Cy Moe_1000009_assignsubmission_file_/(1).ipynb"
    for content in (b"one", b"one", b"two"):
        course.grader("collect", "moodle", download(tmp_path, {path: content}), UNIT)
    assert (course.root / "submitted" / "1000009" / UNIT / "01_collectives.ipynb").read_bytes() == b"two"
    kept, = (course.root / "collected" / UNIT / "replaced").glob("1000009 */*.ipynb")
    assert kept.read_bytes() == b"one"


@pytest.mark.parametrize("path", ["../01_collectives.ipynb", "/ann/x.ipynb", ".ipynb_checkpoints/x.ipynb", "ann/../x.ipynb"])
def test_no_path_leads_out_of_the_download(path):
    assert handed_in("folder", path) is None


def test_two_students_of_one_name_are_two(course, tmp_path):
    archive = download(tmp_path, {"wangwei_5009_70001_a.ipynb": b"1", "wangwei_LATE_5010_70002_a-1.ipynb": b"2"})
    printed = course.grader("collect", "canvas", archive, UNIT)
    assert "notebooks of 2 students" in printed and "Late (1): wangwei, 5010 (says the platform)" in printed
    assert "known by Canvas's numbers, another time perhaps by e-mail (2): wangwei, 5009; wangwei, 5010" in printed
    (tmp_path / "gradebook.csv").write_text(GRADEBOOK)
    printed = course.grader("collect", "canvas", archive, UNIT, "--roster", str(tmp_path / "gradebook.csv"), "--dry-run")
    assert "by Canvas's numbers" not in printed and "Student, Test" not in printed


def test_handing_back_says_where_the_platform_has_other_points(course, tmp_path):
    (tmp_path / "worksheet.csv").write_text(WORKSHEET)
    (tmp_path / "gradebook.csv").write_text(GRADEBOOK.replace(",26,30", ",2,30"))
    printed = course.grader("handback", "moodle", UNIT, "--roster", str(tmp_path / "worksheet.csv"), "--dry-run")
    assert "Allow updating records" not in printed and "not in the table (3): Ann Lee; Müller, Jörg; Bo_Li" in printed
    written = course.grader("handback", "moodle", UNIT, "--roster", str(tmp_path / "worksheet.csv"))
    assert written.splitlines()[-1].startswith(
        "When you upload marks of this unit again, tick *Allow updating records that have been modified more recently in "
        "Moodle than in the spreadsheet*")  # Moodle's own words: ignoremodified in its assignfeedback_offline
    assert "the assignment had 26 points on Moodle, and the unit has 2. Unless you have done so since, set its" in printed
    arguments = ["handback", "canvas", UNIT, "--roster", str(tmp_path / "gradebook.csv"), "--dry-run", "--title"]
    assert "the assignment had" not in course.grader(*arguments, "Unit 01")
    assert "on Canvas, and the unit has 2. Unless you have done so since, set its *Points* to 2 there" in course.grader(
        *arguments, "Unit 02")
    with pytest.raises(CalledProcessError) as caught:
        course.grader(*arguments, "Unit 1")
    assert caught.value.returncode == 2 and "Did you mean 'Unit 01'?" in caught.value.stderr
    assert {path.name for path in (course.root / "submitted").glob("50*")} == {"5009", "5010"}


@pytest.mark.parametrize("files, unit, words", [
    ({"readme.txt": b""}, UNIT, "holds no notebook that moodle would have collected; it holds readme.txt"),
    ({"x.ipynb": b""}, "02_data_parallel", "there is no released unit '02_data_parallel'; there are: 01_collectives"),
])
def test_what_cannot_be_taken_in_is_said(course, tmp_path, files, unit, words):
    with pytest.raises(CalledProcessError) as caught:
        course.grader("collect", "moodle", download(tmp_path, files), unit)
    assert caught.value.returncode == 2 and words in caught.value.stderr
