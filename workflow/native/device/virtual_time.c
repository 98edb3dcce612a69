/* Virtual time; see virtual_time.h. */
#include "virtual_time.h"

#include "device.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S 1000000000LL
#define VIRTUAL_MAGIC 0x7469657276697235LL /* "tiervir5" */
#define LARGEST_PREFETCH (RING - 6)
#define LOOK_NS 100000000LL
#define LOOKS_AT_LOCK 600 /* a minute, then the launch is stopped */
#define LOOKS_AT_END 50   /* and after this the process ends */

static const char *const kind_names[N_KINDS] = {
    [COPIED] = "its turn to report a copy",
    [ENDED] = "its turn to report a read",
    [CLOSING] = "a close of device",
    [ON_LINK] = "the link of device",
    [ON_OUT_LINK] = "the link out of node",
    [ON_IN_LINK] = "the link into node",
    [REQUESTING] = "an object server of device",
    [OPENING] = "an open of device",
    [ASKING_OWNER] = "a server thread of node",
    [STARTING] = "its turn to ask where to read",
    [ENDING_EPOCH] = "its turn to end an epoch",
};

struct virtual_state *shared;
static struct node *nodes; /* as many as processes */
static struct stations **stations_of;
struct process *me;
static __thread struct actor *acts_for; /* NULL: the role follows from the path */
static __thread struct {
  bool is_new; /* the tracer has not asked for it */
  int64_t start_ns, end_ns;
} last_call;

/* ---- lock, bells -------------------------------------------------------------- */

static __thread struct actor *to_wake[2 * RING];
static __thread int n_to_wake;
static __thread volatile bool has_lock; /* or is about to take or release it */

/* A process that holds the lock for too long ends the launch, too. */
static void lock_state(void) {
  int error = ETIMEDOUT;
  if (has_lock) /* waiting for itself would never end */
    fail("a signal handler reads or writes files of an emulated tier while its "
         "thread does; virtual time cannot say which call comes first");
  has_lock = true;
  for (int looks = 0, stopped_at = -1; error == ETIMEDOUT; looks++) {
    struct timespec look;
    clock_gettime(CLOCK_REALTIME, &look);
    int64_t ns = look.tv_nsec + LOOK_NS;
    look.tv_sec += ns / NS_PER_S;
    look.tv_nsec = ns % NS_PER_S;
    error = pthread_mutex_timedlock(&shared->lock, &look);
    if (looks > LOOKS_AT_LOCK)
      shared->stopped = 1;
    if (shared->stopped && stopped_at < 0)
      stopped_at = looks;
    if (error == ETIMEDOUT && stopped_at >= 0 && looks - stopped_at > LOOKS_AT_END)
      fail("a process holds the lock of their state for too long");
  }
  if (error == EOWNERDEAD) {
    shared->stopped = 1; /* the dead process may have left half a change */
    pthread_mutex_consistent(&shared->lock);
  }
}

static void wake(struct actor *actor) {
  syscall(SYS_futex, &actor->bell, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* Threads are woken when the lock is free; earlier they would only wait for it. */
static void unlock_state(void) {
  pthread_mutex_unlock(&shared->lock);
  has_lock = false;
  while (n_to_wake > 0)
    wake(to_wake[--n_to_wake]);
}

static void ring(struct actor *actor) {
  atomic_fetch_add(&actor->bell, 1);
  if (atomic_load(&actor->n_sleepers) == 0)
    return;
  if (n_to_wake < (int)(sizeof to_wake / sizeof *to_wake))
    to_wake[n_to_wake++] = actor;
  else
    wake(actor);
}

/* Sleep until the bell has rung since `heard`; false if the launch was stopped. */
static bool sleep_until_bell(struct actor *actor, int32_t heard) {
  struct timespec look = {0, LOOK_NS};
  atomic_fetch_add(&actor->n_sleepers, 1);
  syscall(SYS_futex, &actor->bell, FUTEX_WAIT, heard, &look, NULL, 0);
  atomic_fetch_sub(&actor->n_sleepers, 1);
  return !shared->stopped;
}

/* Wait with the lock until an actor is not blocked; the lock is held afterwards. */
static bool await_unblocked(struct actor *actor) {
  while (actor->state == BLOCKED && !shared->stopped) {
    int32_t heard = atomic_load(&actor->bell);
    unlock_state();
    sleep_until_bell(actor, heard);
    lock_state();
  }
  return !shared->stopped;
}

/* ---- actors ------------------------------------------------------------------- */

static int64_t later(int64_t a, int64_t b) { return a > b ? a : b; }

static void go_on(struct actor *actor, int64_t not_before_ns) {
  actor->clock_ns = later(actor->clock_ns, not_before_ns);
  actor->state = RUNNING;
  actor->reason = FOR_NOTHING;
  ring(actor);
}

static bool is_blocked(const struct actor *actor, int32_t reason) {
  return actor->state == BLOCKED && actor->reason == reason;
}

static void block(struct actor *actor, enum reason reason) {
  actor->state = BLOCKED;
  actor->reason = reason;
}

/* A batch is ready: hand it to the consumer; block the reader if no place is free. */
static void finish_batch(struct process *process) {
  struct actor *reader = &process->actors[READER];
  struct actor *consumer = &process->actors[CONSUMER];
  process->ready_ns[process->n_ready++ % RING] = reader->clock_ns;
  if (is_blocked(consumer, FOR_BATCH) && process->n_asked == process->n_ready)
    go_on(consumer, reader->clock_ns);
  int64_t frees =
      process->n_ready - process->prefetch; /* batch whose taking frees a place */
  if (process->prefetch == 0 ? process->n_asked <= process->n_ready
                             : frees >= process->n_taken)
    block(reader, FOR_PLACE);
  else if (process->prefetch > 0 && frees >= 0)
    reader->clock_ns = later(reader->clock_ns, process->taken_ns[frees % RING]);
}

static void note_read(struct process *process, int64_t bytes) {
  process->n_bytes += bytes;
  if (process->n_files == 0 || process->n_bytes % process->file_bytes != 0)
    return;
  process->actors[READER].clock_ns += process->sample_ns;
  if (process->n_bytes / process->file_bytes % process->batch_size == 0)
    finish_batch(process);
}

/* The reader has no more to do: the consumer learns of the end. */
static void finish_reading(struct process *process) {
  struct actor *reader = &process->actors[READER];
  struct actor *consumer = &process->actors[CONSUMER];
  process->has_ended = 1;
  process->end_ns = reader->clock_ns;
  reader->state = IDLE;
  if (process->n_files % process->batch_size)
    process->ready_ns[process->n_ready++ % RING] = process->end_ns;
  if (is_blocked(consumer, FOR_BATCH))
    go_on(consumer, process->end_ns);
}

static void note_close(struct process *process) {
  if (++process->n_closed == process->n_files && process->teller != THE_READER)
    finish_reading(process);
}

/* The end of a call, or the turn, is known. */
static void end_call(struct process *process, struct actor *actor, int64_t end_ns) {
  actor->end_ns = actor->clock_ns = end_ns;
  actor->state = RUNNING;
  actor->reason = FOR_NOTHING;
  if (actor->is_loading) {
    if (actor->kind == CLOSING)
      note_close(process);
    else if (actor->kind != OPENING)
      note_read(process, actor->bytes);
  }
  atomic_store(&actor->is_served, 1);
  ring(actor);
}

/* ---- stations ----------------------------------------------------------------- */

static int64_t serve_at(int64_t *free_ns, int64_t arrival_ns, int64_t service_ns) {
  return *free_ns = later(*free_ns, arrival_ns) + service_ns;
}

/* Begin the next request of a read, if any bytes are left. */
static void next_request(struct process *process, struct actor *actor, int64_t now_ns) {
  actor->kind = REQUESTING;
  actor->clock_ns = now_ns;
  if (actor->bytes_left == 0)
    end_call(process, actor, now_ns);
}

/* Give an arriving actor a server thread of a node, or a place in the line. */
static void enter_node(struct process *process, struct actor *actor) {
  struct node *owner = &nodes[actor->device];
  if (owner->n_busy == shared->n_server_threads) {
    actor->ticket = owner->n_tickets++;
    block(actor, FOR_THREAD);
  } else {
    owner->n_busy++;
    end_call(process, actor, actor->clock_ns);
  }
}

/* A server thread is free: the actor that has waited longest gets it. */
static void leave_node(uint32_t number, int64_t now_ns) {
  struct actor *next = NULL;
  struct process *of = NULL;
  for (int64_t rank = 0; rank < shared->n_processes; rank++) {
    struct actor *actor = &shared->processes[rank].actors[READER];
    if (is_blocked(actor, FOR_THREAD) && actor->device == number &&
        (!next || actor->ticket < next->ticket)) {
      next = actor;
      of = &shared->processes[rank];
    }
  }
  if (next)
    end_call(of, next, now_ns);
  else
    nodes[number].n_busy--;
}

/* Let a file cross the network. The bytes arrive while others still leave. */
static void cross_network(struct process *process, struct actor *actor) {
  int64_t now = actor->clock_ns, transfer = shared->transfer_ns;
  if (actor->kind == ON_OUT_LINK) {
    actor->kind = ON_IN_LINK;
    actor->clock_ns = serve_at(&nodes[actor->device].out_free_ns, now, transfer);
    return;
  }
  int64_t arrived =
      serve_at(&nodes[actor->server].in_free_ns, now - transfer, transfer);
  leave_node(actor->device, now);
  end_call(process, actor, arrived + shared->way_ns);
}

/* Let an actor be served at the station at which it has arrived. */
static void serve_arrival(struct process *process, struct actor *actor) {
  shared->n_events++;
  switch (actor->kind) {
  case COPIED:
  case ENDED:
  case STARTING:
  case ENDING_EPOCH:
    end_call(process, actor, actor->clock_ns);
    return;
  case ASKING_OWNER:
    enter_node(process, actor);
    return;
  case ON_OUT_LINK:
  case ON_IN_LINK:
    cross_network(process, actor);
    return;
  }
  const struct device *device = &devices[actor->device];
  struct stations *at = stations_of[actor->device];
  int64_t now = actor->clock_ns;
  int64_t request = actor->bytes_left < (int64_t)device->request_bytes
                        ? actor->bytes_left
                        : (int64_t)device->request_bytes;
  switch (actor->kind) {
  case OPENING:
  case CLOSING:
    now = serve_at(&at->metadata_free_ns, now,
                   actor->kind == OPENING ? device->open_ns : device->close_ns);
    end_call(process, actor, now + device->metadata_latency_ns);
    return;
  case REQUESTING:
    at->n_requests++;
    now = serve_at(
        &at->server_free_ns[actor->server], now,
        to_ns(device->request_s + transfer_s(request, device->bandwidth_bytes_per_s)));
    if (device->link_bytes_per_s > 0) {
      actor->kind = ON_LINK;
      actor->clock_ns = now;
      return;
    }
    break;
  case ON_LINK:
    now = serve_at(&at->link_free_ns, now,
                   to_ns(transfer_s(request, device->link_bytes_per_s)));
  }
  actor->bytes_left -= request;
  next_request(process, actor, now + device->read_latency_ns);
}

static bool comes_before(const struct actor *a, const struct actor *b) {
  return a->clock_ns < b->clock_ns || (a->clock_ns == b->clock_ns && a->kind < b->kind);
}

/*
 * Whether a running actor may still make an arrival at its clock. A consumer in an
 * epoch makes none itself, unless it reports reads or has its own calls. But it may let
 * its reader continue if the reader waits for a place. Before and after a policy's
 * epoch it stops all copiers.
 */
static bool holds_others(const struct process *process, int role) {
  return process->actors[role].state == RUNNING &&
         (role != CONSUMER || process->n_files == 0 || process->is_followed ||
          process->teller == THE_CONSUMER ||
          (process->teller != NOBODY && process->has_ended) ||
          is_blocked(&process->actors[READER], FOR_PLACE));
}

/* Handle all arrivals that no earlier arrival can precede any more; with the lock. */
static void advance(void) {
  for (;;) {
    struct actor *first = NULL;
    struct process *of = NULL;
    int64_t horizon_ns = INT64_MAX;
    for (int64_t rank = 0; rank < shared->n_processes; rank++) {
      struct process *process = &shared->processes[rank];
      for (int role = 0; role < shared->n_roles; role++) {
        struct actor *actor = &process->actors[role];
        if (holds_others(process, role)) {
          if (actor->clock_ns < horizon_ns)
            horizon_ns = actor->clock_ns;
        } else if (actor->state == WAITING && (!first || comes_before(actor, first))) {
          first = actor;
          of = process;
        }
      }
    }
    if (!first || horizon_ns <= first->clock_ns)
      return;
    serve_arrival(of, first);
  }
}

/* ---- calls -------------------------------------------------------------------- */

/* The actor whose call a thread makes; NULL if there is none: the call takes no time.
 */
static struct actor *caller(bool is_below_alias) {
  if (!shared || !me || getpid() != owner)
    return NULL;
  if (acts_for)
    return acts_for;
  return is_below_alias ? &me->actors[READER] : NULL;
}

/* The process of an actor. */
static int rank_of(const struct actor *actor) {
  return ((const char *)actor - (const char *)shared->processes) /
         sizeof(struct process);
}

/* Let an actor arrive, at its clock, for something. */
static void arrive(struct actor *actor, enum kind kind, uint32_t device,
                   uint32_t server) {
  actor->kind = kind;
  actor->device = device;
  actor->server = server;
  actor->start_ns = actor->clock_ns;
  actor->is_loading = 0;
  actor->state = WAITING;
  atomic_store(&actor->is_served, 0);
}

/* Begin a call: at the station, or end it at once if it needs no station. */
static void begin_call(struct actor *actor, enum kind kind, uint32_t number,
                       uint32_t server, int64_t bytes) {
  const struct device *device = &devices[number];
  arrive(actor, kind, number, server);
  actor->is_loading = actor == &me->actors[READER] && actor != acts_for;
  actor->bytes = actor->bytes_left = bytes;
  if (number != shared->n_devices) {
    stations_of[number]->n_opens += kind == OPENING;
    stations_of[number]->n_closes += kind == CLOSING;
    stations_of[number]->n_bytes += bytes;
  }
  if (number == shared->n_devices) /* memory */
    end_call(me, actor, actor->clock_ns);
  else if (kind == OPENING && device->open_ns == 0)
    end_call(me, actor, actor->clock_ns + device->metadata_latency_ns);
  else if (kind == CLOSING && device->close_ns == 0)
    end_call(me, actor, actor->clock_ns); /* needs no station */
}

/* Wait for the end of a call, or for the turn. False if the launch was stopped. */
static bool await_end(struct actor *actor) {
  while (!atomic_load(&actor->is_served)) {
    int32_t heard = atomic_load(&actor->bell);
    if (atomic_load(&actor->is_served))
      break;
    if (!sleep_until_bell(actor, heard))
      return false;
  }
  return !shared->stopped;
}

/* Let a call take its time. False if the launch was stopped: the call has failed. */
bool take_time(bool is_below_alias, enum kind kind, uint32_t number, uint32_t server,
               int64_t bytes) {
  struct actor *actor = caller(is_below_alias);
  if (!actor)
    return true;
  lock_state();
  if (!await_unblocked(actor) || actor->state == IDLE) {
    bool goes_on = !shared->stopped;
    unlock_state();
    return goes_on;
  }
  if (actor->state == WAITING)
    fail("two threads of process %d make calls at the same time, expected one "
         "that reads",
         rank_of(actor));
  begin_call(actor, kind, number, server, bytes);
  advance();
  unlock_state();
  if (!await_end(actor))
    return false;
  last_call.start_ns = actor->start_ns;
  last_call.end_ns = actor->end_ns;
  last_call.is_new = true;
  return true;
}

/*
 * For the tracer: begin and end of the last call of this thread. A call that was not
 * charged took no time, at the end of the last charged call. False: no virtual time.
 */
bool tierscope_clock_call(int64_t *start_ns, int64_t *end_ns) {
  if (!shared || !me)
    return false;
  if (last_call.is_new) {
    *start_ns = last_call.start_ns;
    *end_ns = last_call.end_ns;
    last_call.is_new = false;
  } else {
    *start_ns = *end_ns = acts_for ? acts_for->end_ns : me->actors[READER].end_ns;
  }
  return true;
}

/* ---- for the driver (tierscope/storage/clock.py) -----------------------------------
 */

static size_t round_up(size_t bytes) { return (bytes + 63) & ~(size_t)63; }

static size_t stations_bytes(uint32_t number) {
  return round_up(sizeof(struct stations) +
                  devices[number].n_object_servers * sizeof(int64_t));
}

static size_t virtual_bytes(uint32_t n_devices, int64_t n_processes) {
  size_t bytes = round_up(sizeof(struct virtual_state) +
                          n_processes * (sizeof(struct process) + sizeof(struct node)));
  for (uint32_t number = 0; number < n_devices; number++)
    bytes += stations_bytes(number);
  return bytes;
}

/* Create the state of devices that are idle at instant 0. Return 0 or an errno. */
int tierscope_clock_create(const char *config, const char *file, int n_processes) {
  uint32_t n_devices = read_devices(config);
  size_t bytes = virtual_bytes(n_devices, n_processes);
  int fd = REAL(open)(file, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0)
    return errno;
  int error = posix_fallocate(fd, 0, bytes);
  struct virtual_state *state = MAP_FAILED;
  if (!error)
    state = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (!error && state == MAP_FAILED)
    error = errno;
  REAL(close)(fd);
  if (error) {
    unlink(file);
    return error;
  }
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  pthread_mutex_init(&state->lock, &attributes);
  state->n_devices = n_devices;
  state->n_processes = n_processes;
  state->n_roles = COPIER;
  state->bytes = bytes;
  state->magic = VIRTUAL_MAGIC;
  munmap(state, bytes);
  return 0;
}

/* Use a mapped state in this process. */
void attach_state(const char *file, char *map, size_t bytes, uint32_t n_devices) {
  struct virtual_state *state = (struct virtual_state *)map;
  if (state->magic != VIRTUAL_MAGIC || state->n_devices != n_devices ||
      (size_t)state->bytes != bytes ||
      virtual_bytes(n_devices, state->n_processes) != bytes)
    fail("%s: not a state of %u devices, or of another version", file, n_devices);
  nodes = (struct node *)&state->processes[state->n_processes];
  stations_of = allocate(n_devices, sizeof *stations_of);
  map += virtual_bytes(0, state->n_processes);
  for (uint32_t number = 0; number < n_devices; number++) {
    stations_of[number] = (struct stations *)map;
    map += stations_bytes(number);
  }
  shared = state;
}

/* Become the actors of a process. Return 0, or -1 if that is impossible. */
int tierscope_clock_join(int rank) {
  if (!shared || rank < 0 || rank >= shared->n_processes)
    return -1;
  me = &shared->processes[rank];
  return 0;
}

/* Let this thread's calls advance the clock of a process's actor; rank -1: no longer.
 */
int tierscope_clock_act(int rank, int role) {
  if (!shared || rank >= shared->n_processes || role < 0 || role >= N_ROLES)
    return -1;
  acts_for = rank < 0 ? NULL : &shared->processes[rank].actors[role];
  return 0;
}

/*
 * Set everything to instant 0; by one process, while no other is in an epoch. All
 * consumers run, so nothing continues before all have reached the next barrier.
 */
void tierscope_clock_reset(void) {
  lock_state();
  for (int64_t rank = 0; rank < shared->n_processes; rank++) {
    struct process *process = &shared->processes[rank];
    for (int role = 0; role < N_ROLES; role++)
      process->actors[role] = (struct actor){0};
    process->actors[CONSUMER].state = RUNNING;
    process->n_files = process->teller = process->is_planned = 0;
    process->n_batches = process->n_workers = process->is_followed = 0;
    process->has_ended = 1;
    nodes[rank] = (struct node){0};
  }
  shared->n_roles = COPIER;
  for (int64_t number = 0; number < shared->n_devices; number++)
    memset(stations_of[number], 0, stations_bytes(number));
  unlock_state();
}

/* Plan an epoch, which begins at the next barrier; with the lock. */
static void plan_epoch(int64_t n_files, int64_t prefetch, int64_t sample_ns) {
  me->n_files = n_files;
  me->prefetch = prefetch;
  me->sample_ns = sample_ns;
  me->teller = NOBODY;
  me->n_batches = me->n_workers = me->depth = me->is_followed = 0;
  me->n_bytes = me->n_closed = me->n_ready = me->n_asked = me->n_taken = 0;
  me->n_given = 0;
  me->is_planned = me->has_ended = 1;
  me->end_ns = 0;
}

/* Say what this process reads in the epoch that begins at the next barrier. */
int tierscope_clock_plan(int64_t n_files, int64_t file_bytes, int64_t batch_size,
                         int64_t prefetch, int64_t sample_ns, int64_t teller,
                         int64_t is_followed) {
  if (n_files < 0 || file_bytes < 1 || batch_size < 1 || prefetch < 0 ||
      prefetch > LARGEST_PREFETCH || sample_ns < 0 || teller < NOBODY ||
      teller > THE_CONSUMER)
    return -1;
  lock_state();
  plan_epoch(n_files, prefetch, sample_ns);
  me->file_bytes = file_bytes;
  me->batch_size = batch_size;
  me->teller = teller;
  me->is_followed = is_followed;
  unlock_state();
  return 0;
}

/*
 * Say which batches workers read in the epoch that begins at the next barrier; without
 * workers the consumer reads them itself. `depth` batches may be sent and not taken.
 */
int tierscope_clock_plan_batches(int64_t n_batches, int64_t n_workers, int64_t depth,
                                 int64_t sample_ns) {
  if (n_batches < 0 || n_workers < 0 || n_workers > MOST_COPIERS || depth < n_workers ||
      depth > LARGEST_PREFETCH || sample_ns < 0)
    return -1;
  lock_state();
  plan_epoch(0, 0, sample_ns);
  me->n_batches = n_batches;
  me->n_workers = n_workers;
  me->depth = depth;
  memset(me->delivered, 0, sizeof me->delivered);
  if (shared->n_roles < WORKER + n_workers)
    shared->n_roles = WORKER + n_workers;
  unlock_state();
  return 0;
}

/* All have arrived: set all clocks except those of copiers to the largest; all run. */
static void open_barrier(void) {
  int64_t now_ns = 0;
  for (int64_t rank = 0; rank < shared->n_processes; rank++)
    for (int role = 0; role < COPIER; role++)
      now_ns = later(now_ns, shared->processes[rank].actors[role].clock_ns);
  for (int64_t rank = 0; rank < shared->n_processes; rank++) {
    struct process *process = &shared->processes[rank];
    go_on(&process->actors[CONSUMER], now_ns);
    if (process->is_planned)
      process->has_ended = process->n_files == 0;
    for (int64_t i = 0; process->is_planned && i < process->n_workers; i++)
      go_on(&process->actors[WORKER + i], now_ns);
    process->is_planned = 0;
    if (process->n_files > 0 && !process->has_ended)
      go_on(&process->actors[READER], now_ns);
  }
  shared->n_arrived = 0;
  shared->n_events++;
}

/*
 * Arrive at the barrier (unless this process has arrived already), and wait for all
 * processes, at most a tenth of a second. Return the instant, -1 if the launch was
 * stopped, or -2 if not all have arrived: then the caller does the work that others may
 * wait for, and calls again.
 */
int64_t tierscope_clock_barrier(int arrives) {
  struct actor *consumer = &me->actors[CONSUMER];
  lock_state();
  if (arrives) {
    block(consumer, FOR_BARRIER);
    if (++shared->n_arrived == shared->n_processes)
      open_barrier();
    advance();
  }
  int32_t heard = atomic_load(&consumer->bell);
  if (is_blocked(consumer, FOR_BARRIER) && !shared->stopped) {
    unlock_state();
    sleep_until_bell(consumer, heard);
    lock_state();
  }
  int64_t now_ns = is_blocked(consumer, FOR_BARRIER) ? -2 : consumer->clock_ns;
  if (shared->stopped)
    now_ns = -1;
  unlock_state();
  return now_ns;
}

/* Workers read: the batch is there, or the consumer waits; that it was the last, too.
 */
static void ask_workers(struct actor *consumer, int64_t batch) {
  if (batch >= me->n_batches)
    return;
  if (me->delivered[batch % RING] == batch + 1)
    consumer->clock_ns = later(consumer->clock_ns, me->ready_ns[batch % RING]);
  else
    block(consumer, FOR_BATCH);
}

static void ask_reader(struct actor *consumer, int64_t batch) {
  struct actor *reader = &me->actors[READER];
  if (me->prefetch == 0 && is_blocked(reader, FOR_PLACE))
    go_on(reader, consumer->clock_ns);
  if (batch < me->n_ready)
    consumer->clock_ns = later(consumer->clock_ns, me->ready_ns[batch % RING]);
  else if (me->has_ended)
    consumer->clock_ns = later(consumer->clock_ns, me->end_ns);
  else
    block(consumer, FOR_BATCH);
}

/* The consumer asks for its next batch, or for the end. */
void tierscope_clock_ask(void) {
  struct actor *consumer = &me->actors[CONSUMER];
  lock_state();
  int64_t batch = me->n_asked++;
  if (me->n_workers > 0)
    ask_workers(consumer, batch);
  else
    ask_reader(consumer, batch);
  advance();
  unlock_state();
}

/* A batch is taken: the next one is sent to its worker. */
static void send_next(int64_t taken, int64_t now_ns) {
  struct actor *worker = &me->actors[WORKER + (taken + me->depth) % me->n_workers];
  if (is_blocked(worker, FOR_PLACE) && worker->ticket == taken + me->depth)
    go_on(worker, now_ns);
}

/* The consumer has got its batch. Return 0, or -1 if the launch was stopped. */
int tierscope_clock_take(void) {
  struct actor *reader = &me->actors[READER], *consumer = &me->actors[CONSUMER];
  lock_state();
  bool goes_on = await_unblocked(consumer);
  int64_t batch = me->n_taken++;
  me->taken_ns[batch % RING] = consumer->clock_ns;
  if (goes_on && me->prefetch > 0 && is_blocked(reader, FOR_PLACE) &&
      batch == me->n_ready - me->prefetch)
    go_on(reader, consumer->clock_ns);
  if (goes_on && me->n_workers > 0)
    send_next(batch, consumer->clock_ns);
  advance();
  unlock_state();
  return goes_on ? 0 : -1;
}

/* The consumer computes. */
void tierscope_clock_pass(int64_t duration_ns) {
  lock_state();
  me->actors[CONSUMER].clock_ns += duration_ns;
  advance();
  unlock_state();
}

/* ---- workers ----------------------------------------------------------------------
 */

/* The actor of this thread processes a sample. */
void tierscope_clock_sample(void) {
  lock_state();
  acts_for->clock_ns += me->sample_ns;
  advance();
  unlock_state();
}

/* Let a worker wait until a batch is sent to it. Return when, or -1 if stopped. */
int64_t tierscope_clock_await_sent(int number, int64_t batch) {
  struct actor *worker = &me->actors[WORKER + number];
  int64_t before = batch - me->depth; /* the batch whose taking sends this one */
  lock_state();
  worker->ticket = batch;
  if (before >= me->n_taken)
    block(worker, FOR_PLACE);
  else if (before >= 0)
    worker->clock_ns = later(worker->clock_ns, me->taken_ns[before % RING]);
  advance();
  int64_t now_ns = await_unblocked(worker) ? worker->clock_ns : -1;
  unlock_state();
  return now_ns;
}

/* A worker has read a batch. */
void tierscope_clock_deliver(int number, int64_t batch) {
  struct actor *consumer = &me->actors[CONSUMER];
  int64_t now_ns = me->actors[WORKER + number].clock_ns;
  lock_state();
  me->ready_ns[batch % RING] = now_ns;
  me->delivered[batch % RING] = batch + 1;
  if (is_blocked(consumer, FOR_BATCH) && me->n_asked == batch + 1)
    go_on(consumer, now_ns);
  unlock_state();
}

/* The clock of the actor for which this thread acts, otherwise the consumer's. */
int64_t tierscope_clock_now(void) {
  lock_state();
  int64_t now_ns = (acts_for ? acts_for : &me->actors[CONSUMER])->clock_ns;
  unlock_state();
  return now_ns;
}

/* ---- turns, copiers and peers ---------------------------------------------------- */

/* Let an actor, when it is not blocked, arrive for something other than a device. */
static int64_t arrive_and_wait(struct actor *actor, enum kind kind, uint32_t owner,
                               uint32_t node, int64_t way_ns) {
  lock_state();
  if (!await_unblocked(actor)) {
    unlock_state();
    return -1;
  }
  if (actor->state == WAITING)
    fail("two threads take the turn of process %d at the same time", rank_of(actor));
  int64_t start_ns = actor->clock_ns;
  actor->clock_ns += way_ns;
  arrive(actor, kind, owner, node);
  advance();
  unlock_state();
  return await_end(actor) ? start_ns : -1;
}

/*
 * Take the turn of a role of this process. From then on all others wait until its next
 * arrival. Return the instant, or -1 if the launch was stopped.
 */
int64_t tierscope_clock_turn(int role, int kind) {
  return arrive_and_wait(&me->actors[role], kind, 0, 0, 0);
}

/* The reader has reported a file; if it is the last one, its epoch has ended now. */
void tierscope_clock_told(void) {
  lock_state();
  if (me->teller == THE_READER && me->n_closed == me->n_files && !me->has_ended)
    finish_reading(me);
  advance();
  unlock_state();
}

/* Let a copier of this process run from an instant on; or rest, if it is negative. */
int tierscope_clock_copy(int copier, int64_t at_ns) {
  if (copier < 0 || copier >= MOST_COPIERS)
    return -1;
  lock_state();
  if (shared->n_roles <= COPIER + copier)
    shared->n_roles = COPIER + copier + 1;
  struct actor *actor = &me->actors[COPIER + copier];
  if (at_ns < 0) {
    actor->state = IDLE;
    advance();
  } else {
    go_on(actor, at_ns);
  }
  unlock_state();
  return 0;
}

/* Let the consumer wait until copies have ended; meanwhile no actor waits for it. */
void tierscope_clock_await_copies(void) {
  lock_state();
  block(&me->actors[CONSUMER], FOR_COPIES);
  advance();
  unlock_state();
}

/* The copies have ended, at an instant. */
void tierscope_clock_copies_ended(int64_t at_ns) {
  lock_state();
  if (is_blocked(&me->actors[CONSUMER], FOR_COPIES))
    go_on(&me->actors[CONSUMER], at_ns);
  unlock_state();
}

/* Describe the network: server threads of a node, message latency, time of a file. */
void tierscope_clock_network(int64_t n_threads, int64_t way_ns, int64_t transfer_ns) {
  lock_state();
  shared->n_server_threads = n_threads;
  shared->way_ns = way_ns;
  shared->transfer_ns = transfer_ns;
  unlock_state();
}

/* The reader requests a file from its owner, and gets a thread. Return when, or -1. */
int64_t tierscope_clock_ask_owner(int owner) {
  return arrive_and_wait(&me->actors[READER], ASKING_OWNER, owner, 0, shared->way_ns);
}

/* The file crosses from the owner's node to the requester's. Return its arrival, or -1.
 */
int64_t tierscope_clock_receive(int owner, int node) {
  struct actor *reader = &me->actors[READER];
  if (arrive_and_wait(reader, ON_OUT_LINK, owner, node, 0) < 0)
    return -1;
  return reader->end_ns;
}

/* A descriptor is memory: reads of what `/proc/self/fd` opens of it take no time. */
void tierscope_clock_memory(int fd) {
  if (shared)
    remember(fd, (uint64_t)(shared->n_devices + 1) << 32);
}

/* End every wait of the launch, now and from now on; safe in a signal handler. */
void tierscope_clock_stop(void) {
  if (shared)
    shared->stopped = 1;
}

int tierscope_clock_is_stopped(void) { return shared && shared->stopped; }

/* A counter of events, which grows while anything makes progress. */
int64_t tierscope_clock_events(void) { return shared->n_events; }

/* Write opens, closes, requests and bytes of a device since the reset. */
void tierscope_clock_counts(uint32_t number, int64_t counts[4]) {
  lock_state();
  memcpy(counts, stations_of[number], 4 * sizeof *counts);
  unlock_state();
}

static void describe_arrival(char *text, size_t size, const struct actor *actor) {
  const char *name = kind_names[actor->kind];
  bool is_turn = strncmp(name, "its turn", 8) == 0;
  uint32_t number = actor->kind == ON_IN_LINK ? actor->server : actor->device;
  if (is_turn)
    snprintf(text, size, " %s", name);
  else
    snprintf(text, size, " %s %u", name, number + (strstr(name, "device") != NULL));
}

static int describe_actor(char *text, size_t size, int64_t rank, int role) {
  static const char *const states[] = {"idle", "running", "waiting for",
                                       "blocked, waits for"};
  const struct process *process = &shared->processes[rank];
  const struct actor *actor = &process->actors[role];
  char what[96] = "";
  if (actor->state == WAITING)
    describe_arrival(what, sizeof what, actor);
  else if (is_blocked(actor, FOR_BATCH))
    snprintf(what, sizeof what, " batch %lld of its %s", (long long)process->n_asked,
             process->n_workers ? "workers" : "reader");
  else if (is_blocked(actor, FOR_PLACE))
    snprintf(what, sizeof what, " a free place, its consumer has taken %lld",
             (long long)process->n_taken);
  else if (is_blocked(actor, FOR_BARRIER))
    snprintf(what, sizeof what, " all processes at a barrier");
  else if (is_blocked(actor, FOR_THREAD))
    snprintf(what, sizeof what, " a server thread of node %u", actor->device);
  else if (is_blocked(actor, FOR_COPIES))
    snprintf(what, sizeof what, " its node's copies");
  else if (is_blocked(actor, FOR_GROUP))
    snprintf(what, sizeof what, " the others of group %lld", (long long)process->group);
  else if (is_blocked(actor, FOR_TOKEN))
    snprintf(what, sizeof what, " token %lld of rank %lld", (long long)process->token,
             (long long)process->giver);
  char name[32] = "reader";
  if (role == CONSUMER)
    snprintf(name, sizeof name, "consumer");
  else if (role != READER)
    snprintf(name, sizeof name, "%s %d", process->n_workers ? "worker" : "copier",
             role - COPIER);
  bool by_batch = process->n_batches > 0;
  return snprintf(text, size, "rank %lld %s: %s%s, at %.9f s, %lld of %lld %s\n",
                  (long long)rank, name, states[actor->state], what,
                  actor->clock_ns * 1e-9,
                  (long long)(by_batch ? process->n_taken : process->n_closed),
                  (long long)(by_batch ? process->n_batches : process->n_files),
                  by_batch ? "batches" : "files");
}

/* Write a line for each actor except idle copiers: state, clock, and what it waits for.
 */
void tierscope_clock_describe(char *text, size_t size) {
  size_t used = 0;
  lock_state();
  for (int64_t rank = 0; rank < shared->n_processes; rank++)
    for (int role = 0; role < shared->n_roles && used < size; role++)
      if (role < COPIER || shared->processes[rank].actors[role].state != IDLE)
        used += describe_actor(text + used, size - used, rank, role);
  unlock_state();
}

/* ---- meetings and tokens ------------------------------------------------------- */

/*
 * Consumers may wait for each other in an epoch, but not in MPI: a process that waits
 * in MPI counts as running in virtual time, and stops all others. A meeting is a
 * barrier of a group. A token is the sender's clock; each sender numbers its tokens of
 * an epoch from 0, and any number of processes may wait for the same token.
 */
static bool is_at_meeting(const struct process *process, int64_t group) {
  return is_blocked(&process->actors[CONSUMER], FOR_GROUP) && process->group == group;
}

/* If all members have arrived, set their clocks to the largest; they continue. */
static void open_meeting(int64_t group, int64_t n_members) {
  int64_t n_here = 0, now_ns = 0;
  for (int64_t rank = 0; rank < shared->n_processes; rank++)
    if (is_at_meeting(&shared->processes[rank], group)) {
      n_here++;
      now_ns = later(now_ns, shared->processes[rank].actors[CONSUMER].clock_ns);
    }
  if (n_here < n_members)
    return;
  for (int64_t rank = 0; rank < shared->n_processes; rank++)
    if (is_at_meeting(&shared->processes[rank], group))
      go_on(&shared->processes[rank].actors[CONSUMER], now_ns);
  shared->n_events++;
}

/* Wait for all members of a group. Return 0, or -1 if the launch was stopped. */
int tierscope_clock_meet(int64_t group, int64_t n_members) {
  struct actor *consumer = &me->actors[CONSUMER];
  lock_state();
  me->group = group;
  block(consumer, FOR_GROUP);
  open_meeting(group, n_members);
  advance();
  bool goes_on = await_unblocked(consumer);
  unlock_state();
  return goes_on ? 0 : -1;
}

/* Give the next token to processes that wait now or later. Return 0; -1: too many. */
int tierscope_clock_give(void) {
  if (me->n_given == MOST_TOKENS)
    return -1;
  lock_state();
  int64_t token = me->n_given++, now_ns = me->actors[CONSUMER].clock_ns;
  me->given_ns[token] = now_ns;
  for (int64_t rank = 0; rank < shared->n_processes; rank++) {
    struct process *process = &shared->processes[rank];
    if (is_blocked(&process->actors[CONSUMER], FOR_TOKEN) && process->token == token &&
        &shared->processes[process->giver] == me)
      go_on(&process->actors[CONSUMER], now_ns);
  }
  shared->n_events++;
  unlock_state();
  return 0;
}

/* Wait for a token that a rank gives. Return 0, or -1 if the launch was stopped. */
int tierscope_clock_await_token(int64_t giver, int64_t token) {
  const struct process *from = &shared->processes[giver];
  struct actor *consumer = &me->actors[CONSUMER];
  lock_state();
  me->giver = giver;
  me->token = token;
  if (token < from->n_given)
    consumer->clock_ns = later(consumer->clock_ns, from->given_ns[token]);
  else
    block(consumer, FOR_TOKEN);
  advance();
  bool goes_on = await_unblocked(consumer);
  unlock_state();
  return goes_on ? 0 : -1;
}

static struct sigaction earlier_handlers[NSIG];

static void stop_on_signal(int signal, siginfo_t *info, void *context) {
  tierscope_clock_stop();
  const struct sigaction *earlier = &earlier_handlers[signal];
  if (earlier->sa_flags & SA_SIGINFO)
    earlier->sa_sigaction(signal, info, context);
  else if (earlier->sa_handler != SIG_DFL && earlier->sa_handler != SIG_IGN)
    earlier->sa_handler(signal);
}

/*
 * Let a signal end the waits before its previous handler is called. The interpreter's
 * own handler only notes the signal; Python would not act while the thread waits here.
 */
int tierscope_clock_stop_on(int signal) {
  struct sigaction action = {.sa_sigaction = stop_on_signal,
                             .sa_flags = SA_SIGINFO | SA_RESTART};
  return sigaction(signal, &action, &earlier_handlers[signal]);
}
