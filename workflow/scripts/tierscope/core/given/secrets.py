"""Leave out of a command line what looks like a secret, before others can see it.

Files from which a command is started again, such as ``sweep.yaml``, keep it whole.
"""

import re
import shlex
from collections.abc import Iterable

_HIDDEN = "HIDDEN"
# Names with these words have secret values, and names with these endings.
_ANYWHERE = {"password", "passwd", "passphrase", "secret", "credential", "credentials"}
_ANYWHERE |= {"passwords", "secrets"}
_LAST = {"sig", "signature", "auth", "authorization", "bearer", "pass", "pw", "pat"}
_LAST |= {"jwt", "cookie", "cookies", "apikeys"}
_ENDINGS = ("token", "key", "password", "passwd", "secret", "pwd")
_SEVERAL = {"keys", "tokens"}  # after another word
# Words before keys and tokens of data: of samples, and of texts.
_OF_DATA = {"image", "label", "text", "sample", "feature", "input", "target", "sort"}
_OF_DATA |= {"new", "pad", "bos", "eos", "unk", "cls", "sep", "mask", "special"}
_COUNTED = {"max", "min", "num", "n", "total"}
_PLACES = {"file", "path", "dir", "directory", "folder", "name", "id"}
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_NAME = re.compile(r"""(?<![\w.+-])([\w.+-]+)["']?\s*[=:]\s*""")
_OF_NAME = re.compile(r"""'[^']*'|"[^"]*"|\S+?(?=["';&|]*(?:\s|$))""")
# What one of HTTP says has blanks.
_HEADER = r"((?<![\w-])[\w-]*(?:authorization|cookie)\s*:\s*)"
_HEADER_WORD = re.compile(rf"{_HEADER}.+", re.IGNORECASE | re.DOTALL)
_HEADER_IN_TEXT = re.compile(
    rf"""{_HEADER}[^"']+?(?=["']|\s-|\s\w+://|$)""", re.IGNORECASE
)
_VALUE = re.compile(r"[^-].*|-[^-].+", re.DOTALL)
_USERS = {"-u", "-U", "--user", "--proxy-user"}
_USER = re.compile(r"(?!\d+:\d+$)[^:/]+:(?!//).+")  # and password; no numbers of ids
_OF_URL = re.compile(r"(?<=://)[^/\s@]+(?=@)")  # a user, with or without a password
_SHAPES = re.compile(
    r"\b(?:hf_(?:(?=[a-z]*[A-Z0-9])[A-Za-z0-9]{6,}|[a-z]{16,})|gh[a-z]_\w{16,}"
    r"|github_pat_\w{16,}|glpat-[\w-]{16,}|sk-[\w-]{16,}|xox[a-z]-[\w-]{8,}"
    r"|A[KS]IA[A-Z0-9]{16}|AIza[\w-]{30,}|eyJ[\w-]{8,}\.[\w-]+\.[\w-]*)"
    r"|(?<=[Bb]earer )\S+|(?<=[Bb]asic )\S+"
)


def command_words(command: Iterable[str]) -> str:
    """Return a command as one types it, without what looks like a secret."""
    return shlex.join(_without_values(map(_word, command)))


def without_secrets(text: str) -> str:
    """Return a text, such as a command line in a log, without what looks like one.

    A value with blanks may stay in part: nobody knows where such a word ends.
    """
    for pattern in (_SHAPES, _OF_URL):
        text = pattern.sub(_HIDDEN, text)
    text = _HEADER_IN_TEXT.sub(rf"\1{_HIDDEN}", text)
    return " ".join(_without_values(_named(text).split(" ")))


def _word(word: str) -> str:
    """Return a word of a command, which may be a command itself."""
    name, equals, _ = word.partition("=")
    if equals and not re.search(r"[\s/?]", name) and _is_secret(name):
        return f"{name}={_HIDDEN}"
    if found := _HEADER_WORD.fullmatch(word):
        return f"{found[1]}{_HIDDEN}"
    return without_secrets(word)


def _named(text: str) -> str:
    """Return a text without the values in ``NAME=VALUE`` and ``NAME: VALUE``."""
    parts, end = [], 0
    for found in _NAME.finditer(text):
        value = _OF_NAME.match(text, found.end()) if _is_secret(found[1]) else None
        if value and found.start() >= end:
            parts += [text[end : value.start()], _HIDDEN]
            end = value.end()
    return "".join([*parts, text[end:]])


def _without_values(words: Iterable[str]) -> list[str]:
    """Return words without those that follow an option with a secret value."""
    kept, before = [], ""
    for word in words:
        kept.append(_hidden(word) if _is_value(word, before) else word)
        before = word
    return kept


def _hidden(word: str) -> str:
    """Return what stands for a word; what ends a command of a shell stays."""
    return _HIDDEN + word[len(word.rstrip(";&|")) :]


def _is_value(word: str, before: str) -> bool:
    """Return whether a word is an option's secret, which may begin with a hyphen."""
    if before in _USERS:
        return _USER.fullmatch(word) is not None
    if not before.startswith("-") or "=" in before or not _is_secret(before):
        return False
    return _VALUE.fullmatch(word) is not None


def _is_secret(name: str) -> bool:
    """Return whether a name looks like one of a secret: not ``--tokenizer``."""
    words = [word.lower() for word in _WORDS.findall(name)]
    if not words or words[-1] in _PLACES or name == "key":
        return False
    *others, last = words
    is_sure = last in _LAST or not _ANYWHERE.isdisjoint(words)
    if is_sure or not others:
        return is_sure or last.endswith(_ENDINGS)
    if others[-1] in _OF_DATA or not _COUNTED.isdisjoint(others):
        return False
    return last.endswith(_ENDINGS) or last in _SEVERAL
