"""Storage that no model of ours has: a token bucket, a cache, unequal servers.

A small event simulation in plain Python that shares no code with the simulator. Its
stations are those of a system file without groups: a metadata server, object servers
for the GFS, one server of the LFS, a link, and latencies. Files are read whole, in one
request. What is foreign happens at the object servers of the GFS:

- `TokenBucket`: a server serves as usual until its credit is used up, then at a limit;
- `ServerCache`: a server keeps the files that it read last, and serves them faster;
- `UnequalServers`: one server holds more of the files than the others.
"""

import heapq
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from tierscope.core.description import ProbeDescription, RunDescription
from tierscope.core.scenario import Point
from tierscope.model.simulator.epoch import SimulatedEpoch
from tierscope.model.simulator.reader_steps import FROM_LFS
from tierscope.model.simulator.run import PlannedReads, SimulatedReads, planned_reads
from tierscope.storage.probes import REPEATS, Probe, plan, probe_files
from tierscope.storage.queueing_network import network_of

OPEN, OBJECT, LINK, CLOSE, DONE = range(5)


class Plain:
    """Object servers without anything foreign."""

    def __init__(self, n_servers: int):
        self.n_servers = n_servers
        self.forget()

    def forget(self) -> None:
        """Begin anew: nothing was served for long."""

    def server_of(self, file: int) -> int:
        """Return the server that holds a file."""
        return file % self.n_servers

    def service_s(
        self, server: int, file: int, n_bytes: int, usual_s: float, start_s: float
    ) -> float:
        """Return how long a server works on a read that it starts at an instant."""
        return usual_s


class TokenBucket(Plain):
    """Servers whose rate is limited once their credit is used up."""

    def __init__(self, n_servers: int, limit_bytes_per_s: float, credit_bytes: float):
        self.limit_bytes_per_s, self.most_bytes = limit_bytes_per_s, credit_bytes
        super().__init__(n_servers)

    def forget(self) -> None:
        self.credit_bytes = [self.most_bytes] * self.n_servers
        self.at_s = [0.0] * self.n_servers

    def service_s(self, server, file, n_bytes, usual_s, start_s):
        earned_bytes = self.limit_bytes_per_s * (start_s - self.at_s[server])
        credit_bytes = min(self.most_bytes, self.credit_bytes[server] + earned_bytes)
        needed_s = max(n_bytes - credit_bytes, 0) / self.limit_bytes_per_s
        service_s = max(usual_s, needed_s)
        left_bytes = credit_bytes + self.limit_bytes_per_s * service_s - n_bytes
        self.credit_bytes[server] = min(self.most_bytes, left_bytes)
        self.at_s[server] = start_s + service_s
        return service_s


class ServerCache(Plain):
    """Servers that keep the files they read last, and serve these faster."""

    def __init__(self, n_servers: int, n_kept: int, factor: float):
        self.n_kept, self.factor = n_kept, factor
        super().__init__(n_servers)

    def forget(self) -> None:
        self.kept = [OrderedDict() for _ in range(self.n_servers)]

    def service_s(self, server, file, n_bytes, usual_s, start_s):
        kept = self.kept[server]
        is_hit = file in kept
        kept[file] = None
        kept.move_to_end(file)
        if len(kept) > self.n_kept:
            kept.popitem(last=False)
        return usual_s * (self.factor if is_hit else 1.0)


class UnequalServers(Plain):
    """Servers of which the first holds a larger part of the files than the others."""

    def __init__(self, n_servers: int, n_files: int, times_fair: float, seed: int):
        generator = np.random.default_rng(seed)
        part = min(times_fair / n_servers, 0.9)
        others = (1 - part) / (n_servers - 1)
        weights = [part, *[others] * (n_servers - 1)]
        self.places = generator.choice(n_servers, n_files, p=weights)
        super().__init__(n_servers)

    def server_of(self, file: int) -> int:
        return int(self.places[file])


class ForeignStorage:
    """The stations of a description's system with foreign object servers.

    Parameters
    ----------
    description : RunDescription
        A scenario of a system with `devices`.
    servers : Plain
        The object servers of the GFS.
    cv : float
        Coefficient of variation of the lognormal service times; 0: they do not vary.
    """

    def __init__(self, description: RunDescription, servers: Plain, cv: float = 0.0):
        network = network_of(description.system, description.scenario.n_osts)
        self.description, self.servers = description, servers
        self.tiers = (network.gfs, network.lfs)
        self.sample_s = network.sample_s
        self.sigma = np.sqrt(np.log1p(cv**2))

    def run(self, point: Point, seed: int) -> Iterator[SimulatedReads]:
        """Yield the epochs of a run, which share the servers' state."""
        generator = np.random.default_rng([seed, *self._seeds(point)])
        self.servers.forget()
        now_s = 0.0
        for planned in planned_reads(self.description, point):
            reads, now_s = self._epoch(planned, generator, now_s)
            yield reads

    @staticmethod
    def _seeds(point: Point) -> tuple[int, int]:
        return point.cache_rate_percent, point.repetition

    def _epoch(
        self, planned: PlannedReads, generator: np.random.Generator, start_s: float
    ) -> tuple[SimulatedReads, float]:
        """Return the reads of an epoch, and when it ends."""
        n_ranks = int(planned.rank_of[-1]) + 1
        customers = [
            np.flatnonzero(planned.rank_of == rank).tolist() for rank in range(n_ranks)
        ]
        files, on_lfs = planned.files.tolist(), planned.place.tolist()
        n_bytes = self.description.dataset.file_size_bytes
        jobs = [
            [(i, files[i], int(on_lfs[i]), n_bytes) for i in mine] for mine in customers
        ]
        instants_s = np.full((len(files), 5), start_s)
        end_s = self._serve(
            jobs, (OPEN, OBJECT, LINK, CLOSE), instants_s, generator, start_s
        )
        instants_ns = np.rint((instants_s - start_s) * 1e9).astype(np.int64)
        finished = np.array([instants_ns[mine[-1], -1] for mine in customers])
        none = np.zeros(1, np.int64)
        epoch = SimulatedEpoch(instants_ns, finished, none, 0, None, none)
        return SimulatedReads(
            planned.files, planned.rank_of, planned.place == FROM_LFS, epoch
        ), end_s

    def _serve(
        self,
        jobs: Sequence[Sequence[tuple[int, int, int, int]]],
        stages: Sequence[int],
        instants_s: np.ndarray,
        generator: np.random.Generator,
        start_s: float,
    ) -> float:
        """Let customers go through stages of their jobs in turn; return the end.

        A job is its number, file, tier (0: GFS) and bytes. `instants_s` gets start and
        end of the open, the last byte, start and end of the close.
        """
        free_s: dict = {}
        z = iter(self._draws(generator, 3 * sum(map(len, jobs))))
        events = [(start_s, rank, 0, 0) for rank, mine in enumerate(jobs) if mine]
        heapq.heapify(events)
        last_s = start_s
        while events:
            now_s, rank, place, step = heapq.heappop(events)
            last_s = max(last_s, now_s)
            if step == len(stages):
                place, step = place + 1, 0
                if place == len(jobs[rank]):
                    continue
            number, file, tier, n_bytes = jobs[rank][place]
            stage = stages[step]
            row = instants_s[number]
            if stage == OPEN:
                row[0] = now_s
            elif stage == CLOSE:
                row[3] = now_s
            end_s = self._pass(stage, tier, file, n_bytes, now_s, free_s, z)
            if stage == OPEN:
                row[1] = end_s
            elif stage == LINK:
                row[2] = end_s
                end_s += self.sample_s
            elif stage == CLOSE:
                row[4] = end_s
            heapq.heappush(events, (end_s, rank, place, step + 1))
        return last_s

    def _draws(self, generator: np.random.Generator, n: int) -> list[float]:
        """Return factors of service times with the mean 1."""
        z = generator.standard_normal(n)
        return np.exp(self.sigma * (z - self.sigma / 2)).tolist()

    def _pass(
        self,
        stage: int,
        tier: int,
        file: int,
        n_bytes: int,
        now_s: float,
        free_s: dict,
        z: Iterator[float],
    ) -> float:
        """Return when a call has passed a stage."""
        at = self.tiers[tier]
        after_s, server = 0.0, 0
        if stage in (OPEN, CLOSE):
            service_s = at.open_s if stage == OPEN else at.close_s
            after_s = at.open_latency_s if stage == OPEN else at.close_latency_s
            service_s = service_s * next(z) if service_s else 0.0
            where = (tier, "metadata")
        elif stage == OBJECT:
            usual_s = at.request_s + n_bytes / (at.bandwidth_bytes_per_s or np.inf)
            service_s = usual_s * next(z)
            server = 0 if tier else self.servers.server_of(file)
            where = (tier, server)
        else:
            service_s = n_bytes / (at.link_bytes_per_s or np.inf)
            after_s, where = at.read_latency_s, (tier, "link")
        if service_s == 0:
            return now_s + after_s
        begin_s = max(now_s, free_s.get(where, 0.0))
        if stage == OBJECT and not tier:
            asked = (server, file, n_bytes, service_s, begin_s)
            service_s = self.servers.service_s(*asked)
        free_s[where] = begin_s + service_s
        return free_s[where] + after_s

    def probe(self, seed: int) -> Iterator[tuple[Probe, int, float]]:
        """Yield each probe, the number of its repeat and its time in seconds."""
        probed = ProbeDescription.of(self.description)
        generator = np.random.default_rng([seed, 1])
        self.servers.forget()
        now_s = 0.0
        for repeat in range(REPEATS):
            for probe in plan(probed):
                jobs = list(self._calls(probed, probe, repeat))
                stages = {"open": (OPEN,), "read": (OBJECT, LINK), "close": (CLOSE,)}
                instants_s = np.zeros((sum(map(len, jobs)), 5))
                of = stages[probe.operation]
                end_s = self._serve(jobs, of, instants_s, generator, now_s)
                sample_s = self.sample_s * probe.files_per_client
                yield probe, repeat, end_s - now_s - sample_s * (LINK in of)
                now_s = end_s

    @staticmethod
    def _calls(
        probed: ProbeDescription, probe: Probe, repeat: int
    ) -> Iterable[list[tuple[int, int, int, int]]]:
        """Yield the jobs of each client of a probe."""
        number = 0
        for rank in range(probe.n_clients):
            files = probe_files(probed, probe, rank, repeat).tolist()
            tier = int(probe.tier == "lfs")
            yield [
                (number + k, file, tier, probe.file_bytes)
                for k, file in enumerate(files)
            ]
            number += len(files)
