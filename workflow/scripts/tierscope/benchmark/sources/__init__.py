"""Sources of the samples of a run: files, placed files, peers, a database.

The driver asks a source what to read and when to begin, and does not know the kind of
the run. `SOURCES` is the registry.
"""

from tierscope.benchmark.sources.files import FileSource, LaunchSite
from tierscope.policies import DATABASE, FILES, PEERS, PLACED, kind_of


def _database() -> type[FileSource]:
    from tierscope.benchmark.sources.database import DatabaseSource

    return DatabaseSource


def _peers() -> type[FileSource]:
    from tierscope.benchmark.sources.peers import PeerSource

    return PeerSource


def _placed() -> type[FileSource]:
    from tierscope.benchmark.sources.placed import PlacedSource

    return PlacedSource


# What imports the class of each kind. A launch imports one only: its ranks start
# together, and each module is a file.
SOURCES = {
    FILES: lambda: FileSource,
    PLACED: _placed,
    PEERS: _peers,
    DATABASE: _database,
}


def source_of(site: LaunchSite) -> FileSource:
    """Return the source of a launch's samples."""
    return SOURCES[kind_of(site.description.scenario)]()(site)
