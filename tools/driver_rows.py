"""Reads and edits src/rm by the columns of src/rm/testdata: facts by branch (ByBranch of
src/rm/by_branch.h), the rows of the .inc tables, the list of branches. tools/add_driver.py uses it.
"""

import pathlib
import re
import textwrap

import driver_layouts

TABLES = ("class-sizes", "control-sizes", "struct-sizes", "uvm-sizes")
WIDTH = 100
ROW = re.compile(r"^(CGPU_\w+)\((.*?)\)\n(?=CGPU_|//|\Z)", re.M | re.S)
# Places of the facts in a row, and arguments on its first line.
FACTS = {"CGPU_CONTROL": (4,), "CGPU_CONTROL_NO_PARAMS": (3,), "CGPU_CLASS": (5, 6),
         "CGPU_UVM": (2, 3)}
HEAD = 3


def split_arguments(text):
    parts, depth, start = [], 0, 0
    for i, char in enumerate(text):
        depth += (char in "({") - (char in ")}")
        if char == "," and depth == 0:
            parts.append(text[start:i].strip())
            start = i + 1
    return parts + [text[start:].strip()]


def parse_fact(text, branches):
    """Returns the value of a fact in each branch."""
    values = [0] * len(branches)

    def fill(since, value):
        at = branches.index(since) if since else 0
        values[at:] = [value] * (len(branches) - at)

    if found := re.fullmatch(r"(\d+)", text):
        fill(None, int(found[1]))
    elif found := re.fullmatch(r"(?:ByBranch\(|\{)(\d+), \{(.*)\}[)}]", text):
        fill(None, int(found[1]))
        for since, value in re.findall(r"\{Branch::k(\d+), (\d+)\}", found[2]):
            fill(since, int(value))
    elif found := re.fullmatch(r"Since\(Branch::k(\d+)(?:, (\d+))?\)", text):
        fill(found[1], int(found[2] or 1))
    elif found := re.fullmatch(r"Until\(Branch::k(\d+)(?:, (\d+))?\)", text):
        fill(None, int(found[2] or 1))
        fill(found[1], 0)
    elif found := re.fullmatch(r"Between\(Branch::k(\d+), (\d+), Branch::k(\d+)\)", text):
        fill(found[1], int(found[2]))
        fill(found[3], 0)
    else:
        raise ValueError(f"not a fact by branch: {text}")
    return values


def render_fact(values, branches, braces=False):
    changes = [i for i in range(1, len(values)) if values[i] != values[i - 1]]
    first, last = values[0], values[-1]
    if not changes:
        return str(first)
    names = [f"Branch::k{branches[i]}" for i in changes]
    if len(changes) == 1 and first == 0:
        return f"Since({names[0]})" if last == 1 else f"Since({names[0]}, {last})"
    if len(changes) == 1 and last == 0:
        return f"Until({names[0]}, {first})"
    if len(changes) == 2 and first == last == 0:
        return f"Between({names[0]}, {values[changes[0]]}, {names[1]})"
    text = ", ".join(f"{{{name}, {values[i]}}}" for name, i in zip(names, changes))
    return f"{{{first}, {{{text}}}}}" if braces else f"ByBranch({first}, {{{text}}})"


def render_row(macro, arguments):
    if macro == "CGPU_UVM":
        return f"{macro}({', '.join(arguments)})\n"
    one_line = f"{macro}({', '.join(arguments)})"
    if len(one_line) <= WIDTH:
        return one_line + "\n"
    head = f"{macro}({', '.join(arguments[:HEAD])},"
    if len(head) > WIDTH:
        head = f"{macro}({', '.join(arguments[:HEAD - 1])},\n    {arguments[HEAD - 1]},"
    # Keeps `kAskedByCompute | kAskedByVideo` on one line.
    tail = textwrap.fill((", ".join(arguments[HEAD:]) + ")").replace(" | ", "~|~"), WIDTH,
                         initial_indent="    ", subsequent_indent="    ", break_long_words=False,
                         break_on_hyphens=False).replace("~|~", " | ")
    return f"{head}\n{tail}\n"


class Rm:
    """src/rm of a checkout. Nothing is written before save()."""

    def __init__(self, root):
        self.root = pathlib.Path(root)
        self.texts = {}
        self.branches = re.findall(r"k(\d+)", re.search(r"enum class Branch[^{]*\{(.*?)\}",
                                                        self.text("by_branch.h"), re.S)[1])
        self.tables, self.tags, self.columns = [], [], {}
        for name in TABLES:
            comments, tags, rows = driver_layouts.read_table(self.path(f"testdata/{name}.tsv"))
            if self.tags not in ([], tags):
                raise SystemExit(f"{name}.tsv has other releases than {TABLES[0]}.tsv")
            self.tags = tags
            self.tables.append((name, comments, list(rows)))
            for row, column in rows.items():
                if len(column) != len(tags):
                    raise SystemExit(f"{row} of {name}.tsv has not all columns: fill them with "
                                     "tools/driver_layouts.py --update")
                self.columns[row] = column

    def path(self, name):
        return self.root / "src/rm" / name

    def text(self, name):
        if name not in self.texts:
            self.texts[name] = self.path(name).read_text(encoding="utf-8")
        return self.texts[name]

    def replace(self, name, old, new):
        text = self.text(name)
        if text.count(old) != 1:
            raise SystemExit(f"src/rm/{name} does not have this once: {old}")
        self.texts[name] = text.replace(old, new)

    def inc_files(self):
        controls = sorted(self.path("controls").glob("*.inc"))
        return [f"controls/{path.name}" for path in controls] + ["classes.inc", "uvm.inc"]

    def rows(self, name):
        """[(macro, arguments, text)] of an .inc table."""
        text = self.text(name)
        found = [(row[1], split_arguments(re.sub(r"\n\s+", " ", row[2])), row[0])
                 for row in ROW.finditer(text)]
        if len(found) != len(re.findall(r"^CGPU_\w+\(", text, re.M)):
            raise SystemExit(f"src/rm/{name} has a row that this tool cannot read")
        return found

    def index(self, branch):
        return self.branches.index(branch)

    def column(self, name, branch):
        """Text of a table's row for a branch; "-" where the tables do not have the row."""
        row = self.columns.get(name)
        at = next((i for i, tag in enumerate(self.tags) if tag.split(".")[0] == branch), None)
        return driver_layouts.ABSENT if row is None or at is None else row[at]

    def previous(self, branch):
        return self.branches[self.index(branch) - 1]

    def set_column(self, tag, values):
        """Puts the column of a release in, or in the place of its branch's."""
        version = driver_layouts.version_of(tag)
        majors = [driver_layouts.version_of(other)[0] for other in self.tags]
        at = sum(major < version[0] for major in majors)
        replace = at < len(majors) and majors[at] == version[0]
        self.tags[at:at + replace] = [tag]
        for name, row in self.columns.items():
            row[at:at + replace] = [values[name]]

    def list_branches(self, branches):
        self.branches = branches
        names = ", ".join(f"k{branch}" for branch in branches)
        text = re.sub(r"(enum class Branch[^{]*\{) .*? \}", rf"\1 {names} }}",
                      self.text("by_branch.h"), flags=re.S)
        head = "inline constexpr std::array kBranches = {"
        names = ", ".join(f"Branch::k{branch}" for branch in branches)
        array = f"{head}{names}}};" if len(head + names) + 2 <= WIDTH else wrap_after(head, names)
        self.texts["by_branch.h"] = re.sub(re.escape(head) + r".*?\};", lambda _: array, text,
                                           flags=re.S)

    def set_abi(self, branch, reference, first, last):
        """Puts the branch into kAbis. A row that is there keeps its range."""
        def render(tag):
            return "{%d, %d, %d}" % (*driver_layouts.version_of(tag), 0)[:3]

        head = f'    Row(Branch::k{branch}, "{branch}", '
        text = self.text("abi.cc")
        if head in text:
            self.texts["abi.cc"] = re.sub(re.escape(head) + r"\{.*?\}", head + render(reference),
                                          text)
            return
        before = re.findall(r"    Row\(Branch::k\d+, .*\n", text)[self.index(branch) - 1]
        row = f"{head}{render(reference)}, {render(first)}, {render(last)}),\n"
        self.texts["abi.cc"] = text.replace(before, before + row)

    def change_rows(self, name, change):
        """Calls change(macro, arguments, facts) for each row that has facts; it may change the
        lists in `facts`. Writes the rows again whose facts are other ones. Returns their names."""
        changed = []
        for macro, arguments, text in self.rows(name):
            places = FACTS.get(macro, ())
            facts = [parse_fact(arguments[i], self.branches) for i in places]
            before = [list(fact) for fact in facts]
            change(macro, arguments, facts)
            if facts == before:
                continue
            for i, fact in zip(places, facts):
                arguments[i] = render_fact(fact, self.branches, braces=macro == "CGPU_UVM")
                self.allow_changes(sum(x != y for x, y in zip(fact, fact[1:])))
            self.replace(name, text, render_row(macro, arguments))
            changed.append(arguments[0])
        return changed

    def allow_changes(self, count):
        """Raises the number of changes that a fact may have."""
        found = re.search(r"kMaxChanges = (\d+);", self.text("by_branch.h"))
        if found and int(found[1]) < count:
            self.replace("by_branch.h", found[0], f"kMaxChanges = {count};")

    def save(self):
        for name, comments, names in self.tables:
            columns = [[self.columns[row][i] for row in names] for i in range(len(self.tags))]
            with open(self.path(f"testdata/{name}.tsv"), "w", encoding="utf-8") as file:
                driver_layouts.write_table(file, comments, self.tags, names, columns)
        for name, text in self.texts.items():
            if self.path(name).read_text(encoding="utf-8") != text:
                self.path(name).write_text(text, encoding="utf-8")


def wrap_after(head, names):
    """Wraps `names` behind `head` as clang-format does."""
    lines = textwrap.wrap(names + "};", WIDTH - len(head))
    return head + ("\n" + " " * len(head)).join(lines)


def bytes_of(text):
    """Bytes of a size or an offset as the tables write it; 0 for "-"."""
    return 0 if text == driver_layouts.ABSENT else int(text.lstrip("@"))
