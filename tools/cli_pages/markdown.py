"""Reference pages in Markdown, one for a program with all its subcommands."""
import textwrap

from tree import (commands_of, description_of, help_of, options_of, positionals_of, sentence, usage,
                  value_of)

NOTE = "<!-- `make reference` makes this page from the program's own command line. -->"


def _cell(text):
    return text.replace("|", "\\|").replace("<", "&lt;")


def _wrapped(text):
    return textwrap.wrap(text, 100, break_long_words=False, break_on_hyphens=False)


def _table(title, options):
    if not options:
        return []
    lines = ["", "| %s | meaning |" % title, "|---|---|"]
    for option in options:
        name = ", ".join("`%s`" % name for name in option["names"])
        if option["value"] and not option["positional"]:
            name = name[:-1] + " %s`" % value_of(option)
        lines.append("| %s | %s |" % (_cell(name), _cell(help_of(option)) or "&nbsp;"))
    return lines


def _section(path, command):
    """A heading, and what the command takes."""
    lines = ["", "#" * min(len(path), 3) + " " + " ".join(path), "",
             *_wrapped(sentence(description_of(command))), "",
             "```", usage(path, command), "```"]
    if command["commands"]:
        lines += ["", "| command | does |", "|---|---|"]
        for sub in command["commands"]:
            name = " ".join((*path, sub["name"]))
            lines.append("| [`%s`](#%s) | %s |" % (name, name.replace(" ", "-"),
                                                   _cell(sentence(description_of(sub)))))
    lines += _table("argument", positionals_of(command)) + _table("option", options_of(command))
    if command["footer"].strip():
        lines += ["", "```", *command["footer"].strip("\n").split("\n"), "```"]
    return lines


def page(tree):
    lines = [NOTE]
    for path, command in commands_of(tree):
        lines += _section(path, command)
    return "\n".join(lines) + "\n"
