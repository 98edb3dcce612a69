"""Who has run a job: a log has the user's number, its name may have the user's."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

from tierscope.core.words import as_utf8


def user_in(log: Path, interpreter: str) -> str:
    """Return the user in a log's name as Darshan writes it; nothing for a number."""
    name, found, _ = as_utf8(Path(log.name)).partition(f"_{interpreter}_id")
    return name if found and not name.isdecimal() else ""


class Users:
    """The names that logs have for each user's number, also those of copies."""

    def __init__(self, named: Iterable[tuple[int, str]]) -> None:
        self._names: dict[int, Counter[str]] = defaultdict(Counter)
        for uid, name in named:
            if name:
                self._names[uid][name] += 1

    def name_of(self, uid: int) -> str:
        """Return the name that most logs have, the shortest of several; or the number.

        A copy that has a longer name, such as ``copy of``, changes nothing.
        """
        names = self._names.get(uid)
        if not names:
            return str(uid)
        return min(names, key=lambda name: (-names[name], len(name), name))

    def keeps(
        self, wanted: Mapping[str, str], uid: int, executable: str, month: str
    ) -> bool:
        """Return whether a filter keeps a job; any name that a log has for its user."""
        users = {str(uid), *self._names.get(uid, ())}
        values = {"user": users, "executable": [executable], "month": [month]}
        return all(one in values[key] for key, one in wanted.items())
