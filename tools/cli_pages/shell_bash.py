"""Completions for bash, with the functions of the package bash-completion."""
from tree import LISTS, NAMES, choices_of, commands_of, options_of, positionals_of, value_of

_TEMPLATE = r"""# bash completion for @NAME@. Made from its own command line by tools/cli_pages.
@FUNCTION@_names() {
    $1 @NAMES@
}

@FUNCTION@() {
    local cur prev words cword split
    _init_completion -s -n : || return
    # Keys are paths of commands, and with a word behind them an option with a value, or the number of
    # an argument (* for all from there on).
    local -A commands=(@COMMANDS@)
    local -A options=(@OPTIONS@)
    local -A values=(@VALUES@)
    local -A runs=(@RUNS@)
    local path=@NAME@ position=1 i word kind
    for ((i = 1; i < cword; i++)); do
        word=${words[i]}
        if [[ $word == -- && ${runs[$path]-} ]]; then
            for ((i = 1; i < COMP_CWORD; i++)); do
                if [[ ${COMP_WORDS[i]} == -- ]]; then
                    _command_offset $((i + 1))
                    return
                fi
            done
        elif [[ $word == -* ]]; then
            if [[ ${values[$path $word]+set} ]]; then ((i++)); fi
        elif [[ " ${commands[$path]-} " == *" $word "* ]]; then
            path+=" $word"
        else
            ((position++))
        fi
    done
    if [[ $prev == -* && ${values[$path $prev]+set} ]]; then
        kind=${values[$path $prev]}
    elif $split; then
        return
    elif [[ $cur == -* ]]; then
        kind=${options[$path]}
    elif [[ ${commands[$path]-} ]]; then
        kind=${commands[$path]}
    else
        kind=${values[$path $position]-${values[$path *]-}}
    fi
    case $kind in
    @file) _filedir ;;
    @*) COMPREPLY=($(compgen -W "$(@FUNCTION@_names "${kind#@}")" -- "$cur")) ;;
    *) COMPREPLY=($(compgen -W "$kind" -- "$cur")) ;;
    esac
}

complete -F @FUNCTION@ @NAME@
"""


def _kind(option):
    """Words; or @file; or @ and the command that lists names."""
    name = value_of(option)
    if name == "FILE":
        return "@file"
    return "@" + LISTS[name] if name in LISTS else " ".join(choices_of(option))


def _table(rows):
    return "".join('\n        ["%s"]="%s"' % row for row in rows) + "\n    " if rows else ""


def completion(tree):
    commands, options, values, runs = [], [], [], []
    for words, command in commands_of(tree):
        path = " ".join(words)
        names = [name for option in options_of(command) for name in option["names"]]
        options.append((path, " ".join(names)))
        if command["commands"]:
            commands.append((path, " ".join(sub["name"] for sub in command["commands"])))
        if command["runs_command"]:
            runs.append((path, "yes"))
        for option in options_of(command):
            if option["value"]:
                values += [("%s %s" % (path, name), _kind(option)) for name in option["names"]]
        for number, option in enumerate(positionals_of(command), 1):
            values.append(("%s %s" % (path, "*" if option["many"] else number), _kind(option)))
    text = _TEMPLATE
    for key, value in (("FUNCTION", "_" + tree["name"].replace("-", "_")),
                       ("NAMES", NAMES), ("NAME", tree["name"]),
                       ("COMMANDS", _table(commands)), ("OPTIONS", _table(options)),
                       ("VALUES", _table(values)), ("RUNS", _table(runs))):
        text = text.replace("@%s@" % key, value)
    return text
