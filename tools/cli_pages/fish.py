"""Completions for fish."""
from tree import (LISTS, NAMES, choices_of, commands_of, description_of, options_of, positionals_of,
                  value_of)

_TEMPLATE = r"""# fish completion for @NAME@. Made from its own command line by tools/cli_pages.
function @FUNCTION@_names
    $argv @NAMES@
end

# Tells whether the cursor is in the command $argv[1], at its argument number $argv[2] if that is given.
function @FUNCTION@_at
    set -l path @NAME@
    set -l position 1
    set -l skip no
    set -l words (commandline -opc)
    for word in $words[2..-1]
        if test $skip = yes
            set skip no
        else if test "$word" = --; and contains -- $path $@FUNCTION@_runs
            set path "$path --"
            break
        else if string match -q -- '-*' $word
            contains -- "$path $word" $@FUNCTION@_values; and set skip yes
        else if contains -- "$path $word" $@FUNCTION@_commands
            set path "$path $word"
        else
            set position (math $position + 1)
        end
    end
    test "$path" = "$argv[1]"; and begin
        not set -q argv[2]; or test $position = $argv[2]
    end
end

# Completes the command after --.
function @FUNCTION@_other
    set -l words (commandline -opc) (commandline -ct)
    set -l dashes (contains -i -- -- $words)
    complete -C (string join ' ' -- $words[(math $dashes + 1)..-1])
end

set -g @FUNCTION@_commands @COMMANDS@
set -g @FUNCTION@_values @VALUES@
set -g @FUNCTION@_runs @RUNS@
complete -c @NAME@ -f
"""


def _quote(text):
    return "'%s'" % text.replace("\\", "\\\\").replace("'", "\\'")


def _takes(option, function):
    """Flags of `complete` that say which words the value may be."""
    kind = value_of(option)
    if kind == "FILE":
        return "-F"
    if kind in LISTS:
        return "-f -a '(%s_names %s)'" % (function, LISTS[kind])
    return "-f" + (" -a %s" % _quote(" ".join(choices_of(option))) if choices_of(option) else "")


def _at(function, *words):
    return "-n " + _quote(" ".join([function + "_at", '"%s"' % words[0], *words[1:]]))


def _lines(function, path, command):
    where = _at(function, path)
    for sub in command["commands"]:
        yield where, "-a %s -d %s" % (sub["name"], _quote(description_of(sub)))
    for option in options_of(command):
        names = " ".join(("-l " if name.startswith("--") else "-s ") + name.lstrip("-")
                         for name in option["names"])
        takes = " -r " + _takes(option, function) if option["value"] else ""
        yield where, "%s -d %s%s" % (names, _quote(option["help"]), takes)
    for number, option in enumerate(positionals_of(command), 1):
        place = where if option["many"] else _at(function, path, str(number))
        yield place, _takes(option, function)
    if command["runs_command"]:
        yield _at(function, path + " --"), "-a '(%s_other)'" % function


def completion(tree):
    function = "__" + tree["name"].replace("-", "_")
    commands, values, runs, lines = [], [], [], []
    for words, command in commands_of(tree):
        path = " ".join(words)
        commands.append(path)
        if command["runs_command"]:
            runs.append(path)
        values += ["%s %s" % (path, name) for option in options_of(command) if option["value"]
                   for name in option["names"]]
        lines += ["complete -c %s %s %s" % (tree["name"], *line)
                  for line in _lines(function, path, command)]
    text = _TEMPLATE
    for key, value in (("FUNCTION", function), ("NAMES", NAMES), ("NAME", tree["name"]),
                       ("COMMANDS", " ".join(map(_quote, commands))),
                       ("VALUES", " ".join(map(_quote, values))),
                       ("RUNS", " ".join(map(_quote, runs)))):
        text = text.replace("@%s@" % key, value)
    return text + "\n".join(lines) + "\n"
