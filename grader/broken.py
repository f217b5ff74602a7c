"""Programs with a bug: what students get of a solution that says, line by line, how it is broken."""

BEGIN, END = "### BEGIN SOLUTION", "### END SOLUTION"
MARK = "# broken:"


def is_broken(source: str) -> bool:
    """Whether a solution cell is released as a broken program, and not as a skeleton."""
    return any(line.strip().startswith(MARK) for line in source.split("\n"))


def broken_program(source: str) -> str:
    """A solution cell as students get it.

    Between the marks of a solution, lines `# broken: code` take the place of the line above them; `# broken:` alone deletes
    it. Straight after BEGIN SOLUTION they are lines that the right program has not. All other lines stay.
    Raises: ValueError for such a line outside the marks, and for marks that do not come in pairs.
    """
    lines: list[str] = []
    inside = replaceable = False
    for number, line in enumerate(source.split("\n"), 1):
        bare = line.strip()
        if bare in (BEGIN, END):
            if inside == (bare == BEGIN):
                raise ValueError(f"line {number}: {bare!r} where the other mark was expected")
            inside, replaceable = bare == BEGIN, False
        elif bare.startswith(MARK):
            if not inside:
                raise ValueError(f"line {number}: {bare!r} stands outside {BEGIN} and {END}")
            if replaceable:
                lines.pop()
            code, replaceable = bare.removeprefix(MARK).removeprefix(" "), False
            lines += [line[:line.index("#")] + code] if code.strip() else []
        else:
            lines.append(line)
            replaceable = True
    if inside:
        raise ValueError(f"{BEGIN} has no {END}")
    return "\n".join(lines)
