"""docs/coverage.md and docs/decisions say what they claim to say.

The coverage table lists every normative statement of the source documents. Its cells are promises (this file
implements the statement, that test shows it), so they are checked against the repository. Each check takes
text and a root directory and returns a list of messages, which lets the second half of this file
plant errors and see them found. People judge whether a test really shows its statement.
"""

import re
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
COVERAGE = Path("docs/coverage.md")
DECISIONS = Path("docs/decisions")

SECTIONS = {
    "DCBX draft": "DCBX",
    "headroom proposal": "HDRM",
    "QoS RFC": "QOS",
    "PFC/ECN article": "PFC",
    "End.X.PFC draft": "SRV6",
}
HEADER = ["ID", "Statement", "Where in the document", "Implemented in", "Shown by"]
NOT_YET = "not yet"
TEST_DIRECTORIES = ("tests", "experiments")
READINGS = "readings"
FOLDERS = ("lab", READINGS)  # of the decision records
STATUS = re.compile(
    r"Date: \d{4}-\d\d-\d\d\. Status: (?:accepted|(?:accepted, amended|replaced) by \[(\d{4})\]\((\S+)\))\."
)


@dataclass(frozen=True)
class Row:
    """One statement, as it stands in the table."""

    line: int
    id: str
    statement: str
    where: str
    implemented: str
    shown: str


@dataclass
class Coverage:
    """The parsed file; `errors` has what is wrong with its form."""

    sections: dict[str, list[Row]] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)

    def rows(self) -> list[Row]:
        return [row for rows in self.sections.values() for row in rows]


def split_cells(line: str) -> list[str]:
    """Return the cells of a table line; a pipe inside a cell is written `\\|`."""
    inner = re.sub(r"(?<!\\)\|$", "", line.strip().removeprefix("|"))
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", inner)]


def parse(text: str) -> Coverage:
    coverage = Coverage()
    rows: list[Row] | None = None
    has_header = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("## "):
            title = line[3:].strip()
            if title not in SECTIONS:
                coverage.errors.append(f"line {number}: unknown section {title!r}")
            if title in coverage.sections:
                coverage.errors.append(f"line {number}: section {title!r} occurs twice")
            rows = coverage.sections.setdefault(title, [])
            has_header = False
        elif line.lstrip().startswith("|"):
            cells = split_cells(line)
            if rows is None:
                coverage.errors.append(f"line {number}: table line outside a section")
            elif all(re.fullmatch(r":?-+:?", cell) for cell in cells):
                continue
            elif not has_header:
                has_header = True
                if cells != HEADER:
                    coverage.errors.append(f"line {number}: table header is {cells}, not {HEADER}")
            elif len(cells) != len(HEADER):
                coverage.errors.append(f"line {number}: {len(cells)} cells instead of {len(HEADER)}")
            else:
                rows.append(Row(number, *cells))
    for title in SECTIONS:
        if not coverage.sections.get(title):
            coverage.errors.append(f"section {title!r} is missing or has no rows")
    return coverage


def check_ids(coverage: Coverage) -> list[str]:
    """Check that IDs are PREFIX-NNN, from 001 on without gaps in each section, hence unique."""
    messages = []
    for title, rows in coverage.sections.items():
        prefix = SECTIONS.get(title, "?")
        for number, row in enumerate(rows, 1):
            expected = f"{prefix}-{number:03d}"
            if row.id != expected:
                messages.append(f"line {row.line}: ID is {row.id!r}, expected {expected!r}")
    return messages


def check_cells(coverage: Coverage) -> list[str]:
    """Check that no cell is empty, and that no two rows of a section make the same statement."""
    messages = []
    for rows in coverage.sections.values():
        seen: dict[str, str] = {}
        for row in rows:
            cells = [row.id, row.statement, row.where, row.implemented, row.shown]
            messages += [
                f"line {row.line}: empty cell {name!r}" for name, cell in zip(HEADER, cells, strict=True) if not cell
            ]
            if row.statement and row.statement in seen:
                messages.append(f"line {row.line}: same statement as {seen[row.statement]}")
            seen.setdefault(row.statement, row.id)
    return messages


def split_references(cell: str) -> list[tuple[str, str]] | None:
    """Return (path, name) for each reference of a cell, or None if the cell is no list of references. A name may be "".

    `path`, `path:symbol`, `path::name`, `path::Class::method`; parameters in brackets are cut off.
    """
    references = []
    for part in re.split(r",\s*(?=`)", cell):
        match = re.fullmatch(r"`([^`:]+)(?:::?([^`]+))?`", part)
        if match is None:
            return None
        references.append((match[1], re.sub(r"\[.*\]$", "", match[2] or "")))
    return references


def check_reference(path: str, name: str, root: Path, *, is_test: bool) -> str | None:
    """Return the message about what is wrong with one reference, or None if nothing is."""
    parts = Path(path).parts
    if Path(path).is_absolute() or ".." in parts:
        return f"{path!r} is not a path from the root of the repository"
    if is_test and parts[0] not in TEST_DIRECTORIES:
        return f"{path!r} is not under {' or '.join(TEST_DIRECTORIES)}"
    file = root / path
    if not file.exists():
        return f"{path!r} does not exist"
    if not name:
        return None
    if not file.is_file():
        return f"{path!r} is not a file, so it has no {name!r}"
    text = file.read_text(encoding="utf-8")
    for piece in re.split(r"::|\.", name):
        # A test is defined in the file it is said to be in; a symbol need only occur, since it may
        # be a C macro, a table entry or a command's name.
        keyword = r"(?:def|class)\s+" if is_test else ""
        if not re.search(rf"(?<!\w){keyword}{re.escape(piece)}(?!\w)", text):
            return f"{piece!r} is not {'defined' if is_test else 'found'} in {path!r}"
    return None


def check_references(coverage: Coverage, root: Path) -> list[str]:
    """Check that both columns are `not yet` or name what exists, and are filled together."""
    messages = []
    for row in coverage.rows():
        for cell, is_test in ((row.implemented, False), (row.shown, True)):
            if cell in (NOT_YET, ""):
                continue
            references = split_references(cell)
            if references is None:
                messages.append(f"{row.id}: {cell!r} is neither {NOT_YET!r} nor paths in backticks")
                continue
            problems = [check_reference(*ref, root, is_test=is_test) for ref in references]
            messages += [f"{row.id}: {problem}" for problem in problems if problem]
        if row.implemented != NOT_YET and row.shown == NOT_YET:
            messages.append(f"{row.id}: implemented but not shown by a test")
        if row.implemented == NOT_YET and row.shown != NOT_YET:
            messages.append(f"{row.id}: shown by a test but implemented nowhere")
    return messages


def counts_line(coverage: Coverage) -> str:
    """Return the line with the counts that the file must contain."""

    def done(rows: list[Row]) -> str:
        return f"{sum(row.implemented != NOT_YET for row in rows)} of {len(rows)}"

    parts = [f"{prefix} {done(coverage.sections.get(title, []))}" for title, prefix in SECTIONS.items()]
    return f"Implemented: {', '.join(parts)}; in all {done(coverage.rows())}."


def check_counts(text: str, coverage: Coverage) -> list[str]:
    found = [line for line in text.splitlines() if line.startswith("Implemented: ")]
    expected = counts_line(coverage)
    return [] if found == [expected] else [f"counts line is {found}, expected {expected!r}"]


def records(root: Path) -> list[Path]:
    """Return all decision records, in the order of folders and numbers."""
    return [path for folder in FOLDERS for path in sorted((root / DECISIONS / folder).glob("*.md"))]


def check_decision_links(text: str, root: Path) -> list[str]:
    """Check that [NNNN] is defined and leads to its record, and that a row names each reading of a source document."""
    definitions = dict(re.findall(r"^\[(\d{4})\]:\s*(\S+)\s*$", text, re.MULTILINE))
    used = set(re.findall(r"\[(\d{4})\](?!:)", text))
    in_rows = {number for row in parse(text).rows() for number in re.findall(r"\[(\d{4})\]", row.statement)}
    messages = [f"[{number}] is not defined" for number in sorted(used - definitions.keys())]
    messages += [f"[{number}] is defined, not used" for number in sorted(definitions.keys() - used)]
    for number, target in definitions.items():
        if not (root / COVERAGE.parent / target).is_file():
            messages.append(f"[{number}] leads to {target!r}, which does not exist")
        elif not Path(target).name.startswith(f"{number}-"):
            messages.append(f"[{number}] leads to {target!r}, another record")
    messages += [
        f"{path.name}: no row of {COVERAGE} names this reading"
        for path in records(root)
        if path.parent.name == READINGS and path.name[:4] not in in_rows
    ]
    return messages


def check_decision_index(index: str, root: Path) -> list[str]:
    """Check that the index has every record once, in the order of numbers of its group, and nothing else."""
    messages = []
    entries = re.findall(r"^- \[(\d{4})\]\(([^)]+)\): \S", index, re.MULTILINE)
    malformed = [
        line
        for line in re.findall(r"^- \[\d.*$", index, re.MULTILINE)
        if not re.match(r"- \[\d{4}\]\([^)]+\): \S", line)
    ]
    messages += [f"index line is malformed: {line!r}" for line in malformed]
    listed = [name for _, name in entries]
    existing = [f"{path.parent.name}/{path.name}" for path in records(root)]
    messages += [f"{name} is not in the index" for name in sorted(set(existing) - set(listed))]
    messages += [f"{name} is listed, not there" for name in sorted(set(listed) - set(existing))]
    messages += [f"{name} is listed as {number}" for number, name in entries if Path(name).name[:5] != f"{number}-"]
    messages += [f"{name} is listed twice" for name in sorted({name for name in listed if listed.count(name) > 1})]
    for group in re.split(r"^#+ .*$", index, flags=re.MULTILINE):
        numbers = re.findall(r"^- \[(\d{4})\]\(", group, re.MULTILINE)
        if numbers != sorted(set(numbers)):
            messages.append(f"index is not in the order of numbers, or repeats one: {numbers}")
    return messages


def check_records(root: Path) -> list[str]:
    """Check that records are called NNNN-short-name.md and have a title, a date, a status and the three sections."""
    messages = [
        f"{path.name} belongs into {' or '.join(f'{DECISIONS}/{folder}' for folder in FOLDERS)}"
        for path in sorted((root / DECISIONS).glob("*.md"))
        if path.name != "README.md"
    ]
    numbers: dict[str, str] = {}
    for path in records(root):
        match = re.fullmatch(r"(\d{4})-[a-z0-9]+(?:-[a-z0-9]+)*\.md", path.name)
        if match is None:
            messages.append(f"{path.name} is not called NNNN-short-name.md")
            continue
        number = match[1]
        if number in numbers:
            messages.append(f"{path.name} has the number of {numbers[number]}")
        numbers[number] = path.name
        lines = path.read_text(encoding="utf-8").splitlines()
        if not lines or not re.match(rf"# {number} \S", lines[0]):
            messages.append(f"{path.name} does not start with '# {number} Title'")
        status = STATUS.fullmatch(lines[2]) if len(lines) > 2 else None
        if status is None:
            messages.append(f"{path.name} has no line with date and status below its title")
        elif status[2] and not (path.parent / status[2]).is_file():
            messages.append(f"{path.name} leads to {status[2]!r}, which does not exist")
        headings = [line[3:] for line in lines if line.startswith("## ")]
        if headings != ["Context", "Decision", "Consequence"]:
            messages.append(f"{path.name} has the sections {headings}")
    return messages


@pytest.fixture(scope="module")
def text() -> str:
    return (ROOT / COVERAGE).read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def coverage(text: str) -> Coverage:
    return parse(text)


def test_the_file_has_a_table_for_each_document(coverage: Coverage) -> None:
    assert coverage.errors == []
    assert list(coverage.sections) == list(SECTIONS)


def test_ids_are_consecutive_in_each_section(coverage: Coverage) -> None:
    assert check_ids(coverage) == []


def test_no_cell_is_empty_and_no_statement_is_repeated(coverage: Coverage) -> None:
    assert check_cells(coverage) == []


def test_code_and_tests_named_exist_and_come_together(coverage: Coverage) -> None:
    assert check_references(coverage, ROOT) == []


def test_counts_line_is_right(text: str, coverage: Coverage) -> None:
    assert check_counts(text, coverage) == []


def test_decision_links_lead_to_their_records(text: str) -> None:
    assert check_decision_links(text, ROOT) == []


def test_index_of_decisions_is_complete() -> None:
    index = (ROOT / DECISIONS / "README.md").read_text(encoding="utf-8")
    assert check_decision_index(index, ROOT) == []


def test_records_have_their_form() -> None:
    assert check_records(ROOT) == []


# From here on: errors are planted in a small file, and each check has to find its own.


def make_row(prefix: str, *, row_id: str = "", statement: str = "One thing", rest: str = "") -> str:
    """Return a table line; `rest` is the last two cells."""
    return f"| {row_id or prefix + '-001'} | {statement} | 1 | {rest or 'not yet | not yet'} |"


def make_text(first_section: str = "", *, extra: str = "") -> str:
    """Return a well-formed file with one row for each document, but for the rows given for the first."""
    table = "| " + " | ".join(HEADER) + " |\n|---|---|---|---|---|\n"
    body = ""
    for title, prefix in SECTIONS.items():
        rows = first_section if first_section and prefix == "DCBX" else make_row(prefix)
        body += f"\n## {title}\n\n{table}{rows}\n"
    return f"{counts_line(parse(body))}\n{body}\n{extra}"


DATED = "Date: 2026-11-21. Status: accepted."


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """Make a repository with one source file, one test file and one decision record."""
    files = {
        "testbed/codec.py": "class Tlv:\n    def pack(self): ...\n",
        "tests/test_codec.py": "class TestTlv:\n    def test_pack(self): ...\n# test_named_only\n",
        "docs/decisions/README.md": "- [0100](readings/0100-a.md): something\n",
        "docs/decisions/readings/0100-a.md": f"# 0100 A\n\n{DATED}\n\n## Context\n\n## Decision\n\n## Consequence\n",
    }
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content, encoding="utf-8")
    return tmp_path


def test_a_well_formed_file_passes(repo: Path) -> None:
    rest = "`testbed/codec.py:Tlv.pack`, `testbed/codec.py` | `tests/test_codec.py::TestTlv::test_pack[long]`"
    text = make_text(
        make_row("DCBX", statement="Read so ([0100]), a \\| b", rest=rest),
        extra="[0100]: decisions/readings/0100-a.md",
    )
    coverage = parse(text)
    assert coverage.errors == []
    assert coverage.rows()[0].statement == "Read so ([0100]), a \\| b"
    assert check_ids(coverage) == []
    assert check_cells(coverage) == []
    assert check_references(coverage, repo) == []
    assert check_counts(text, coverage) == []
    assert check_decision_links(text, repo) == []
    assert check_decision_index("- [0100](readings/0100-a.md): something\n", repo) == []
    assert check_records(repo) == []
    assert counts_line(coverage) == (
        "Implemented: DCBX 1 of 1, HDRM 0 of 1, QOS 0 of 1, PFC 0 of 1, SRV6 0 of 1; in all 1 of 5."
    )


def test_parser_finds_broken_tables() -> None:
    assert parse("| a | b |").errors[0] == "line 1: table line outside a section"
    broken = parse("## QoS RFC\n| ID | What |\n|---|---|\n| QOS-001 | x |\n## Other\n## QoS RFC\n")
    assert broken.errors == [
        f"line 2: table header is ['ID', 'What'], not {HEADER}",
        "line 4: 2 cells instead of 5",
        "line 5: unknown section 'Other'",
        "line 6: section 'QoS RFC' occurs twice",
        "section 'DCBX draft' is missing or has no rows",
        "section 'headroom proposal' is missing or has no rows",
        "section 'QoS RFC' is missing or has no rows",
        "section 'PFC/ECN article' is missing or has no rows",
        "section 'End.X.PFC draft' is missing or has no rows",
    ]


@pytest.mark.parametrize(
    ("ids", "messages"),
    [
        (["DCBX-001", "DCBX-001"], ["line 8: ID is 'DCBX-001', expected 'DCBX-002'"]),
        (["DCBX-001", "DCBX-003"], ["line 8: ID is 'DCBX-003', expected 'DCBX-002'"]),
        (["QOS-001", "DCBX-2"], ["'QOS-001', expected 'DCBX-001'", "'DCBX-2', expected"]),
    ],
    ids=["repeated", "gap", "wrong form"],
)
def test_wrong_ids_are_found(ids: list[str], messages: list[str]) -> None:
    rows = "\n".join(make_row("DCBX", row_id=row_id, statement=f"Thing {n}") for n, row_id in enumerate(ids))
    found = check_ids(parse(make_text(rows)))
    assert len(found) == len(messages)
    for message, part in zip(found, messages, strict=True):
        assert part in message


def test_empty_cells_and_repeated_statements_are_found() -> None:
    rows = "| DCBX-001 |  | 1 | not yet | |\n" + "\n".join(
        make_row("DCBX", row_id=f"DCBX-00{n}", statement="Same") for n in (2, 3)
    )
    assert check_cells(parse(make_text(rows))) == [
        "line 7: empty cell 'Statement'",
        "line 7: empty cell 'Shown by'",
        "line 9: same statement as DCBX-002",
    ]


@pytest.mark.parametrize(
    ("rest", "message"),
    [
        ("done | not yet", "'done' is neither 'not yet' nor paths in backticks"),
        ("`testbed/codec.py` and more | not yet", "is neither 'not yet' nor paths in backticks"),
        ("`testbed/codec.py` | not yet", "implemented but not shown by a test"),
        ("not yet | `tests/test_codec.py`", "shown by a test but implemented nowhere"),
        ("`testbed/none.py` | not yet", "'testbed/none.py' does not exist"),
        ("`../codec.py` | not yet", "is not a path from the root of the repository"),
        ("`/testbed/codec.py` | not yet", "is not a path from the root of the repository"),
        ("`testbed/codec.py:Tl` | not yet", "'Tl' is not found in 'testbed/codec.py'"),
        ("`testbed/codec.py:Tlv.parse` | not yet", "'parse' is not found in 'testbed/codec.py'"),
        ("`testbed:Tlv` | not yet", "'testbed' is not a file, so it has no 'Tlv'"),
        ("not yet | `testbed/codec.py`", "'testbed/codec.py' is not under tests or experiments"),
        ("not yet | `tests/test_codec.py::test_none`", "'test_none' is not defined in"),
        ("not yet | `tests/test_codec.py::test_named_only`", "'test_named_only' is not defined in"),
    ],
)
def test_wrong_references_are_found(rest: str, message: str, repo: Path) -> None:
    messages = check_references(parse(make_text(make_row("DCBX", rest=rest))), repo)
    assert any(found.startswith("DCBX-001: ") and message in found for found in messages), messages


def test_wrong_missing_and_double_counts_are_found() -> None:
    text = make_text()
    coverage = parse(text)
    line = counts_line(coverage)
    for bad in (text.replace("DCBX 0 of 1", "DCBX 0 of 2"), text.replace(line, ""), text + line):
        (message,) = check_counts(bad, coverage)
        assert message.endswith(f"expected {line!r}")


def test_wrong_decision_links_are_found(repo: Path) -> None:
    (repo / DECISIONS / "lab").mkdir()
    (repo / DECISIONS / "lab" / "0001-lab.md").write_text("# 0001 Lab\n", encoding="utf-8")
    (repo / DECISIONS / "readings" / "0101-b.md").write_text("# 0101 B\n", encoding="utf-8")
    row = make_row("DCBX", statement="Read so ([0100], [0102], [0104])")
    extra = "[0100]: decisions/readings/0101-b.md\n[0103]: decisions/readings/0100-a.md\n[0104]: decisions/0104-none.md"
    assert check_decision_links(make_text(row, extra=extra), repo) == [
        "[0102] is not defined",
        "[0103] is defined, not used",
        "[0100] leads to 'decisions/readings/0101-b.md', another record",
        "[0103] leads to 'decisions/readings/0100-a.md', another record",
        "[0104] leads to 'decisions/0104-none.md', which does not exist",
        "0101-b.md: no row of docs/coverage.md names this reading",
    ]


def test_wrong_index_is_found(repo: Path) -> None:
    (repo / DECISIONS / "lab").mkdir()
    (repo / DECISIONS / "lab" / "0001-lab.md").write_text("# 0001 Lab\n", encoding="utf-8")
    index = (
        "- [0105](lab/0105-gone.md): gone\n- [0101](readings/0100-a.md): wrong number\n- [0102] no link\n"
        "## Another group\n- [0100](readings/0100-a.md): again\n"
    )
    assert check_decision_index(index, repo) == [
        "index line is malformed: '- [0102] no link'",
        "lab/0001-lab.md is not in the index",
        "lab/0105-gone.md is listed, not there",
        "readings/0100-a.md is listed as 0101",
        "readings/0100-a.md is listed twice",
        "index is not in the order of numbers, or repeats one: ['0105', '0101']",
    ]


def test_malformed_records_are_found(repo: Path) -> None:
    sections = "## Context\n\n## Decision\n\n## Consequence\n"
    files = {
        "0099-d.md": f"# 0099 D\n\n{DATED}\n\n{sections}",
        "readings/0100-b.md": f"# 0100 B\n\n{sections}",
        "readings/0101-c.md": "# C\n\n## Context\n",
        "readings/0102-d.md": (
            f"# 0102 D\n\nDate: 2026-11-21. Status: accepted, amended by [0103](0103-e.md).\n\n{sections}"
        ),
        "readings/notes.md": "",
    }
    for name, content in files.items():
        (repo / DECISIONS / name).write_text(content, encoding="utf-8")
    assert check_records(repo) == [
        "0099-d.md belongs into docs/decisions/lab or docs/decisions/readings",
        "0100-b.md has the number of 0100-a.md",
        "0100-b.md has no line with date and status below its title",
        "0101-c.md does not start with '# 0101 Title'",
        "0101-c.md has no line with date and status below its title",
        "0101-c.md has the sections ['Context']",
        "0102-d.md leads to '0103-e.md', which does not exist",
        "notes.md is not called NNNN-short-name.md",
    ]
