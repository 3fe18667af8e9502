"""Manual pages, in roff's macros `man`: one for a program, and one for each of its subcommands.

A subcommand's own subcommands are in its page.
"""
import re
import textwrap

from tree import (commands_of, description_of, help_of, options_of, positionals_of, sentence, usage,
                  value_of)


def escape(text):
    """Text as roff reads it; words between ` are bold."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    text = re.sub(r"`([^`]*)`", r"\\fB\1\\fP", text)
    return re.sub(r"^([.'])", r"\\&\1", text, flags=re.MULTILINE)


def _prose(text):
    """The text in lines of a length that mandoc does not complain about."""
    return escape("\n".join(textwrap.wrap(text, 64, break_long_words=False, break_on_hyphens=False)))


def _options(options):
    lines = []
    for option in options:
        names = ", ".join("\\fB%s\\fP" % escape(name) for name in option["names"])
        if option["value"] and not option["positional"]:
            names += " \\fI%s\\fP" % escape(value_of(option))
        lines += [".TP", names, _prose(help_of(option)) or "\\&"]
    return lines


def _footer(command):
    if not command["footer"].strip():
        return []
    return [".PP", ".nf", escape(command["footer"].strip("\n")), ".fi"]


def _arguments(command, heading):
    """The operands and options of a command, each kind below a heading."""
    lines = []
    for title, options in (("ARGUMENTS", positionals_of(command)), ("OPTIONS", options_of(command))):
        if options:
            lines += ["%s %s" % (heading, title), *_options(options)]
    return lines


def _commands(path, command, section):
    """The subcommands of a program lead to their pages; those of a subcommand are told here."""
    if not command["commands"]:
        return []
    lines = [".SH COMMANDS"]
    for sub in command["commands"]:
        if len(path) == 1:
            lines += [".TP", "\\fB%s\\fP(%d)" % (escape("-".join((*path, sub["name"]))), section),
                      _prose(sentence(description_of(sub)))]
        else:
            lines += [".SS %s" % escape(usage((*path, sub["name"]), sub)),
                      _prose(sentence(description_of(sub))),
                      *_options(positionals_of(sub) + options_of(sub)), *_footer(sub)]
    return lines


def _see_also(names, own, section):
    others = ["\\fB%s\\fP(%d)" % (escape(name), section) for name in names if name != own]
    if not others:
        return [".SH SEE ALSO", escape("The documentation in /usr/share/doc/cgpu.")]
    return [".SH SEE ALSO", ",\n".join(others)]


def pages(tree, section, version, date):
    """Yields (name, text) of each page."""
    found = [(path, command) for path, command in commands_of(tree) if len(path) <= 2]
    names = ["-".join(path) for path, _ in found]
    for name, (path, command) in zip(names, found):
        does = description_of(command)
        lines = [
            '.\\" Made from the program\'s own command line by tools/cli_pages.',
            '.TH "%s" "%d" "%s" "%s"' % (escape(name.upper()), section, date, escape(version)),
            ".SH NAME", _prose("%s - %s" % (name, does[0].lower() + does[1:])),
            ".SH SYNOPSIS", ".B %s" % escape(usage(path, command)),
            ".SH DESCRIPTION", _prose(sentence(does)), *_footer(command),
            *_commands(path, command, section), *_arguments(command, ".SH"),
            *_see_also(names if len(path) == 1 else names[:1], name, section)]
        yield name, "\n".join(lines) + "\n"
