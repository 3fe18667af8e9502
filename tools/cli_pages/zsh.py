"""Completions for zsh, with _arguments of its completion system."""
from tree import (LISTS, NAMES, choices_of, commands_of, description_of, options_of, positionals_of,
                  value_of)


def _quote(text):
    return "'%s'" % text.replace("'", "'\\''")


def _escape(text, which):
    for character in "\\" + which:
        text = text.replace(character, "\\" + character)
    return text


def _action(option, function):
    kind = value_of(option)
    if kind == "FILE":
        return "_files"
    if kind in LISTS:
        return "{%s_names %s}" % (function, LISTS[kind])
    choices = choices_of(option)
    return "(%s)" % " ".join(choices) if choices else " "


def _value(option, function):
    return ":%s:%s" % (_escape(value_of(option), ":"), _action(option, function))


def _option(option, function):
    """One option's words for _arguments: '(-d --delay)'{-d+,--delay=}'[Seconds]:FLOAT: '."""
    names = option["names"]
    value = option["value"]
    forms = [name + ("" if not value else "=" if name.startswith("--") else "+") for name in names]
    what = "[%s]" % _escape(option["help"], "[]") + (_value(option, function) if value else "")
    if len(names) == 1:
        return _quote(forms[0] + what)
    return "%s{%s}%s" % (_quote("(%s)" % " ".join(names)), ",".join(forms), _quote(what))


def _function(function, command):
    words = [_option(option, function) for option in options_of(command)]
    own = function + "_" + "_".join(command["path"]) if command["path"] else function
    lines = ["%s() {" % own, "  local curcontext=$curcontext state line ret=1",
             "  typeset -A opt_args"]
    if command["commands"]:
        words += ["'1:command:->command'", "'*::argument:->argument'"]
    for number, option in enumerate(positionals_of(command), 1):
        place = "*" if option["many"] else str(number)
        words.append(_quote(place + ":%s:%s" % (option["names"][0], _action(option, function))))
    if command["runs_command"]:
        words += ["'(-)1:command: _command_names -e'", "'*::argument: _normal'"]
    lines.append("  _arguments -C -S \\\n    %s && ret=0" % " \\\n    ".join(words))
    if command["commands"]:
        lines += ["  case $state in", "  command)", "    local -a commands=("]
        for sub in command["commands"]:
            lines.append("      " + _quote("%s:%s" % (sub["name"], description_of(sub))))
        lines += ["    )", "    _describe -t commands command commands && ret=0", "    ;;",
                  "  argument)", "    case $line[1] in"]
        for sub in command["commands"]:
            lines.append("    %s) %s_%s && ret=0 ;;" % (
                sub["name"], function, "_".join((*command["path"], sub["name"]))))
        lines += ["    esac", "    ;;", "  esac"]
    return [*lines, "  return ret", "}", ""]


def completion(tree):
    function = "_" + tree["name"]
    lines = ["#compdef %s" % tree["name"],
             "# Made from the program's own command line by tools/cli_pages.", "",
             "%s_names() {" % function,
             '  local -a names=(${(f)"$("$@" %s)"})' % NAMES,
             "  compadd -a names", "}", ""]
    for path, command in commands_of(tree):
        lines += _function(function, {**command, "path": path[1:]})
    return "\n".join([*lines, '%s "$@"' % function]) + "\n"
