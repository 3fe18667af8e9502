"""A program's command line, as the program prints it, and what all pages say of it alike.

A command is {"name", "description", "footer", "runs_command", "options", "commands"}. An option is
{"names", "positional", "value", "many", "required", "one_of", "default", "help", "needs",
"excludes"}: "value" is what its value is called (src/cli/command_line.h, Option::Value()), empty for
a flag; "one_of" is true in a group of which a command line has one.
"""
import json
import subprocess

# Programs that ship and take options: name -> (section of the manual, component of the packages).
PROGRAMS = {
    "cgpu": (1, "host"),
    "cgpu-burn": (1, "host"),
    "cgpud": (8, "host"),
    "cgpu-sim": (8, "host"),
    "cgpu-exporter": (8, "exporter"),
    "cgpu-scheduler": (8, "kubernetes"),
    "cgpu-device-plugin": (8, "kubernetes"),
    "kubectl-inspect-cgpu": (1, "kubernetes"),
}

# Values that are names of what there is -> the command that lists them as JSON.
LISTS = {"CONTAINER": "cgpu ps --json", "NODE": "cgpu sim list --json"}
# The rest of a shell's command that prints the names alone.
NAMES = r"""2>/dev/null | sed -n 's/^ *"name": "\([^"]*\)",*$/\1/p'"""


def read_tree(program):
    done = subprocess.run([program, "--print-cli"], check=True, stdout=subprocess.PIPE)
    tree = json.loads(done.stdout)
    tree["name"] = program.name  # kubectl's plugin calls itself "kubectl inspect cgpu"
    return tree


def commands_of(tree, path=()):
    """Yields the program and all its subcommands, each with its path: ("cgpu", "run")."""
    path = (*path, tree["name"])
    yield path, tree
    for command in tree["commands"]:
        yield from commands_of(command, path)


def options_of(command):
    return [option for option in command["options"] if not option["positional"]]


def positionals_of(command):
    return [option for option in command["options"] if option["positional"]]


def value_of(option):
    """The value's name, without the range that may follow it; empty for a flag."""
    return option["value"].split(":")[0]


def choices_of(option):
    """The words that the value can be; empty where it can be others."""
    words = value_of(option).split("|")
    return words if len(words) > 1 else []


def sentence(text):
    """The text, with a full stop."""
    text = text.strip()
    return text if not text or text[-1] in ".!?" else text + "."


def description_of(tree):
    """Returns the sentence of a program or a command, without the program's own name before it."""
    text = tree["description"].removeprefix(tree["name"] + ": ")
    return text[0].upper() + text[1:]


def remarks(option):
    """Returns the demands that the command line makes of the option, as sentences."""
    said = []
    if ":" in option["value"]:
        said.append("%s." % option["value"].split(":", 1)[1])
    if option["positional"] and choices_of(option):
        said.append("One of %s." % ", ".join(choices_of(option)))
    if option["default"]:
        said.append("Default: %s." % option["default"])
    if option["required"]:
        said.append("Required.")
    if option["one_of"]:
        said.append("One option of its kind is required.")
    if option["many"]:
        said.append("More than one may be given.")
    if option["needs"]:
        said.append("Only with %s." % " and ".join(option["needs"]))
    if option["excludes"]:
        said.append("Not with %s." % " or ".join(option["excludes"]))
    return said


def help_of(option):
    return " ".join(text for text in (sentence(option["help"]), *remarks(option)) if text)


def usage(path, command):
    """The command's synopsis: "cgpu set [OPTIONS] ID"."""
    words = [*path, "[OPTIONS]"]
    if command["commands"]:
        words.append("COMMAND")
    for option in positionals_of(command):
        name = option["names"][0] + ("..." if option["many"] else "")
        words.append(name if option["required"] else "[%s]" % name)
    if command["runs_command"]:
        words.append("-- CMD...")
    return " ".join(words)
