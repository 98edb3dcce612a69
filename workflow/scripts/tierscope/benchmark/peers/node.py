"""The ad hoc file system of one measurement, as one process sees it."""

import platform
import resource
import secrets
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tierscope.benchmark.loaders.loader import DEFAULT_BUFFER_BYTES
from tierscope.benchmark.peers.client import PeerClient, PeerFeed, PeerReads
from tierscope.benchmark.peers.mount import (
    MountedFiles,
    check_live,
    folder_name,
    remove_left,
)
from tierscope.benchmark.peers.network import listening_address, own_addresses
from tierscope.benchmark.peers.server import TOKEN_BYTES, Access, PeerServer
from tierscope.benchmark.peers.stage_in import stage_in
from tierscope.benchmark.placement.copies import Copier
from tierscope.core.description import RunDescription
from tierscope.core.scenario import Point
from tierscope.data.shuffle import process_share
from tierscope.policies import Place, node_policy
from tierscope.storage.clock import Clock, Role
from tierscope.storage.tier import STAGE_IN_EPOCH, peer_alias


class NodePeers:
    """Stage-in, the node's server, and a client of the other nodes' servers.

    The server belongs to the node's first process. `copier` copies from the GFS to the
    LFS, and `say` prints on rank 0.
    """

    def __init__(
        self,
        description: RunDescription,
        point: Point,
        processes,
        copier: Copier,
        say: Callable[[str], None],
        clock: Clock,
    ):
        self._clock = clock
        self._processes, self._copier, self._say = processes, copier, say
        self._options = description.policy_options
        self._dataset = description.dataset
        self._buffer_bytes = description.loader.buffer_bytes or DEFAULT_BUFFER_BYTES
        self.policy = node_policy(
            description, point, processes.on_node, node=processes.node
        )
        self._log = PeerReads(processes.rank)
        self._feeds: list[PeerFeed] = []
        self._server = self._mounted = self._interface = None
        self._stage_in_time_s = 0.0
        self._last_epoch = description.training.epochs - 1
        _allow_open_files()
        launch = processes.share(secrets.token_hex(TOKEN_BYTES))
        if self._options["mount"]:
            self._mounted = self._transport = self._use_mount(launch)
        else:
            self._transport = self._start_servers(bytes.fromhex(launch))

    def begin(self) -> None:
        """Stage in the dataset: all nodes at once, each with the files that it owns."""
        processes = self._processes
        mine = self._my_files()
        start_s = self._clock.barrier()
        with self._clock.act(processes.rank, Role.CONSUMER):
            stage_in(
                self._stage,
                [self._dataset.file_name(i) for i in mine],
                processes.node,
                processes.raise_if_failed,
            )
        self._stage_in_time_s = self._clock.barrier() - start_s
        self._say(self._summary())

    def feed(
        self, epoch: int, files: Sequence[int], folders: Mapping[Place, str]
    ) -> PeerFeed:
        """Return this process's files of an epoch, fetched one by one."""
        feed = PeerFeed(
            self.policy,
            self._transport,
            self._log,
            epoch,
            files,
            folders,
            self._dataset.file_name,
            self._clock,
        )
        self._feeds.append(feed)
        return feed

    def check(self) -> None:
        """Raise the error of the node's server or of a read from a peer, if any."""
        if self._server:
            self._server.check()
        if self._transport.error:
            raise self._transport.error

    def end_epoch(self, epoch: int) -> None:
        """Free the memory of an epoch; after the last one remove the mounted folder."""
        self.check()
        while self._feeds:
            self._feeds.pop().close()
        is_last = epoch == self._last_epoch
        if self._mounted and self._processes.node_rank == 0 and not is_last:
            self._mounted.check()
        if is_last and self._mounted and self._processes.rank == 0:
            self._mounted.remove()  # also checks; other nodes may come too late

    def stop(self) -> None:
        """End the node's server and threads; leave a mount alone, as it may hang."""
        if self._server:
            self._server.stop()
        self._transport.close()

    def report(self) -> dict[str, Any]:
        """Return this process's log and the time of stage-in, after the last epoch."""
        return {
            "stage_in_time_s": self._stage_in_time_s,
            "interface": self._interface,
            "peer_reads": self._log.columns(),
        }

    # ---- set-up -------------------------------------------------------------------

    def _start_servers(self, token: bytes) -> PeerClient:
        """Start the node's server and return a client of all nodes' servers."""
        processes, server = self._processes, None
        self._interface, host = listening_address(
            self._options.get("interface"),
            processes.share(processes.gather(platform.node())),
            platform.node(),
        )
        mine = [*own_addresses().values(), host]
        allowed = processes.share(processes.gather(mine))
        if processes.node_rank == 0:
            server = self._server = PeerServer(
                self._lfs_path,
                self._dataset.file_size_bytes,
                self._buffer_bytes,
                processes.node,
                self._options["server_threads"],
                Access(
                    token,
                    host,
                    {address for addresses in allowed for address in addresses},
                    processes.size,
                ),
                self._clock,
            )
        address = (host, server.port) if server else None
        found = processes.share(processes.gather((processes.node, address)))
        addresses = {node: address for node, address in found if address}
        return PeerClient(
            addresses,
            self.policy.owners,
            self._dataset,
            token,
            processes.node,
            processes.rank,
            self._clock,
        )

    def _use_mount(self, launch: str) -> MountedFiles:
        """Return the files of a mount that works and has space for them."""
        processes = self._processes
        mount = Path(self._options["mount"])
        n_bytes = int(self.policy.staged.sum()) * self._dataset.file_size_bytes
        tiers = {"GFS": self._copier.gfs_root, "LFS": self._copier.lfs_root}
        name = processes.share(folder_name())
        files = MountedFiles(mount, name, self._dataset.file_name, self._buffer_bytes)
        if processes.rank == 0:
            remove_left(mount)  # they take up space
        processes.barrier()
        check_live(files, processes, launch, n_bytes, tiers)
        files.open()
        return files

    def _stage(self, name: str) -> None:
        """Copy a file from the GFS to the node's LFS, or to the mount."""
        if self._mounted:
            self._mounted.write(name, self._copier.read(name, STAGE_IN_EPOCH))
        else:
            self._copier.copy(name, STAGE_IN_EPOCH, None)

    def _my_files(self) -> np.ndarray:
        """Return the files that this process stages in."""
        processes = self._processes
        if self._mounted:  # the mount chooses the owner, not the writer
            files = np.flatnonzero(self.policy.staged)
            return files[process_share(len(files), processes.rank, processes.size)]
        files = self.policy.files_of(processes.node)
        share = process_share(len(files), processes.node_rank, processes.node_size)
        return files[share]

    def _lfs_path(self, epoch: int, file_id: int) -> str:
        """Return the path with which the server opens a file."""
        alias, folder = self._copier.lfs_root, self._copier.lfs_folder
        name = self._dataset.file_name(file_id)
        return f"{peer_alias(alias, epoch)}/{folder}/{name}"

    def _summary(self) -> str:
        """Return a line about the staged files and their distribution."""
        n_staged = int(self.policy.staged.sum())
        text = f"  stage-in of {n_staged} files: {self._stage_in_time_s:.3f} s"
        if self._mounted or not n_staged:
            return text
        n_nodes = len(self._processes.hosts)
        shares = [len(self.policy.files_of(node)) / n_staged for node in range(n_nodes)]
        return (
            f"{text}; a node owns {100 * min(shares):.2f} to {100 * max(shares):.2f} % "
            f"of them (1/{n_nodes}: {100 / n_nodes:.2f} %)"
        )


def _allow_open_files() -> None:
    """Raise this process's limit of open files to the maximum: one per peer."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
