"""An error of Snakemake or of our workflow in one line that says what to type."""

import errno
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import yaml

_OF_A_JOB = re.compile(r"CalledProcessError|SpawnedJobError")
_WORKFLOW = re.compile(r'^WorkflowError(?: in rule \w+)?(?: in file ".*", line \d+)?:$')
_FRAME = re.compile(r'^  File ".*", line \d+')
_OS_ERROR = re.compile(r"^(\w+): \[Errno \d+\] (.+?): '(.+?)'", re.MULTILINE)
_SAID = "At least one job did not complete successfully"
_NOT_YAML = "Config file is not valid JSON or YAML"
_NO_KEYS = "Config file must be given as JSON or YAML with keys at top level"
_NO_RULE = re.compile(r"^MissingRuleException:\nNo rule to produce (.+?) \(if you use")
_OF_INPUT = re.compile(
    r"^InputFunctionException[^\n]*\nError:\n  WorkflowError:\n(.*?)\nWildcards:",
    re.DOTALL,
)
_OF_CONFIG = re.compile(
    r"^config: (?P<path>\S+|top level): got (unknown key (?P<keys>.+?), expected )?"
)
# Of a file that Snakemake cannot read: with --configfile, and with `configfile:`.
_UNREAD = re.compile(
    r"^(Traceback|\w+ in file \"(?P<file>.+?)\", line (?P<line>\d+):\n)|"
    f"{_NOT_YAML}|{_NO_KEYS}"
)
# The folder that Snakemake names is often another one than that of the file.
_UNNOTED = re.compile(
    r"Error recording metadata for finished job \((?:\[Errno \d+\] )?"
    r"(?P<reason>.+?)(?:: '(?P<path>.+?)')?\)\. Please .* directory (?P<folder>.+)"
)
_UNMARKED = re.compile(
    r"Failed to set marker file for job started \((?:\[Errno \d+\] )?(.+?)(?:: '.+')?\)"
)
# Of a script that Snakemake writes before it starts a job.
_UNSTARTED = re.compile(
    r"^RuleException:\n(\w+) in file .+:\n\[Errno \d+\] (.+?)(?:: '(.+)')?(?:\n|$)"
)
_OF_SNAKEMAKE = ".snakemake"
_FREE = "Free room there, then start again: finished files are kept."
_OPEN = "Make it writable, then start again: finished files are kept."
_ADVICE = {
    os.strerror(errno.ENOSPC): _FREE,
    os.strerror(errno.EDQUOT): _FREE,
    os.strerror(errno.EROFS): _OPEN,
}
_QUOTED = re.compile(r"""(["'])(.+?)\1""")
_DEFAULT = "config/config.yaml"
_SUFFIXES = (".yaml", ".yml", ".json")


def error_line(text: str, arguments: Sequence[str]) -> str:
    """Return an error for the terminal, empty if a job reports it itself.

    Parameters
    ----------
    text : str
        The error as Snakemake prints it.
    arguments : sequence of str
        Arguments of the command, which name the configuration files.
    """
    if ("Command '" in text and _OF_A_JOB.search(text)) or _SAID in text:
        return ""
    if found := _UNREAD.search(text):
        named = _configfile_of(found["file"], found["line"])
        if faults := list(
            _malformed([_DEFAULT, *configuration_files(arguments), *named])
        ):
            return "\n".join(faults)
    if text.startswith("Traceback") and (found := _OS_ERROR.findall(text)):
        return _of_system(*found[-1], list(configuration_files(arguments)))
    if unnoted := _UNNOTED.search(text):
        path = unnoted["path"] or unnoted["folder"]
        return f"{path}: {unnoted['reason']}; Snakemake cannot note what is finished."
    if unstarted := _UNSTARTED.search(text):
        kind, reason, path = unstarted.groups()
        return _of_system(kind, reason, path or _OF_SNAKEMAKE, [])
    if missing := _NO_RULE.search(text):
        return (
            f"{missing[1]}: no rule makes this file; snakemake --list-target-rules "
            "lists the targets."
        )
    if refused := _OF_INPUT.search(text):
        return " ".join(refused[1].split())
    first, _, rest = text.partition("\n")
    if not _WORKFLOW.match(first):
        return text
    lines = [line for line in rest.split("\n") if line and not _FRAME.match(line)]
    return "\n".join(_with_file(line, arguments) for line in lines)


def warning_line(text: str) -> str:
    """Return a warning of Snakemake for the terminal, in one line if it is known."""
    if unmarked := _UNMARKED.match(text):
        left = "what a killed job leaves will count as finished"
        return f"{_OF_SNAKEMAKE}: {unmarked[1]}; {left}."
    return text


def advice(lines: Iterable[str]) -> list[str]:
    """Return what to do about the full or read-only disk that lines name, if so."""
    text = "\n".join(lines)
    return list(dict.fromkeys(_ADVICE[one] for one in _ADVICE if one in text))


def configuration_files(arguments: Sequence[str]) -> Iterator[str]:
    """Yield the configuration files of a command line."""
    return _values_of(("--configfile", "--configfiles"), arguments)


def _values_of(names: Sequence[str], arguments: Sequence[str]) -> Iterator[str]:
    """Yield the values of an option that takes several."""
    is_list = False
    for argument in arguments:
        if argument.startswith("-"):
            name, _, value = argument.partition("=")
            is_list = name in names
            if is_list and value:
                yield value
        elif is_list:
            yield argument


def _of_system(kind: str, reason: str, path: str, files: Sequence[str]) -> str:
    """Return a line for an error of the operating system, with what to do."""
    given = next((name for name in files if Path(path).name == Path(name).name), None)
    if kind == "FileNotFoundError" and given:
        line = f"{given}: no such configuration file"
        if not given.endswith(_SUFFIXES):
            others = [name for name in files if name != given]
            first = f"snakemake {given} --configfile {' '.join(others) or 'FILE'}"
            line += f"; a target goes before --configfile: {first}"
        return f"{line}."
    if _is_of_cache(Path(path)):
        return (
            f"{path}: {reason.lower()}; set XDG_CACHE_HOME to a folder where you may "
            "read and write."
        )
    if kind == "PermissionError" or reason == "Read-only file system":
        return (
            f"{path}: {reason.lower()}; work in a folder where you may read and write."
        )
    return f"{path}: {reason}."


def _is_of_cache(path: Path) -> bool:
    """Return whether a path is that of Snakemake's cache, or of the home above it."""
    home = Path(os.path.expanduser("~"))
    cache = Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache")
    return path.is_relative_to(cache) or path in (home, *home.parents)


def _configfile_of(snakefile: str | None, line: str | None) -> list[str]:
    """Return the files that `configfile:` names in a line of a Snakefile."""
    try:
        lines = Path(snakefile or "").read_text("utf-8").splitlines()
        lines = lines[int(line or 0) - 1 :][:2]
    except (OSError, ValueError):
        return []
    if not lines or not lines[0].lstrip().startswith("configfile:"):
        return []
    return [name for _, name in _QUOTED.findall("\n".join(lines))]


def _malformed(files: Sequence[str]) -> Iterator[str]:
    """Yield file, line and problem of each file that is not YAML or has no keys."""
    for name in dict.fromkeys(files):
        path = Path(name)
        if not path.exists():
            continue
        try:
            content = yaml.safe_load(_text_of(path))
            if not isinstance(content, dict):
                found = "nothing" if content is None else repr(content)[:60]
                yield f"{name}: got {found}, expected keys with values."
        except OSError as error:
            yield f"{name}: cannot be read: {error.strerror}."
        except UnicodeDecodeError as error:
            line = error.object.count(b"\n", 0, error.start) + 1
            byte = error.object[error.start]
            yield (
                f"{name}, line {line}: got byte 0x{byte:02x}, which is not UTF-8, "
                "expected a file in UTF-8."
            )
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            words = " ".join(filter(None, (error.context, error.problem)))
            where = f", line {mark.line + 1}" if mark else ""
            yield f"{name}{where}: is not valid YAML: {words}."
        except yaml.reader.ReaderError as error:
            line = _text_of(path).count("\n", 0, error.position) + 1
            code = f"U+{int(error.character):04X}"
            yield f"{name}, line {line}: got character {code}, expected text."
        except (yaml.YAMLError, ValueError, LookupError, AttributeError) as error:
            yield f"{name}: is not valid YAML: {' '.join(str(error).split())}."
        except RecursionError:
            yield f"{name}: is nested too deeply, expected a few levels."


def _text_of(path: Path) -> str:
    """Return the text of a file in UTF-8."""
    return path.read_bytes().decode("utf-8")


def _with_file(line: str, arguments: Sequence[str]) -> str:
    """Return an error of the configuration with the last file that sets the value."""
    if not (found := _OF_CONFIG.match(line)):
        return line
    path = [] if found["path"] == "top level" else found["path"].split(".")
    ends = [[key] for key in found["keys"].split(", ")] if found["keys"] else [[]]
    paths = [one for end in ends if (one := [*path, *end])]
    given = {one.partition("=")[0] for one in _values_of(("--config", "-C"), arguments)}
    if any(path[0] in given for path in paths):
        return line
    for name in reversed((_DEFAULT, *configuration_files(arguments))):
        try:
            content = yaml.safe_load(_text_of(Path(name)))
        except (OSError, ValueError, yaml.YAMLError):
            continue
        if any(_has(content, path) for path in paths):
            return f"{name}: {line.removeprefix('config: ')}"
    return line


def _has(content: object, path: Sequence[str]) -> bool:
    """Return whether a file's content has a value at a path."""
    for key in path:
        items = enumerate(content) if isinstance(content, list) else ()
        items = content.items() if isinstance(content, dict) else items
        here = {str(name): value for name, value in items}
        if key not in here:
            return False
        content = here[key]
    return True
