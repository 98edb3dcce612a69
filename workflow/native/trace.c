/*
 * Preload tracer: per-file counters with the semantics of Darshan's POSIX module.
 *
 * For machines without a Darshan runtime. Every process keeps one 704-byte Darshan
 * record per path below the given prefixes. The records live in a spool file that
 * is mapped shared, so all counts survive _exit, SIGKILL and crashes.
 * tierscope.trace.spool turns the spools of a run into one .darshan log.
 *
 *   cc -O2 -Wall -Wextra -shared -fPIC -pthread -o libtierscope_trace.so trace.c -ldl
 *
 * Tracing starts with tierscope_trace_begin(), or when the library is loaded if the
 * environment holds TIERSCOPE_TRACE_SPOOL, _RANK and _PREFIXES, which begin() sets
 * for the programs that the process starts. `tierscope trace` also sets _EXCLUDED, the
 * prefixes of paths that are not traced unless a longer one of _PREFIXES matches, and
 * _PROCESSES: then the spools of a host are in a folder of its name, in which a file
 * tells what processes there were (tierscope.jobs.traced.processes reads it).
 *
 * Locks: `files.lock` guards the table of paths and begin/end; each file's lock
 * guards its record; `spool.lock` guards the spool's growth. The order is
 * files.lock, a file's lock, spool.lock; no wrapped call runs under a lock.
 *
 * Signals: a handler may make traced calls. If it interrupts its thread while the thread
 * holds a lock, its call is made but not recorded, and the trace is marked as incomplete.
 * No code in a call uses malloc, which a handler may have interrupted.
 */
#undef _FORTIFY_SOURCE /* its inline open() and read() are what we define here */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#ifndef CLOSE_RANGE_CLOEXEC /* glibc before 2.34 */
#define CLOSE_RANGE_CLOEXEC (1U << 2)
#endif

#define LIKELY(condition) __builtin_expect(!!(condition), 1)

/* ---- Darshan's POSIX record, version 4 ---------------------------------------- */

enum counter {
  OPENS,
  FILENOS,
  DUPS,
  READS,
  WRITES,
  SEEKS,
  STATS,
  MMAPS,
  FSYNCS,
  FDSYNCS,
  RENAME_SOURCES,
  RENAME_TARGETS,
  RENAMED_FROM,
  MODE,
  BYTES_READ,
  BYTES_WRITTEN,
  MAX_BYTE_READ,
  MAX_BYTE_WRITTEN,
  CONSEC_READS,
  CONSEC_WRITES,
  SEQ_READS,
  SEQ_WRITES,
  RW_SWITCHES,
  MEM_NOT_ALIGNED,
  MEM_ALIGNMENT,
  FILE_NOT_ALIGNED,
  FILE_ALIGNMENT,
  MAX_READ_TIME_SIZE,
  MAX_WRITE_TIME_SIZE,
  SIZE_READ_0_100,
  SIZE_WRITE_0_100 = SIZE_READ_0_100 + 10,
  STRIDE1_STRIDE = SIZE_WRITE_0_100 + 10,
  STRIDE1_COUNT = STRIDE1_STRIDE + 4,
  ACCESS1_ACCESS = STRIDE1_COUNT + 4,
  ACCESS1_COUNT = ACCESS1_ACCESS + 4,
  FASTEST_RANK = ACCESS1_COUNT + 4,
  FASTEST_RANK_BYTES,
  SLOWEST_RANK,
  SLOWEST_RANK_BYTES,
  N_COUNTERS
};

enum timer {
  OPEN_START,
  READ_START,
  WRITE_START,
  CLOSE_START,
  OPEN_END,
  READ_END,
  WRITE_END,
  CLOSE_END,
  READ_TIME,
  WRITE_TIME,
  META_TIME,
  MAX_READ_TIME,
  MAX_WRITE_TIME,
  FASTEST_RANK_TIME,
  SLOWEST_RANK_TIME,
  VARIANCE_RANK_TIME,
  VARIANCE_RANK_BYTES,
  N_TIMERS
};

struct posix_record {
  uint64_t id;
  int64_t rank;
  int64_t counters[N_COUNTERS];
  double timers[N_TIMERS];
};

_Static_assert(sizeof(struct posix_record) == 704, "Darshan's POSIX record, version 4");

/* What Darshan writes for a counter that it does not monitor. */
static const enum counter unmonitored[] = {FILENOS,           MMAPS,
                                           RENAME_SOURCES,    RENAME_TARGETS,
                                           MEM_ALIGNMENT,     MEM_NOT_ALIGNED,
                                           FILE_ALIGNMENT,    FILE_NOT_ALIGNED,
                                           STRIDE1_COUNT,     STRIDE1_COUNT + 1,
                                           STRIDE1_COUNT + 2, STRIDE1_COUNT + 3};

/* The counters and timers that a read and a write have in common. */
struct direction {
  enum counter calls, bytes, max_byte, consecutive, sequential, sizes, max_time_size;
  enum timer start, end, time, max_time;
};

static const struct direction reading = {
    READS,     BYTES_READ,      MAX_BYTE_READ,      CONSEC_READS,
    SEQ_READS, SIZE_READ_0_100, MAX_READ_TIME_SIZE, READ_START,
    READ_END,  READ_TIME,       MAX_READ_TIME};
static const struct direction writing = {
    WRITES,     BYTES_WRITTEN,    MAX_BYTE_WRITTEN,    CONSEC_WRITES,
    SEQ_WRITES, SIZE_WRITE_0_100, MAX_WRITE_TIME_SIZE, WRITE_START,
    WRITE_END,  WRITE_TIME,       MAX_WRITE_TIME};

/* ---- The spool's layout, read by tierscope.trace.spool ------------------------ */

#define SPOOL_MAGIC "tierscope-trace"
#define SPOOL_VERSION 1
#define HEADER_BYTES 4096
#define FIRST_SEGMENT_BYTES (256u << 10)
#define LARGEST_SEGMENT_BYTES (4u << 20)
#define LARGEST_BLOCK_BYTES (1u << 20)
#define N_SEGMENTS 4096 /* of 4 MiB: more than 20 million records */
#define PATH_BYTES (2 * PATH_MAX)      /* of a spool */
#define LONG_PATH_BYTES (16 * PATH_MAX) /* of a file */

struct spool_header {
  char magic[16];
  uint32_t version;
  uint32_t record_bytes;
  int32_t rank;
  int32_t process_id;
  int64_t origin_ns; /* CLOCK_REALTIME of time stamp 0 */
  uint64_t used_bytes;
  uint32_t incomplete; /* 1: some calls could not be recorded */
};

/*
 * A record and its path; path_bytes 0 fills the rest of a segment. Before the path of a
 * file that the program uses as a stream of libc stands STREAM_MARK. Its record counts
 * calls on the stream: DUPS those of fdopen, FSYNCS those of fflush.
 */
#define STREAM_MARK '\1'
struct spool_entry {
  uint32_t bytes;
  uint32_t path_bytes;
  struct posix_record record;
  char path[];
};

/* ---- State ------------------------------------------------------------------- */

/* A tracing period, from begin to end; never freed, as a thread may still use it. */
struct run {
  double origin_s; /* CLOCK_MONOTONIC of time stamp 0 */
  int64_t origin_ns;
  int rank;
  int n_prefixes, n_excluded;
  char **prefixes, **excluded;
  char *spool_dir;
};

enum lane { READ_LANE, WRITE_LANE, META_LANE, N_LANES };

/* A traced path. Lives until the process ends, so descriptors can point to it. */
struct file {
  pthread_mutex_t lock;
  struct posix_record *record; /* in the spool; NULL: this spool has none yet */
  uint64_t hash;
  int64_t offset;
  int64_t last_byte[2]; /* of the last read and write */
  enum lane last_lane;  /* of the last read or write */
  double busy_until[N_LANES];
  char path[];
};

static const struct run *_Atomic current_run;
static pid_t process_id;

/* The hash stands beside the pointer, so files of other paths are not accessed. */
struct file_slot {
  uint64_t hash;
  struct file *file; /* NULL: the slot is free */
};

static struct {
  pthread_mutex_t lock;
  struct file_slot *slots; /* open addressing; the capacity is a power of two */
  size_t capacity;
  size_t count;
} files = {.lock = PTHREAD_MUTEX_INITIALIZER};

static struct {
  pthread_mutex_t lock;
  char path[PATH_BYTES];
  struct spool_header *header;
  char *next, *end; /* free part of the last segment */
  uint64_t file_bytes;
  struct iovec segments[N_SEGMENTS]; /* what is mapped */
  size_t n_segments;
  int error; /* why calls could not be recorded: an errno, or 0 */
} spool = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Descriptor -> file in two levels, for any number that Linux allows (< 2^30). */
#define LEAF_BITS 15
#define LEAF_SLOTS (1 << LEAF_BITS)
#define N_LEAVES (1 << (30 - LEAF_BITS))
#define STREAM_BIT (1u << 29) /* with the stream of a descriptor; none is as large */
typedef struct file *_Atomic descriptor_slot;
static descriptor_slot *_Atomic descriptor_leaves[N_LEAVES];

/* ---- Signals ------------------------------------------------------------------ */

/* Whether this thread holds a lock of ours, or is about to take or release one. */
static _Thread_local volatile bool is_busy __attribute__((tls_model("initial-exec")));
static volatile bool has_missed_calls; /* of signal handlers */

/* False if a signal handler has interrupted its thread at a lock: it must not wait. */
static bool become_busy(void) {
  if (is_busy) {
    has_missed_calls = true;
    return false;
  }
  is_busy = true;
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  return true;
}

static void note_loss(int error);

static void become_free(void) {
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  is_busy = false;
  if (__builtin_expect(has_missed_calls, false)) {
    has_missed_calls = false;
    note_loss(EDEADLK);
  }
}

/* Zeroed memory, never freed; not from malloc: a signal handler may interrupt it. */
static void *map_memory(size_t bytes, int flags) {
  void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
  return memory == MAP_FAILED ? NULL : memory;
}

/* ---- The functions behind ours ------------------------------------------------ */

/* Replaces a function that this C library does not have. */
static long missing_function(void) {
  errno = ENOSYS;
  return -1;
}

static void *next_function(void *_Atomic *found, const char *name) {
  void *function = *found;
  if (LIKELY(function != NULL))
    return function;
  function = dlsym(RTLD_NEXT, name);
  *found = function = function ? function : (void *)missing_function;
  return function;
}

/* The next library's definition of a function: the device emulator's or libc's. */
#define REAL(name)                                                                     \
  ({                                                                                   \
    static void *_Atomic found_;                                                       \
    (__typeof__(&name))next_function(&found_, #name);                                  \
  })

/*
 * From the emulated devices, if they are loaded: begin and end of the last call of this
 * thread in virtual time, in nanoseconds since the run began. False without virtual time.
 */
extern bool tierscope_clock_call(int64_t *start_ns, int64_t *end_ns)
    __attribute__((weak));

static double now_s(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec + time.tv_nsec * 1e-9;
}

/* ---- Processes ---------------------------------------------------------------- */

/*
 * What `tierscope trace` wants to know of each process, a line an event:
 * EVENT PID PARENT TICKS TIME_NS RANK DETAIL. TICKS is when the kernel started the
 * process, as PIDs come again; RANK is a variable of its launcher, such as RANK=3, or -.
 */
#define RANK_BYTES 64
static char events_path[PATH_BYTES]; /* empty: nobody asks */
static unsigned long long process_ticks;

/* Reads the beginning of a file as text; empty if that fails. */
static void read_text(const char *path, char *text, size_t bytes) {
  ssize_t length = -1;
  int fd = REAL(open)(path, O_RDONLY | O_CLOEXEC);
  if (fd >= 0) {
    length = REAL(read)(fd, text, bytes - 1);
    REAL(close)(fd);
  }
  length = length < 0 ? 0 : length;
  for (ssize_t i = 0; i < length; i++)
    if (text[i] == '\0' || text[i] == '\n')
      text[i] = ' ';
  text[length] = '\0';
}

/* The 22nd field of /proc/self/stat; the second may hold spaces, and ends with `)`. */
static unsigned long long read_ticks(void) {
  char text[1024];
  read_text("/proc/self/stat", text, sizeof text);
  const char *field = strrchr(text, ')');
  for (int i = 3; field && i <= 22; i++)
    field = strchr(field + 1, ' ');
  return field ? strtoull(field + 1, NULL, 10) : 0;
}

/*
 * What the launcher calls this process. Of Slurm, only in a step: the shell of a batch
 * script has a number, too, which all its processes inherit.
 */
static void read_rank(char *text) {
  snprintf(text, RANK_BYTES, "-");
  static const char *const names[] = {"RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK",
                                      "PMIX_RANK", "SLURM_PROCID"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    const char *rank = getenv(names[i]);
    if (!rank || !*rank || strlen(rank) > 9 || rank[strspn(rank, "0123456789")])
      continue;
    if (names[i][0] == 'S' && !getenv("SLURM_STEP_ID"))
      continue;
    snprintf(text, RANK_BYTES, "%s=%s", names[i], rank);
    return;
  }
}

/* Appends an event; in a single call, so that those of processes do not mix. */
static void note_event(const char *event, const char *detail) {
  if (!*events_path)
    return;
  int saved_errno = errno;
  char rank[RANK_BYTES], head[256];
  struct timespec time;
  read_rank(rank);
  clock_gettime(CLOCK_REALTIME, &time);
  snprintf(head, sizeof head, "%s %d %d %llu %lld %s ", event, (int)process_id,
           (int)getppid(), process_ticks,
           time.tv_sec * 1000000000LL + time.tv_nsec, rank);
  struct iovec line[] = {
      {head, strlen(head)}, {(char *)detail, strlen(detail)}, {"\n", 1}};
  int fd = REAL(open)(events_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (fd >= 0) {
    ssize_t written = REAL(writev)(fd, line, 3);
    (void)written; /* a process without events is not told of, as on a full disk */
    REAL(close)(fd);
  }
  errno = saved_errno;
}

static void note_start(void) {
  char command[3840];
  if (!*events_path)
    return;
  int saved_errno = errno;
  process_ticks = read_ticks();
  read_text("/proc/self/cmdline", command, sizeof command);
  note_event("start", command);
  errno = saved_errno;
}

/* Not of a child of vfork, which uses its parent's memory. */
__attribute__((destructor)) static void note_end(void) {
  if (*events_path && getpid() == process_id)
    note_event("end", "");
}

/* Makes this host's folder for spools and events; false if that fails. */
static bool enter_host_folder(const char *spool_dir, char *folder, size_t bytes) {
  char host[256];
  if (gethostname(host, sizeof host) != 0)
    return false;
  host[sizeof host - 1] = '\0';
  int length = snprintf(folder, bytes, "%s/%s", spool_dir, host);
  if (length < 0 || (size_t)length >= bytes) {
    errno = ENAMETOOLONG;
    return false;
  }
  if (mkdir(folder, 0755) != 0 && errno != EEXIST)
    return false;
  snprintf(events_path, sizeof events_path, "%s/%s/processes", spool_dir, host);
  return true;
}

/* ---- Spool -------------------------------------------------------------------- */

/* Says once per spool, on stderr and in the spool, that calls are being lost. */
static void report_loss(const struct run *run, int error) {
  if (spool.error)
    return;
  spool.error = error;
  dprintf(STDERR_FILENO,
          "tierscope trace: rank %d: cannot record %s in %s: %s; the trace is "
          "incomplete\n",
          run->rank, error == EDEADLK ? "calls of a signal handler" : "calls",
          *spool.path ? spool.path : run->spool_dir, strerror(error));
  if (spool.header) {
    spool.header->incomplete = 1;
    return;
  }
  char marker[PATH_BYTES];
  snprintf(marker, sizeof marker, "%s/rank-%05d.%d.incomplete", run->spool_dir,
           run->rank, (int)process_id);
  int fd = REAL(open)(marker, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
  if (fd >= 0)
    REAL(close)(fd);
}

/*
 * Fills a part of a file with zeros, in large writes. Returns 0 or an errno. Mapped
 * pages that exist cost a third of those that a mapping's faults make one by one.
 */
static int write_zeros(int fd, off_t start, size_t bytes) {
  enum { N_PARTS = 16 };
  static char zeros[16 << 10];
  struct iovec parts[N_PARTS];
  for (int i = 0; i < N_PARTS; i++)
    parts[i] = (struct iovec){zeros, sizeof zeros};
  for (size_t done = 0; done < bytes;) {
    size_t n_parts = (bytes - done) / sizeof zeros;
    if (n_parts > N_PARTS)
      n_parts = N_PARTS;
    ssize_t written = n_parts ? REAL(pwritev)(fd, parts, (int)n_parts, start + done)
                              : REAL(pwrite)(fd, zeros, bytes - done, start + done);
    if (written < 0 && errno != EINTR)
      return errno;
    if (written > 0)
      done += (size_t)written;
  }
  return 0;
}

/*
 * Maps more of the spool file. The file is opened anew each time, because a
 * descriptor of ours could be closed by the program and its number given to a file
 * of the user. Blocks are allocated first: a full disk must give an error here, not
 * SIGBUS when a counter is written.
 */
static char *map_segment(int open_flags, size_t bytes, int *error) {
  char *map = MAP_FAILED;
  if (spool.n_segments == N_SEGMENTS) {
    *error = ENOMEM;
    return NULL;
  }
  int fd = REAL(open)(spool.path, O_RDWR | O_CLOEXEC | open_flags, 0644);
  if (fd < 0) {
    *error = errno;
    return NULL;
  }
  *error = posix_fallocate(fd, (off_t)spool.file_bytes, (off_t)bytes);
  if (*error == 0)
    *error = write_zeros(fd, (off_t)spool.file_bytes, bytes);
  if (*error == 0) {
    map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
               (off_t)spool.file_bytes);
    if (map == MAP_FAILED)
      *error = errno;
  }
  REAL(close)(fd);
  if (map == MAP_FAILED)
    return NULL;
#ifdef MADV_POPULATE_WRITE
  madvise(map, bytes, MADV_POPULATE_WRITE); /* else every page's first write faults */
#endif
  spool.segments[spool.n_segments++] = (struct iovec){map, bytes};
  spool.file_bytes += bytes;
  return map;
}

/* Creates the spool of this process; several may follow each other in a directory. */
static int create_spool(const struct run *run) {
  char *map = NULL;
  int error = EEXIST;
  for (int serial = 0; error == EEXIST; serial++) {
    snprintf(spool.path, sizeof spool.path, "%s/rank-%05d.%d.%d.spool",
             run->spool_dir, run->rank, (int)process_id, serial);
    map = map_segment(O_CREAT | O_EXCL, FIRST_SEGMENT_BYTES, &error);
  }
  if (!map) {
    unlink(spool.path);
    return error;
  }
  spool.header = (struct spool_header *)map;
  *spool.header = (struct spool_header){.magic = SPOOL_MAGIC,
                                        .version = SPOOL_VERSION,
                                        .record_bytes = sizeof(struct posix_record),
                                        .rank = run->rank,
                                        .process_id = process_id,
                                        .origin_ns = run->origin_ns,
                                        .used_bytes = HEADER_BYTES};
  spool.next = map + HEADER_BYTES;
  spool.end = map + FIRST_SEGMENT_BYTES;
  note_event("spool", strrchr(spool.path, '/') + 1);
  return 0;
}

/* Gives up the rest of the segment and maps one twice as long. */
static int grow_spool(size_t needed_bytes) {
  size_t bytes = 2 * spool.segments[spool.n_segments - 1].iov_len;
  if (bytes > LARGEST_SEGMENT_BYTES)
    bytes = LARGEST_SEGMENT_BYTES;
  while (bytes < needed_bytes)
    bytes *= 2;
  int error;
  uint64_t start = spool.file_bytes;
  char *map = map_segment(0, bytes, &error);
  if (!map)
    return error;
  if (spool.next < spool.end) {
    struct spool_entry *filler = (struct spool_entry *)spool.next;
    filler->bytes = (uint32_t)(spool.end - spool.next);
    filler->path_bytes = 0;
  }
  __atomic_store_n(&spool.header->used_bytes, start, __ATOMIC_RELEASE);
  spool.next = map;
  spool.end = map + bytes;
  return 0;
}

static struct posix_record *append_record(const struct run *run,
                                          const struct file *file) {
  size_t path_bytes = strlen(file->path);
  size_t bytes = (sizeof(struct spool_entry) + path_bytes + 7) & ~(size_t)7;
  if (spool.error) /* the trace is unusable already */
    return NULL;
  int error = spool.header ? 0 : create_spool(run);
  if (!error && bytes > (size_t)(spool.end - spool.next))
    error = grow_spool(bytes);
  if (error) {
    report_loss(run, error);
    return NULL;
  }
  struct spool_entry *entry = (struct spool_entry *)spool.next;
  entry->bytes = (uint32_t)bytes;
  entry->path_bytes = (uint32_t)path_bytes;
  entry->record.id = file->hash;
  entry->record.rank = run->rank;
  for (size_t i = 0; i < sizeof unmonitored / sizeof *unmonitored; i++)
    entry->record.counters[unmonitored[i]] = -1;
  memcpy(entry->path, file->path, path_bytes);
  spool.next += bytes;
  /* Published last: a reader of a killed process's spool sees whole entries only. */
  __atomic_store_n(&spool.header->used_bytes, spool.header->used_bytes + bytes,
                   __ATOMIC_RELEASE);
  return &entry->record;
}

static struct posix_record *add_record(const struct run *run, const struct file *file) {
  int saved_errno = errno;
  pthread_mutex_lock(&spool.lock);
  struct posix_record *record = append_record(run, file);
  pthread_mutex_unlock(&spool.lock);
  errno = saved_errno;
  return record;
}

/* Forgets the spool. The caller has removed its records from all files. */
static void leave_spool(void) {
  for (size_t i = 0; i < spool.n_segments; i++)
    munmap(spool.segments[i].iov_base, spool.segments[i].iov_len);
  spool.n_segments = 0;
  spool.header = NULL;
  spool.next = spool.end = NULL;
  spool.file_bytes = 0;
  spool.error = 0;
  *spool.path = '\0';
}

/* ---- Files and descriptors ---------------------------------------------------- */

/*
 * A word at a time, as bytes cost as much as the rest of the tracer. Each step can be
 * undone, so paths of one length that differ in one word never have the same hash.
 */
static uint64_t hash_path(const char *path) {
  size_t bytes = strlen(path);
  uint64_t hash = 0xcbf29ce484222325u ^ bytes;
  while (bytes > 0) {
    uint64_t word = 0;
    size_t n = bytes < sizeof word ? bytes : sizeof word;
    if (LIKELY(n == sizeof word))
      memcpy(&word, path, sizeof word);
    else
      memcpy(&word, path, n);
    hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 32;
    path += n;
    bytes -= n;
  }
  hash *= 0xd6e8feb86659fd93u;
  return hash ^ hash >> 32;
}

/* The slot of a path, or the free one where it belongs. */
static struct file_slot *find_slot(uint64_t hash, const char *path) {
  size_t mask = files.capacity - 1;
  for (size_t i = hash & mask;; i = (i + 1) & mask) {
    struct file_slot *slot = &files.slots[i];
    if (!slot->file)
      return slot;
    if (slot->hash != hash)
      continue;
    __builtin_prefetch(slot->file, 1);
    if (LIKELY(strcmp(slot->file->path, path) == 0))
      return slot;
  }
}

static bool grow_files(void) {
  struct file_slot *old_slots = files.slots;
  size_t old_capacity = files.capacity;
  size_t capacity = old_capacity ? 2 * old_capacity : 1024;
  struct file_slot *slots = map_memory(capacity * sizeof *slots, 0);
  if (!slots)
    return false;
  files.slots = slots;
  files.capacity = capacity;
  for (size_t i = 0; i < old_capacity; i++)
    if (old_slots[i].file)
      *find_slot(old_slots[i].hash, old_slots[i].file->path) = old_slots[i];
  if (old_slots)
    munmap(old_slots, old_capacity * sizeof *old_slots);
  return true;
}

/*
 * Memory for a file, all zeros; the caller holds files.lock. It comes in blocks whose
 * pages exist at once: the faults of single ones cost more than a file's calls.
 */
static struct file *allocate_file(size_t bytes) {
  static char *next, *end;
  static size_t block_bytes = 32u << 10;
  bytes = (bytes + 63) & ~(size_t)63;
  if (bytes > (size_t)(end - next)) {
    if (block_bytes < LARGEST_BLOCK_BYTES)
      block_bytes *= 2;
    char *block = map_memory(block_bytes, MAP_POPULATE);
    if (!block)
      return NULL;
    next = block;
    end = block + block_bytes;
  }
  struct file *file = (struct file *)next;
  next += bytes;
  return file;
}

/* The file of a path, made if new; the caller holds files.lock. NULL: no memory. */
static struct file *find_or_add_file(const char *path) {
  if (files.count >= files.capacity / 2 && !grow_files())
    return NULL;
  uint64_t hash = hash_path(path);
  struct file_slot *slot = find_slot(hash, path);
  if (slot->file)
    return slot->file;
  size_t path_bytes = strlen(path) + 1;
  struct file *file = allocate_file(sizeof *file + path_bytes);
  if (!file)
    return NULL;
  pthread_mutex_init(&file->lock, NULL);
  file->hash = hash;
  file->last_lane = META_LANE;
  memcpy(file->path, path, path_bytes);
  files.count++;
  *slot = (struct file_slot){hash, file};
  return file;
}

static size_t longest_prefix(char **prefixes, int n_prefixes, const char *path) {
  size_t longest = 0;
  for (int i = 0; i < n_prefixes; i++) {
    size_t length = strlen(prefixes[i]);
    if (length > longest && strncmp(path, prefixes[i], length) == 0)
      longest = length;
  }
  return longest;
}

static bool is_traced(const struct run *run, const char *path) {
  size_t included = longest_prefix(run->prefixes, run->n_prefixes, path);
  if (LIKELY(run->n_excluded == 0) || included == 0)
    return included > 0;
  return included > longest_prefix(run->excluded, run->n_excluded, path);
}

/* Whether a path has no empty, "." or ".." component and no slash at its end. */
static bool is_normal(const char *path) {
  for (; *path; path++)
    if (*path == '/' && (path[1] == '/' || path[1] == '.' || path[1] == '\0'))
      return false;
  return true;
}

/* Removes empty, "." and ".." components in place, as text, as Darshan does. */
static void normalise(char *path) {
  char *end = path;
  for (const char *part = path; *part;) {
    part += strspn(part, "/");
    size_t length = strcspn(part, "/");
    if (length == 2 && strncmp(part, "..", 2) == 0) {
      while (end > path && *--end != '/')
        ;
    } else if (length > 0 && !(length == 1 && *part == '.')) {
      *end++ = '/';
      memmove(end, part, length);
      end += length;
    }
    part += length;
  }
  *end = '\0';
}

static struct file *descriptor_file(int fd);

/* Writes the directory from which a relative path starts; false if it is unknown. */
static bool start_directory(int directory_fd, char *directory, size_t bytes) {
  if (directory_fd == AT_FDCWD)
    return getcwd(directory, bytes) != NULL;
  struct file *file = descriptor_file(directory_fd);
  if (file) /* as it was opened: a link such as data.ep1 is not resolved */
    return (size_t)snprintf(directory, bytes, "%s", file->path) < bytes;
  char link[64];
  snprintf(link, sizeof link, "/proc/self/fd/%d", directory_fd);
  ssize_t length = readlink(link, directory, bytes);
  if (length < 0 || (size_t)length >= bytes)
    return false;
  directory[length] = '\0';
  return true;
}

/* Writes a path as an absolute, normalised one; false if it is unknown. */
static bool make_absolute(int directory_fd, const char *path, char *absolute,
                          size_t bytes) {
  size_t length = 0;
  if (*path != '/') {
    if (!start_directory(directory_fd, absolute, bytes))
      return false;
    length = strlen(absolute);
  }
  size_t left = bytes - length;
  int n = snprintf(absolute + length, left, "%s%s", length ? "/" : "", path);
  if (n < 0 || (size_t)n >= left)
    return false;
  normalise(absolute);
  return true;
}

static void note_loss(int error) {
  const struct run *run = current_run;
  if (!become_busy())
    return;
  pthread_mutex_lock(&spool.lock);
  if (run)
    report_loss(run, error);
  pthread_mutex_unlock(&spool.lock);
  become_free();
}

/* The file of a name in the table of paths. */
static struct file *named_file(const char *path) {
  if (!become_busy())
    return NULL;
  pthread_mutex_lock(&files.lock);
  struct file *file = find_or_add_file(path);
  pthread_mutex_unlock(&files.lock);
  become_free();
  if (!file)
    note_loss(ENOMEM);
  return file;
}

static struct file *lookup(const struct run *run, const char *path) {
  return is_traced(run, path) ? named_file(path) : NULL;
}

/* Prefetches the memory of a record, which the read data has evicted from the caches. */
static void fetch_record(const void *record) {
  for (size_t at = 0; at < sizeof(struct spool_entry); at += 64)
    __builtin_prefetch((const char *)record + at, 1);
}

/* The file of a path given to a call; NULL if it is not traced. Keeps errno. */
static struct file *path_file(int directory_fd, const char *path) {
  const struct run *run = current_run;
  if (!run || !path)
    return NULL;
  if (LIKELY(*path == '/' && is_normal(path)))
    return lookup(run, path);
  int saved_errno = errno;
  char usual[1024]; /* the stack is small under a signal handler */
  struct file *file = NULL;
  if (LIKELY(make_absolute(directory_fd, path, usual, sizeof usual))) {
    file = lookup(run, usual);
  } else {
    char *absolute = map_memory(LONG_PATH_BYTES, 0);
    if (absolute && make_absolute(directory_fd, path, absolute, LONG_PATH_BYTES))
      file = lookup(run, absolute);
    if (absolute)
      munmap(absolute, LONG_PATH_BYTES);
  }
  errno = saved_errno;
  return file;
}

/*
 * The file of a path that is about to be opened, if it can be found at once; otherwise
 * NULL. The memory of its record is prefetched while the system opens the file.
 */
static struct file *file_to_open(const char *path) {
  const struct run *run = current_run;
  if (!run || !path || *path != '/' || !is_normal(path))
    return NULL;
  struct file *file = lookup(run, path);
  if (file)
    fetch_record(file->record ? (void *)file->record : spool.next);
  return file;
}

static struct file *descriptor_file(int fd) {
  if (fd < 0 || fd >> LEAF_BITS >= N_LEAVES)
    return NULL;
  descriptor_slot *leaf = descriptor_leaves[fd >> LEAF_BITS];
  return leaf ? leaf[fd & (LEAF_SLOTS - 1)] : NULL;
}

static descriptor_slot *add_leaf(int index) {
  descriptor_slot *leaf = map_memory(LEAF_SLOTS * sizeof *leaf, 0);
  descriptor_slot *present = NULL;
  if (!leaf)
    return NULL;
  if (__atomic_compare_exchange_n((descriptor_slot **)&descriptor_leaves[index],
                                  &present, leaf, false, __ATOMIC_ACQ_REL,
                                  __ATOMIC_ACQUIRE))
    return leaf;
  munmap(leaf, LEAF_SLOTS * sizeof *leaf);
  return present;
}

/*
 * Whether this may be a child that uses its parent's memory. The child of vfork also
 * uses the memory of its parent's thread, which waits until the child has ended. getpid
 * costs as much as the rest of a close, so it is called only after a vfork.
 */
static _Thread_local bool has_vforked __attribute__((tls_model("initial-exec")));
static bool has_cloned; /* a process with this memory; by another call than vfork */

static bool is_child_in_memory(void) {
  if (LIKELY(!has_vforked && !has_cloned))
    return false;
  if (getpid() != process_id)
    return true;
  has_vforked = false;
  return false;
}

/*
 * Notes the file of a descriptor, NULL for none of ours. A child of vfork uses its
 * parent's memory but has its own descriptors: if it closes them before exec, this must
 * not change the parent's entries. Returns false in such a child.
 */
static bool set_descriptor(int fd, struct file *file) {
  struct file *before = descriptor_file(fd);
  if (LIKELY(before == file))
    return true;
  if (before && is_child_in_memory())
    return false;
  if (fd < 0 || fd >> LEAF_BITS >= N_LEAVES)
    return true;
  descriptor_slot *leaf = descriptor_leaves[fd >> LEAF_BITS];
  if (!leaf && file && !(leaf = add_leaf(fd >> LEAF_BITS)))
    note_loss(ENOMEM);
  if (leaf)
    leaf[fd & (LEAF_SLOTS - 1)] = file;
  return true;
}

static void clear_slots(unsigned first, unsigned last) {
  for (unsigned i = first >> LEAF_BITS; i <= last >> LEAF_BITS && i < N_LEAVES; i++) {
    descriptor_slot *leaf = descriptor_leaves[i];
    for (unsigned slot = 0; leaf && slot < LEAF_SLOTS; slot++) {
      unsigned fd = (i << LEAF_BITS) + slot;
      if (leaf[slot] && fd >= first && fd <= last)
        leaf[slot] = NULL;
    }
  }
}

static void clear_descriptors(unsigned first, unsigned last) {
  clear_slots(first, last < STREAM_BIT ? last : STREAM_BIT - 1);
  clear_slots(first | STREAM_BIT, last | STREAM_BIT);
}

/* ---- Recording ---------------------------------------------------------------- */

/* A finished call on a file, with times since the run's origin. */
struct call {
  struct file *file;
  struct posix_record *record;
  double start_s, end_s;
};

/*
 * Locks the file and finds its record. False, and nothing locked, if the call does
 * not belong to the run: begin or end came in between. Under the file's lock the
 * record stays valid, because end takes every file's lock before it unmaps.
 */
static bool enter(struct call *call, struct file *file, double start_s) {
  double end_s = now_s();
  if (!become_busy())
    return false;
  pthread_mutex_lock(&file->lock);
  const struct run *run = current_run;
  if (LIKELY(run && start_s >= run->origin_s)) {
    if (!file->record)
      file->record = add_record(run, file);
    if (LIKELY(file->record != NULL)) {
      int64_t start_ns, end_ns;
      *call = (struct call){file, file->record, start_s - run->origin_s,
                            end_s - run->origin_s};
      if (tierscope_clock_call && tierscope_clock_call(&start_ns, &end_ns)) {
        call->start_s = start_ns * 1e-9;
        call->end_s = end_ns * 1e-9;
      }
      return true;
    }
  }
  pthread_mutex_unlock(&file->lock);
  become_free();
  return false;
}

static void leave(struct call *call) {
  pthread_mutex_unlock(&call->file->lock);
  become_free();
}

/* Adds a call's time; time that overlaps an earlier call on the file counts once. */
static void add_time(struct call *call, enum timer timer, enum lane lane) {
  double *busy_until = &call->file->busy_until[lane];
  if (call->end_s <= *busy_until)
    return;
  double start_s = call->start_s < *busy_until ? *busy_until : call->start_s;
  call->record->timers[timer] += call->end_s - start_s;
  *busy_until = call->end_s;
}

static void stamp(struct call *call, enum timer start, enum timer end) {
  double *timers = call->record->timers;
  if (timers[start] == 0 || timers[start] > call->start_s)
    timers[start] = call->start_s;
  timers[end] = call->end_s;
}

static void record_open(struct file *file, int64_t mode, bool duplicate,
                        double start_s) {
  struct call call;
  if (!enter(&call, file, start_s))
    return;
  call.record->counters[OPENS]++;
  if (duplicate) {
    call.record->counters[DUPS]++;
  } else {
    if (mode)
      call.record->counters[MODE] = mode;
    file->offset = 0;
    file->last_byte[READ_LANE] = file->last_byte[WRITE_LANE] = 0;
  }
  stamp(&call, OPEN_START, OPEN_END);
  add_time(&call, META_TIME, META_LANE);
  leave(&call);
}

static void record_close(struct file *file, double start_s) {
  struct call call;
  if (!enter(&call, file, start_s))
    return;
  stamp(&call, CLOSE_START, CLOSE_END);
  add_time(&call, META_TIME, META_LANE);
  leave(&call);
}

static void record_meta(struct file *file, enum counter counter, double start_s) {
  struct call call;
  if (!enter(&call, file, start_s))
    return;
  call.record->counters[counter]++;
  add_time(&call, META_TIME, META_LANE);
  leave(&call);
}

static void record_seek(struct file *file, int64_t offset, double start_s) {
  struct call call;
  if (!enter(&call, file, start_s))
    return;
  file->offset = offset;
  call.record->counters[SEEKS]++;
  add_time(&call, META_TIME, META_LANE);
  leave(&call);
}

/* Darshan counts a flush as a write that moves no bytes. */
static void record_flush(struct file *file, enum counter counter, double start_s) {
  struct call call;
  if (!enter(&call, file, start_s))
    return;
  call.record->counters[counter]++;
  stamp(&call, WRITE_START, WRITE_END);
  add_time(&call, WRITE_TIME, WRITE_LANE);
  leave(&call);
}

static int size_bucket(int64_t bytes) {
  static const int64_t limits[] = {100,     1 << 10,  10 << 10,  100 << 10, 1 << 20,
                                   4 << 20, 10 << 20, 100 << 20, 1 << 30};
  int bucket = 0;
  while (bucket < 9 && bytes > limits[bucket])
    bucket++;
  return bucket;
}

/* Keeps the first four access sizes; a genuine Darshan keeps the most frequent. */
static void count_access_size(int64_t *counters, int64_t bytes) {
  for (int i = 0; bytes > 0 && i < 4; i++) {
    if (counters[ACCESS1_COUNT + i] == 0)
      counters[ACCESS1_ACCESS + i] = bytes;
    if (counters[ACCESS1_ACCESS + i] == bytes) {
      counters[ACCESS1_COUNT + i]++;
      return;
    }
  }
}

/* Records a read or write of some bytes at an offset; -1 for the current one. */
static void record_transfer(struct file *file, enum lane lane, int64_t offset,
                            int64_t bytes, double start_s) {
  const struct direction *is = lane == READ_LANE ? &reading : &writing;
  struct call call;
  if (bytes < 0 || !enter(&call, file, start_s))
    return;
  int64_t *counters = call.record->counters;
  double *timers = call.record->timers;
  if (offset < 0)
    offset = file->offset;
  counters[is->calls]++;
  counters[is->bytes] += bytes;
  counters[is->sequential] += offset > file->last_byte[lane];
  counters[is->consecutive] += offset == file->last_byte[lane] + 1;
  counters[is->sizes + size_bucket(bytes)]++;
  count_access_size(counters, bytes);
  if (offset + bytes - 1 > counters[is->max_byte])
    counters[is->max_byte] = offset + bytes - 1;
  counters[RW_SWITCHES] += file->last_lane != lane && file->last_lane != META_LANE;
  file->last_lane = lane;
  file->last_byte[lane] = offset + bytes - 1;
  file->offset = offset + bytes;
  if (timers[is->max_time] < call.end_s - call.start_s) {
    timers[is->max_time] = call.end_s - call.start_s;
    counters[is->max_time_size] = bytes;
  }
  stamp(&call, is->start, is->end);
  add_time(&call, is->time, lane);
  leave(&call);
}

/* ---- Begin and end ------------------------------------------------------------ */

static void forget_records(void) {
  for (size_t i = 0; i < files.capacity; i++) {
    struct file *file = files.slots[i].file;
    if (!file)
      continue;
    pthread_mutex_lock(&file->lock);
    file->record = NULL;
    file->last_lane = META_LANE;
    memset(file->busy_until, 0, sizeof file->busy_until);
    pthread_mutex_unlock(&file->lock);
  }
}

/* Ends the current run, if any; the caller holds files.lock. */
static int stop(void) {
  const struct run *run = current_run;
  current_run = NULL; /* from here on, no call finds a record */
  clear_descriptors(0, INT_MAX);
  forget_records();
  pthread_mutex_lock(&spool.lock);
  if (run && has_missed_calls) /* of begin or end themselves */
    report_loss(run, EDEADLK);
  has_missed_calls = false;
  int error = spool.error;
  leave_spool();
  pthread_mutex_unlock(&spool.lock);
  return error;
}

static bool split_prefixes(const char *text, char ***prefixes, int *n_prefixes) {
  for (size_t length; *text; text += length + (text[length] == '\n')) {
    length = strcspn(text, "\n");
    if (length == 0)
      continue;
    char **more = realloc(*prefixes, (size_t)(*n_prefixes + 1) * sizeof *more);
    if (!more || !(more[*n_prefixes] = strndup(text, length)))
      return false;
    *prefixes = more;
    ++*n_prefixes;
  }
  return true;
}

static int start(const char *spool_dir, int rank, const char *prefixes,
                 const char *excluded) {
  if (!spool_dir || !prefixes || rank < 0)
    return EINVAL;
  int fd = REAL(open)(spool_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0)
    return errno;
  REAL(close)(fd);
  if (access(spool_dir, W_OK | X_OK) != 0)
    return errno;
  struct run *run = calloc(1, sizeof *run);
  if (!run || !(run->spool_dir = realpath(spool_dir, NULL)) ||
      !split_prefixes(prefixes, &run->prefixes, &run->n_prefixes) ||
      !split_prefixes(excluded, &run->excluded, &run->n_excluded))
    return errno;
  if (run->n_prefixes == 0)
    return EINVAL;
  struct timespec time;
  clock_gettime(CLOCK_REALTIME, &time);
  run->origin_ns = time.tv_sec * INT64_C(1000000000) + time.tv_nsec;
  run->origin_s = now_s();
  run->rank = rank;
  current_run = run;
  return 0;
}

/*
 * Starts tracing of paths that begin with one of the prefixes (one a line, literal)
 * into a fresh spool in spool_dir. Returns 0 or a negative errno. Files that are
 * already open are not traced. Programs started from now on inherit the setting
 * through the environment.
 */
int tierscope_trace_begin(const char *spool_dir, int rank, const char *prefixes) {
  char rank_text[16];
  if (!become_busy())
    return -EDEADLK;
  pthread_mutex_lock(&files.lock);
  stop();
  note_end();
  *events_path = '\0';
  int error = start(spool_dir, rank, prefixes, "");
  if (!error) {
    snprintf(rank_text, sizeof rank_text, "%d", rank);
    setenv("TIERSCOPE_TRACE_SPOOL", current_run->spool_dir, 1);
    setenv("TIERSCOPE_TRACE_RANK", rank_text, 1);
    setenv("TIERSCOPE_TRACE_PREFIXES", prefixes, 1);
    unsetenv("TIERSCOPE_TRACE_EXCLUDED"); /* of a `tierscope trace` that ends here */
    unsetenv("TIERSCOPE_TRACE_PROCESSES");
  }
  pthread_mutex_unlock(&files.lock);
  become_free();
  return -error;
}

/* Ends tracing. Returns 0, or a negative errno if some calls were not recorded. */
int tierscope_trace_end(void) {
  if (!become_busy())
    return -EDEADLK;
  pthread_mutex_lock(&files.lock);
  int error = stop();
  unsetenv("TIERSCOPE_TRACE_SPOOL");
  unsetenv("TIERSCOPE_TRACE_RANK");
  unsetenv("TIERSCOPE_TRACE_PREFIXES");
  pthread_mutex_unlock(&files.lock);
  become_free();
  return -error;
}

/* Whether the forking thread holds the locks; a handler that must not wait does not. */
static _Thread_local bool fork_has_locks __attribute__((tls_model("initial-exec")));

static void before_fork(void) {
  fork_has_locks = become_busy();
  if (!fork_has_locks)
    return;
  pthread_mutex_lock(&files.lock);
  pthread_mutex_lock(&spool.lock);
}

static void after_fork_in_parent(void) {
  if (!fork_has_locks)
    return;
  pthread_mutex_unlock(&spool.lock);
  pthread_mutex_unlock(&files.lock);
  become_free();
}

/*
 * The child keeps its descriptors' files but counts into its own spool: the previous
 * counts belong to the parent. Threads that do not exist in the child may have held
 * locks.
 */
static void after_fork_in_child(void) {
  process_id = getpid();
  if (!fork_has_locks) { /* what its handler has interrupted still uses the spool */
    current_run = NULL;
    note_start();
    return;
  }
  for (size_t i = 0; i < files.capacity; i++)
    if (files.slots[i].file)
      pthread_mutex_init(&files.slots[i].file->lock, NULL);
  forget_records();
  leave_spool();
  note_start();
  pthread_mutex_unlock(&spool.lock);
  pthread_mutex_unlock(&files.lock);
  become_free();
}

static pid_t (*next_vfork)(void);
static void (*next_exit)(int);

/*
 * The child returns into our caller before the parent does, so we must not use the
 * stack: the compiler must turn the call into a jump, as it does from level 2 on.
 */
__attribute__((optimize("O2"))) pid_t vfork(void) {
  has_vforked = true;
  return next_vfork();
}

int clone(int (*function)(void *), void *stack, int flags, void *argument, ...) {
  va_list arguments;
  va_start(arguments, argument);
  void *parent_id = va_arg(arguments, void *);
  void *thread_memory = va_arg(arguments, void *);
  void *child_id = va_arg(arguments, void *);
  va_end(arguments);
  if (flags & CLONE_VM && !(flags & CLONE_THREAD))
    has_cloned = true;
  return REAL(clone)(function, stack, flags, argument, parent_id, thread_memory,
                     child_id);
}

/* What ends a process without its destructors, as the children of multiprocessing. */
__attribute__((noreturn)) void _exit(int status) {
  note_end();
  if (next_exit)
    next_exit(status);
  syscall(SYS_exit_group, status);
  __builtin_unreachable();
}

__attribute__((noreturn)) void _Exit(int status) { _exit(status); }

__attribute__((constructor)) static void initialise(void) {
  process_id = getpid();
  next_vfork = (pid_t (*)(void))dlsym(RTLD_NEXT, "vfork");
  next_exit = (void (*)(int))dlsym(RTLD_NEXT, "_exit");
  pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
  const char *spool_dir = getenv("TIERSCOPE_TRACE_SPOOL");
  const char *rank = getenv("TIERSCOPE_TRACE_RANK");
  const char *prefixes = getenv("TIERSCOPE_TRACE_PREFIXES");
  if (!spool_dir || !rank || !prefixes)
    return;
  const char *excluded = getenv("TIERSCOPE_TRACE_EXCLUDED");
  char folder[PATH_BYTES];
  int error = 0;
  if (getenv("TIERSCOPE_TRACE_PROCESSES")) {
    if (enter_host_folder(spool_dir, folder, sizeof folder))
      spool_dir = folder;
    else
      error = errno;
  }
  note_start();
  if (!error)
    error = start(spool_dir, atoi(rank), prefixes, excluded ? excluded : "");
  if (error)
    dprintf(STDERR_FILENO, "tierscope trace: cannot trace to %s: %s\n", spool_dir,
            strerror(error));
}

/* ---- Wrappers: open ----------------------------------------------------------- */

/* Start of a call on a path; 0 spares the clock while nothing is traced. */
static double call_start(void) { return current_run ? now_s() : 0; }

static int opened(struct file *file, int directory_fd, const char *path, int64_t mode,
                  int fd, double start_s) {
  if (fd < 0)
    return fd;
  if (!file)
    file = path_file(directory_fd, path);
  if (set_descriptor(fd, file) && file)
    record_open(file, mode, false, start_s);
  return fd;
}

/* The mode argument that open has only if it may create a file. */
#define MODE_ARGUMENT(mode, flags)                                                     \
  mode_t mode = 0;                                                                     \
  if ((flags) & (O_CREAT | __O_TMPFILE)) {                                             \
    va_list arguments;                                                                 \
    va_start(arguments, flags);                                                        \
    mode = va_arg(arguments, mode_t);                                                  \
    va_end(arguments);                                                                 \
  }

#define TRACED_OPEN(name)                                                              \
  int name(const char *path, int flags, ...) {                                         \
    MODE_ARGUMENT(mode, flags)                                                         \
    struct file *file = file_to_open(path);                                            \
    double start_s = call_start();                                                     \
    int fd = REAL(name)(path, flags, mode);                                            \
    return opened(file, AT_FDCWD, path, mode, fd, start_s);                            \
  }

#define TRACED_OPENAT(name)                                                            \
  int name(int directory_fd, const char *path, int flags, ...) {                       \
    MODE_ARGUMENT(mode, flags)                                                         \
    struct file *file = file_to_open(path);                                            \
    double start_s = call_start();                                                     \
    int fd = REAL(name)(directory_fd, path, flags, mode);                              \
    return opened(file, directory_fd, path, mode, fd, start_s);                        \
  }

#define TRACED_CREAT(name)                                                             \
  int name(const char *path, mode_t mode) {                                            \
    struct file *file = file_to_open(path);                                            \
    double start_s = call_start();                                                     \
    int fd = REAL(name)(path, mode);                                                   \
    return opened(file, AT_FDCWD, path, mode, fd, start_s);                            \
  }

TRACED_OPEN(open)
TRACED_OPEN(open64)
TRACED_OPENAT(openat)
TRACED_OPENAT(openat64)
TRACED_CREAT(creat)
TRACED_CREAT(creat64)

/* What programs built with _FORTIFY_SOURCE call; passed on under the plain names. */
int __open_2(const char *path, int flags) { return open(path, flags); }
int __open64_2(const char *path, int flags) { return open64(path, flags); }
int __openat_2(int directory_fd, const char *path, int flags) {
  return openat(directory_fd, path, flags);
}
int __openat64_2(int directory_fd, const char *path, int flags) {
  return openat64(directory_fd, path, flags);
}

/* ---- Wrappers: read and write ------------------------------------------------- */

#define TRACED_TRANSFER(name, lane, offset, parameters, arguments)                     \
  ssize_t name parameters {                                                            \
    struct file *file = descriptor_file(fd);                                           \
    if (LIKELY(!file))                                                                 \
      return REAL(name) arguments;                                                     \
    double start_s = now_s();                                                          \
    ssize_t bytes = REAL(name) arguments;                                              \
    record_transfer(file, lane, offset, bytes, start_s);                               \
    return bytes;                                                                      \
  }

#define TRACED_READ(name, offset, parameters, arguments)                               \
  TRACED_TRANSFER(name, READ_LANE, offset, parameters, arguments)
#define TRACED_WRITE(name, offset, parameters, arguments)                              \
  TRACED_TRANSFER(name, WRITE_LANE, offset, parameters, arguments)

TRACED_READ(read, -1, (int fd, void *data, size_t size), (fd, data, size))
TRACED_READ(pread, at, (int fd, void *data, size_t size, off_t at),
            (fd, data, size, at))
TRACED_READ(pread64, at, (int fd, void *data, size_t size, off64_t at),
            (fd, data, size, at))
TRACED_READ(readv, -1, (int fd, const struct iovec *parts, int n), (fd, parts, n))
TRACED_READ(preadv, at, (int fd, const struct iovec *parts, int n, off_t at),
            (fd, parts, n, at))
TRACED_READ(preadv64, at, (int fd, const struct iovec *parts, int n, off64_t at),
            (fd, parts, n, at))
TRACED_READ(preadv2, at,
            (int fd, const struct iovec *parts, int n, off_t at, int flags),
            (fd, parts, n, at, flags))
TRACED_READ(preadv64v2, at,
            (int fd, const struct iovec *parts, int n, off64_t at, int flags),
            (fd, parts, n, at, flags))

TRACED_WRITE(write, -1, (int fd, const void *data, size_t size), (fd, data, size))
TRACED_WRITE(pwrite, at, (int fd, const void *data, size_t size, off_t at),
             (fd, data, size, at))
TRACED_WRITE(pwrite64, at, (int fd, const void *data, size_t size, off64_t at),
             (fd, data, size, at))
TRACED_WRITE(writev, -1, (int fd, const struct iovec *parts, int n), (fd, parts, n))
TRACED_WRITE(pwritev, at, (int fd, const struct iovec *parts, int n, off_t at),
             (fd, parts, n, at))
TRACED_WRITE(pwritev64, at, (int fd, const struct iovec *parts, int n, off64_t at),
             (fd, parts, n, at))
TRACED_WRITE(pwritev2, at,
             (int fd, const struct iovec *parts, int n, off_t at, int flags),
             (fd, parts, n, at, flags))
TRACED_WRITE(pwritev64v2, at,
             (int fd, const struct iovec *parts, int n, off64_t at, int flags),
             (fd, parts, n, at, flags))

/* Also of _FORTIFY_SOURCE: the last argument is the size of the caller's buffer. */
static void check_buffer(size_t size, size_t buffer_size) {
  if (size > buffer_size) {
    dprintf(STDERR_FILENO, "tierscope trace: buffer overflow in a read\n");
    abort();
  }
}

ssize_t __read_chk(int fd, void *data, size_t size, size_t buffer_size) {
  check_buffer(size, buffer_size);
  return read(fd, data, size);
}

ssize_t __pread_chk(int fd, void *data, size_t size, off_t at, size_t buffer_size) {
  check_buffer(size, buffer_size);
  return pread(fd, data, size, at);
}

ssize_t __pread64_chk(int fd, void *data, size_t size, off64_t at, size_t buffer_size) {
  check_buffer(size, buffer_size);
  return pread64(fd, data, size, at);
}

/* ---- Wrappers: streams of libc ------------------------------------------------ */

/*
 * Only for `tierscope trace`. libc makes the calls of its streams inside, where nobody
 * sees them, so these records do not count any call twice.
 */

/* The file of a stream, or NULL. */
static struct file *stream_file(FILE *stream) {
  if (LIKELY(!*events_path) || !stream)
    return NULL;
  int saved_errno = errno;
  int fd = fileno_unlocked(stream); /* -1: memory */
  errno = saved_errno;
  return fd < 0 ? NULL : descriptor_file(fd | STREAM_BIT);
}

/* The file to which calls on streams of a file are counted. */
static struct file *as_stream(const struct file *file) {
  char usual[1024], *name = usual;
  size_t bytes = strlen(file->path) + 2;
  if (bytes > sizeof usual && !(name = map_memory(bytes, 0)))
    return NULL;
  *name = STREAM_MARK;
  memcpy(name + 1, file->path, bytes - 1);
  struct file *stream = named_file(name);
  if (name != usual)
    munmap(name, bytes);
  return stream;
}

/* Notes the file of a new stream. Those of C++ read its descriptor themselves. */
static FILE *opened_stream(FILE *stream, struct file *file, bool of_descriptor,
                           double start_s) {
  int fd = fileno_unlocked(stream);
  struct file *counted = file ? as_stream(file) : NULL;
  if (!of_descriptor)
    set_descriptor(fd, file);
  if (set_descriptor(fd | STREAM_BIT, counted) && counted)
    record_open(counted, 0, of_descriptor, start_s);
  return stream;
}

#define TRACED_FOPEN(name, parameters, arguments)                                      \
  FILE *name parameters {                                                              \
    double start_s = call_start();                                                     \
    FILE *opened = REAL(name) arguments;                                               \
    if (LIKELY(!*events_path) || !opened || !path)                                     \
      return opened;                                                                   \
    return opened_stream(opened, path_file(AT_FDCWD, path), false, start_s);           \
  }

TRACED_FOPEN(fopen, (const char *path, const char *mode), (path, mode))
TRACED_FOPEN(fopen64, (const char *path, const char *mode), (path, mode))
TRACED_FOPEN(freopen, (const char *path, const char *mode, FILE *stream),
             (path, mode, stream))
TRACED_FOPEN(freopen64, (const char *path, const char *mode, FILE *stream),
             (path, mode, stream))

FILE *fdopen(int fd, const char *mode) {
  double start_s = call_start();
  FILE *opened = REAL(fdopen)(fd, mode);
  if (LIKELY(!*events_path) || !opened)
    return opened;
  return opened_stream(opened, descriptor_file(fd), true, start_s);
}

/* `bytes` says how many bytes a call has moved, from its result; 0: none. */
#define TRACED_STREAM(type, name, lane, parameters, arguments, bytes)                  \
  type name parameters {                                                               \
    struct file *file = stream_file(stream);                                           \
    if (LIKELY(!file))                                                                 \
      return REAL(name) arguments;                                                     \
    double start_s = now_s();                                                          \
    type result = REAL(name) arguments;                                                \
    int64_t n_bytes = (int64_t)(bytes);                                                \
    if (n_bytes > 0)                                                                   \
      record_transfer(file, lane, -1, n_bytes, start_s);                               \
    return result;                                                                     \
  }

#define TRACED_FREAD(name)                                                             \
  TRACED_STREAM(size_t, name, READ_LANE,                                               \
                (void *data, size_t size, size_t n, FILE *stream),                     \
                (data, size, n, stream), size *result)
#define TRACED_FWRITE(name)                                                            \
  TRACED_STREAM(size_t, name, WRITE_LANE,                                              \
                (const void *data, size_t size, size_t n, FILE *stream),               \
                (data, size, n, stream), size *result)
#define TRACED_FGETC(name)                                                             \
  TRACED_STREAM(int, name, READ_LANE, (FILE * stream), (stream), result != EOF)
#define TRACED_FPUTC(name)                                                             \
  TRACED_STREAM(int, name, WRITE_LANE, (int character, FILE *stream),                  \
                (character, stream), result != EOF)
#define TRACED_FGETS(name)                                                             \
  TRACED_STREAM(char *, name, READ_LANE, (char *text, int size, FILE *stream),         \
                (text, size, stream), result ? strlen(result) : 0)
#define TRACED_FPUTS(name)                                                             \
  TRACED_STREAM(int, name, WRITE_LANE, (const char *text, FILE *stream),               \
                (text, stream), result != EOF ? strlen(text) : 0)
#define TRACED_GETDELIM(name)                                                          \
  TRACED_STREAM(ssize_t, name, READ_LANE,                                              \
                (char **text, size_t *size, int end, FILE *stream),                    \
                (text, size, end, stream), result)

#undef fread_unlocked /* macros of libc */
#undef fwrite_unlocked
#undef getc
#undef putc
int _IO_getc(FILE *stream);
int _IO_putc(int character, FILE *stream);
int __vfprintf_chk(FILE *stream, int flag, const char *format, va_list values);

TRACED_FREAD(fread)
TRACED_FREAD(fread_unlocked)
TRACED_FWRITE(fwrite)
TRACED_FWRITE(fwrite_unlocked)
TRACED_FGETC(fgetc)
TRACED_FGETC(getc)
TRACED_FGETC(_IO_getc)
TRACED_FPUTC(fputc)
TRACED_FPUTC(putc)
TRACED_FPUTC(_IO_putc)
TRACED_FGETS(fgets)
TRACED_FGETS(fgets_unlocked)
TRACED_FPUTS(fputs)
TRACED_FPUTS(fputs_unlocked)
TRACED_GETDELIM(getdelim)
TRACED_GETDELIM(__getdelim)
TRACED_STREAM(ssize_t, getline, READ_LANE, (char **text, size_t *size, FILE *stream),
              (text, size, stream), result)
TRACED_STREAM(int, vfprintf, WRITE_LANE,
              (FILE * stream, const char *format, va_list values),
              (stream, format, values), result)
TRACED_STREAM(int, __vfprintf_chk, WRITE_LANE,
              (FILE * stream, int flag, const char *format, va_list values),
              (stream, flag, format, values), result)

int fprintf(FILE *stream, const char *format, ...) {
  va_list values;
  va_start(values, format);
  int result = vfprintf(stream, format, values);
  va_end(values);
  return result;
}

int __fprintf_chk(FILE *stream, int flag, const char *format, ...) {
  va_list values;
  va_start(values, format);
  int result = __vfprintf_chk(stream, flag, format, values);
  va_end(values);
  return result;
}

size_t __fread_chk(void *data, size_t buffer_size, size_t size, size_t n,
                   FILE *stream) {
  size_t bytes;
  check_buffer(__builtin_mul_overflow(size, n, &bytes) ? SIZE_MAX : bytes, buffer_size);
  return fread(data, size, n, stream);
}

char *__fgets_chk(char *text, size_t buffer_size, int size, FILE *stream) {
  check_buffer(size < 0 ? 0 : (size_t)size, buffer_size);
  return fgets(text, size, stream);
}

#define TRACED_FSEEK(name, offset_type)                                                \
  int name(FILE *stream, offset_type offset, int whence) {                             \
    struct file *file = stream_file(stream);                                           \
    if (LIKELY(!file))                                                                 \
      return REAL(name)(stream, offset, whence);                                       \
    double start_s = now_s();                                                          \
    int status = REAL(name)(stream, offset, whence);                                   \
    if (status == 0)                                                                   \
      record_seek(file, ftello(stream), start_s);                                      \
    return status;                                                                     \
  }

TRACED_FSEEK(fseek, long)
TRACED_FSEEK(fseeko, off_t)
TRACED_FSEEK(fseeko64, off64_t)

void rewind(FILE *stream) {
  struct file *file = stream_file(stream);
  double start_s = file ? now_s() : 0;
  REAL(rewind)(stream);
  if (file)
    record_seek(file, 0, start_s);
}

int fflush(FILE *stream) {
  struct file *file = stream_file(stream);
  if (LIKELY(!file))
    return REAL(fflush)(stream);
  double start_s = now_s();
  int status = REAL(fflush)(stream);
  if (status == 0)
    record_flush(file, FSYNCS, start_s);
  return status;
}

/* ---- Wrappers: close and dup -------------------------------------------------- */

int close(int fd) {
  struct file *file = descriptor_file(fd);
  if (LIKELY(!file))
    return REAL(close)(fd);
  /* Before the call: another thread may get the number as soon as it is free. */
  if (!set_descriptor(fd, NULL))
    return REAL(close)(fd);
  double start_s = now_s();
  int status = REAL(close)(fd);
  if (status == 0)
    record_close(file, start_s);
  return status;
}

/* Darshan does not see these closes; here they only end the attribution. */
int close_range(unsigned first, unsigned last, int flags) {
  int status = REAL(close_range)(first, last, flags);
  if (status == 0 && !(flags & CLOSE_RANGE_CLOEXEC) && getpid() == process_id)
    clear_descriptors(first, last);
  return status;
}

void closefrom(int first) {
  REAL(closefrom)(first);
  if (getpid() == process_id)
    clear_descriptors(first < 0 ? 0 : (unsigned)first, INT_MAX);
}

int fclose(FILE *stream) {
  int fd = fileno_unlocked(stream);
  struct file *file = stream_file(stream);
  set_descriptor(fd, NULL);
  if (LIKELY(!file) || !set_descriptor(fd | STREAM_BIT, NULL))
    return REAL(fclose)(stream);
  double start_s = now_s();
  int status = REAL(fclose)(stream);
  record_close(file, start_s);
  return status;
}

int closedir(DIR *directory) {
  DIR *volatile given = directory; /* else "never NULL", as glibc declares it */
  if (!given) {                    /* dirfd would crash */
    errno = EINVAL;
    return -1;
  }
  set_descriptor(dirfd(directory), NULL);
  return REAL(closedir)(directory);
}

static int duplicated(int old_fd, int new_fd, double start_s) {
  if (new_fd < 0 || new_fd == old_fd)
    return new_fd;
  struct file *file = descriptor_file(old_fd);
  if (set_descriptor(new_fd, file) && file)
    record_open(file, 0, true, start_s);
  return new_fd;
}

int dup(int old_fd) {
  double start_s = call_start();
  return duplicated(old_fd, REAL(dup)(old_fd), start_s);
}

int dup2(int old_fd, int new_fd) {
  double start_s = call_start();
  return duplicated(old_fd, REAL(dup2)(old_fd, new_fd), start_s);
}

int dup3(int old_fd, int new_fd, int flags) {
  double start_s = call_start();
  return duplicated(old_fd, REAL(dup3)(old_fd, new_fd, flags), start_s);
}

/* Every command takes one argument of at most a pointer's size, or none. */
#define TRACED_FCNTL(name)                                                             \
  int name(int fd, int command, ...) {                                                 \
    va_list arguments;                                                                 \
    va_start(arguments, command);                                                      \
    void *argument = va_arg(arguments, void *);                                        \
    va_end(arguments);                                                                 \
    double start_s = call_start();                                                     \
    int result = REAL(name)(fd, command, argument);                                    \
    if (command == F_DUPFD || command == F_DUPFD_CLOEXEC)                              \
      return duplicated(fd, result, start_s);                                          \
    return result;                                                                     \
  }

TRACED_FCNTL(fcntl)
TRACED_FCNTL(fcntl64)

/* ---- Wrappers: seek, stat, flush ---------------------------------------------- */

#define TRACED_SEEK(name, offset_type)                                                 \
  offset_type name(int fd, offset_type offset, int whence) {                           \
    struct file *file = descriptor_file(fd);                                           \
    if (LIKELY(!file))                                                                 \
      return REAL(name)(fd, offset, whence);                                           \
    double start_s = now_s();                                                          \
    offset_type result = REAL(name)(fd, offset, whence);                               \
    if (result >= 0)                                                                   \
      record_seek(file, result, start_s);                                              \
    return result;                                                                     \
  }

TRACED_SEEK(lseek, off_t)
TRACED_SEEK(lseek64, off64_t)

static int path_status(int directory_fd, const char *path, int status, double start_s) {
  struct file *file = status == 0 ? path_file(directory_fd, path) : NULL;
  if (file)
    record_meta(file, STATS, start_s);
  return status;
}

#define TRACED_PATH_STAT(name, directory_fd, parameters, arguments)                    \
  int name parameters {                                                                \
    double start_s = call_start();                                                     \
    return path_status(directory_fd, path, REAL(name) arguments, start_s);             \
  }

#define TRACED_FSTAT(name, parameters, arguments)                                      \
  int name parameters {                                                                \
    struct file *file = descriptor_file(fd);                                           \
    if (LIKELY(!file))                                                                 \
      return REAL(name) arguments;                                                     \
    double start_s = now_s();                                                          \
    int status = REAL(name) arguments;                                                 \
    if (status == 0)                                                                   \
      record_meta(file, STATS, start_s);                                               \
    return status;                                                                     \
  }

/* One set for struct stat and one for struct stat64. The __x names are what
 * programs built against glibc before 2.33 call, as most wheels from PyPI do. */
#define TRACED_STATS(suffix, info_type)                                                \
  TRACED_PATH_STAT(stat##suffix, AT_FDCWD, (const char *path, info_type *info),        \
                   (path, info))                                                       \
  TRACED_PATH_STAT(lstat##suffix, AT_FDCWD, (const char *path, info_type *info),       \
                   (path, info))                                                       \
  TRACED_PATH_STAT(fstatat##suffix, fd,                                                \
                   (int fd, const char *path, info_type *info, int flags),             \
                   (fd, path, info, flags))                                            \
  TRACED_FSTAT(fstat##suffix, (int fd, info_type *info), (fd, info))                   \
  TRACED_PATH_STAT(__xstat##suffix, AT_FDCWD,                                          \
                   (int version, const char *path, info_type *info),                   \
                   (version, path, info))                                              \
  TRACED_PATH_STAT(__lxstat##suffix, AT_FDCWD,                                         \
                   (int version, const char *path, info_type *info),                   \
                   (version, path, info))                                              \
  TRACED_PATH_STAT(                                                                    \
      __fxstatat##suffix, fd,                                                          \
      (int version, int fd, const char *path, info_type *info, int flags),             \
      (version, fd, path, info, flags))                                                \
  TRACED_FSTAT(__fxstat##suffix, (int version, int fd, info_type *info),               \
               (version, fd, info))

TRACED_STATS(, struct stat)
TRACED_STATS(64, struct stat64)

#define TRACED_FLUSH(name, counter)                                                    \
  int name(int fd) {                                                                   \
    struct file *file = descriptor_file(fd);                                           \
    if (LIKELY(!file))                                                                 \
      return REAL(name)(fd);                                                           \
    double start_s = now_s();                                                          \
    int status = REAL(name)(fd);                                                       \
    if (status == 0)                                                                   \
      record_flush(file, counter, start_s);                                            \
    return status;                                                                     \
  }

TRACED_FLUSH(fsync, FSYNCS)
TRACED_FLUSH(fdatasync, FDSYNCS)
