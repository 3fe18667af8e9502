"""Manual pages, completions and docs/reference, which are made of the programs' own command lines."""
import os
import pty
import re
import select
import shutil
import sys
import tempfile
import threading

import cgpu_test as t

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MAKER = ROOT + "/tools/cli_pages"
BIN = os.path.abspath(t.BIN)

# Lines as typed, and the one word that the last word can become. "trainer" is a container
# that runs, RECORD a file.
LINES = [
    ("cgpu se", "set"),
    ("cgpu run --m", "--mem"),
    ("cgpu run --name set --m", "--mem"),
    ("cgpu run --priority h", "high"),
    ("cgpu run --record RE", "RECORD"),
    ("cgpu run --mem 4GiB -- ls RE", "RECORD"),
    ("cgpu sim sta", "start"),
    ("cgpu sim start --driver 61", "610"),
    ("cgpu install doc", "docker"),
    ("cgpu policy 0 so", "soft"),
    ("cgpu set tr", "trainer"),
    ("cgpu events --container tr", "trainer"),
    ("cgpu upgrade other tr", "trainer"),
    ("cgpu-smi --query-g", "--query-gpu"),
    ("cgpud --con", "--config"),
]

# Prints what bash completes the line $1 to. Words are split as they are here, where they have neither
# : nor =.
BASH = r"""
. /usr/share/bash-completion/bash_completion
COMP_LINE=$1 COMP_POINT=${#1} COMPREPLY=()
read -ra COMP_WORDS <<<"$1"
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
. "$PAGES/bash-completion/completions/${COMP_WORDS[0]}"
words=($(complete -p "${COMP_WORDS[0]}"))
"${words[2]}" "${COMP_WORDS[0]}" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
printf '%s\n' "${COMPREPLY[@]}"
"""

# Control-X and p write the line that is edited to the descriptor 9.
ZSH = r"""
fpath=($PAGES/zsh/site-functions $fpath)
autoload -Uz compinit
compinit -u -D
show() { print -u 9 -r -- $BUFFER; BUFFER= }
zle -N show
bindkey '^Xp' show
"""


def _needs(*programs):
    for program in programs:
        if not shutil.which(program):
            t.skip("no %s on this machine" % program)


def _make(folder, *words):
    t.command(sys.executable, "-B", MAKER, "--bin", BIN, *words, folder)
    return folder


def _pages(folder):
    return [os.path.join(place, name) for place, _, names in os.walk(folder) for name in names]


def reference():
    """docs/reference says what the programs say."""
    with tempfile.TemporaryDirectory() as folder:
        for path in _pages(_make(folder, "--reference")):
            kept = os.path.join(ROOT, "docs/reference", os.path.basename(path))
            with open(path, encoding="utf-8") as made:
                text = made.read()
            t.check(os.path.exists(kept), "there is no %s; hint: make reference" % kept)
            with open(kept, encoding="utf-8") as file:
                t.check(file.read() == text, "%s says something else; hint: make reference" % kept)


def man():
    """mandoc has nothing to say of any page, and each command has one with its options. rmtool has no
    command line that pages are made of: its page is written by hand."""
    _needs("mandoc")
    with tempfile.TemporaryDirectory() as folder:
        pages = [path for path in _pages(_make(folder, "--out")) if "/man/" in path]
        for path in pages:
            done = t.command("mandoc", "-T", "lint", "-W", "style", path, ok=False)
            t.check(done.returncode == 0 and not done.stdout, "%s" % done)
        names = {os.path.basename(path): path for path in pages}
        listed = re.findall(r"^  ([a-z]+) ", t.command(t.CGPU, "--help").split("Subcommands:")[1],
                            re.MULTILINE)
        t.check({"run", "set", "sim"} <= set(listed), "commands: %s" % listed)
        for command in listed:
            _check_options(names["cgpu-%s.1.gz" % command], t.command(t.CGPU, command, "--help"))
        _check_options(names["rmtool.1.gz"], t.command(BIN + "/rmtool", "--help"))


def _check_options(path, said):
    """The page has the options of a help text."""
    page = re.sub(".\b", "", t.command("mandoc", "-T", "utf8", path))
    options = re.findall(r"^  .*?(--[a-z-]+)", said, re.MULTILINE)
    t.check(options, "no options are in: " + said)
    for option in options:
        t.check(option in page, "%s has no %s" % (os.path.basename(path), option))


def _with_trainer(check):
    """Calls check(node, folder, environment): "trainer" runs on the node, RECORD is in the folder."""
    with tempfile.TemporaryDirectory() as folder, t.Node() as node:
        trainer = t.Process([t.CGPU, "run", "--name", "trainer", "--node", node.name, "--mem", "1GiB",
                             "--", "sh", "-c", "echo ready; exec cat"], "trainer")
        trainer.expect("ready")
        _make(folder + "/made", "--out")
        for component in ("exporter", "kubernetes"):
            shutil.copytree("%s/made/%s/share" % (folder, component), folder + "/made/host/share",
                            dirs_exist_ok=True)
        os.mkdir(folder + "/here")
        with open(folder + "/here/RECORD", "w", encoding="utf-8"):
            pass
        check(node.name, folder + "/here", {"PATH": BIN + ":/usr/bin:/bin", "HOME": folder, "TERM": "dumb",
                                 "PAGES": folder + "/made/host/share", "LC_ALL": "C.UTF-8"})
        trainer.end()


def _check_lines(node, complete):
    for line, word in [*LINES, ("cgpu run --node " + node[:-1], node)]:
        found = complete(line)
        t.check(found == [word], '"%s" becomes %s, not %s' % (line, found, word))


def bash():
    if not os.path.exists("/usr/share/bash-completion/bash_completion"):
        t.skip("no bash-completion on this machine")

    def check(node, here, environment):
        for path in _pages(environment["PAGES"] + "/bash-completion"):
            t.command("bash", "-n", path)
        _check_lines(node, lambda line: t.command("bash", "-c", BASH, "bash", line, cwd=here,
                                            env=environment).split())

    _with_trainer(check)


def fish():
    _needs("fish")

    def check(node, here, environment):
        for path in _pages(environment["PAGES"] + "/fish"):
            t.command("fish", "--no-execute", path, env=environment)
        script = ("set fish_complete_path $PAGES/fish/vendor_completions.d; "
                  "complete -C $argv[1]")
        _check_lines(node, lambda line: [found.split("\t")[0] for found in t.command(
            "fish", "-c", script, line, cwd=here, env=environment).splitlines()])

    _with_trainer(check)


def zsh():
    """At a terminal: its completion works nowhere else."""
    _needs("zsh")

    def check(node, here, environment):
        for path in _pages(environment["PAGES"] + "/zsh"):
            t.command("zsh", "-n", path)
        with open(environment["HOME"] + "/.zshrc", "w", encoding="utf-8") as file:
            file.write(ZSH)
        shown = environment["HOME"] + "/shown"
        os.mkfifo(shown)
        child, terminal = pty.fork()
        if child == 0:
            os.chdir(here)
            os.execve("/bin/sh", ["sh", "-c", 'exec zsh -i 9<>"$HOME/shown"'], environment)
        drain = threading.Thread(target=_read_all, args=(terminal,), daemon=True)
        drain.start()
        with open(shown, encoding="utf-8") as lines:
            def complete(line):
                os.write(terminal, line.encode() + b"\t\x18p")
                t.check(select.select([lines], [], [], t.DEADLINE)[0], "zsh says nothing")
                whole = lines.readline().rstrip("\n")
                start = line[:line.rindex(" ") + 1]
                t.check(whole.startswith(start), "zsh has %r" % whole)
                return [whole.removeprefix(start).rstrip(" =")]

            _check_lines(node, complete)
        os.write(terminal, b"exit\n")
        os.waitpid(child, 0)
        drain.join()
        os.close(terminal)

    _with_trainer(check)


def _read_all(terminal):
    """Reads what is shown, so that the terminal never fills."""
    try:
        while os.read(terminal, 4096):
            pass
    except OSError:  # its last process has ended
        pass


t.main({"reference": reference, "man": man, "bash": bash, "fish": fish, "zsh": zsh})
