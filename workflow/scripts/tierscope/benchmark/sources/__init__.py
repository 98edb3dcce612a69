"""Sources of the samples of a run: files, placed files, peers, a database.

The driver asks a source what to read and when to begin, and does not know the kind of
the run. `SOURCES` is the registry.
"""

from tierscope.benchmark.sources.database import DatabaseSource
from tierscope.benchmark.sources.files import FileSource, LaunchSite
from tierscope.benchmark.sources.peers import PeerSource
from tierscope.benchmark.sources.placed import PlacedSource
from tierscope.policies import DATABASE, FILES, PEERS, PLACED, kind_of

SOURCES = {
    FILES: FileSource,
    PLACED: PlacedSource,
    PEERS: PeerSource,
    DATABASE: DatabaseSource,
}


def source_of(site: LaunchSite) -> FileSource:
    """Return the source of a launch's samples."""
    return SOURCES[kind_of(site.description.scenario)](site)
