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
 * tells what processes there were (tierscope.logs.traced.processes reads it). A
 * benchmark's run counts what its audit knows, a command also streams of libc, listings,
 * look-ups, copies by the kernel, mappings and what it has inherited.
 *
 * The program must not notice: no message goes to its descriptors, errno stays as its
 * own call has set it, and no signal comes from a limit that our files reach.
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
#include <aio.h>
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
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

/* What Darshan writes for a counter that it does not monitor; the first three are
 * monitored in a command. */
static const enum counter unmonitored[] = {
    MMAPS,          RENAME_SOURCES,  RENAME_TARGETS,    FILENOS,
    MEM_ALIGNMENT,  MEM_NOT_ALIGNED, FILE_ALIGNMENT,    FILE_NOT_ALIGNED,
    STRIDE1_COUNT,  STRIDE1_COUNT + 1, STRIDE1_COUNT + 2, STRIDE1_COUNT + 3};
enum { N_MONITORED_IN_COMMAND = 3 };

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
#define SPOOL_VERSION 2
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
  uint32_t incomplete;   /* an errno: some calls could not be recorded */
  uint64_t mapped_bytes; /* of traced files, by mmap */
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
  struct stream *_Atomic stream; /* calls on streams of the file; NULL: none yet */
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

/*
 * Without a search for libc's function: the search may allocate memory, and an allocator
 * that is not libc's may call mmap for it.
 */
static void *map_anonymous(void *wanted, size_t bytes, int protection, int flags,
                           int fd) {
  return (void *)syscall(SYS_mmap, wanted, bytes, protection, flags, fd, 0L);
}

/* Zeroed memory, never freed; not from malloc: a signal handler may interrupt it. */
static void *map_memory(size_t bytes, int flags) {
  int saved_errno = errno;
  void *memory = map_anonymous(NULL, bytes, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS | flags, -1);
  errno = saved_errno;
  return memory == MAP_FAILED ? NULL : memory;
}

/* A limit of the size of files that one of ours reaches must not end the program. */
struct held_signal {
  sigset_t before;
  bool was_pending;
};

static void hold_size_signal(struct held_signal *held) {
  sigset_t pending, size_limit;
  sigemptyset(&size_limit);
  sigaddset(&size_limit, SIGXFSZ);
  pthread_sigmask(SIG_BLOCK, &size_limit, &held->before);
  held->was_pending = sigpending(&pending) == 0 && sigismember(&pending, SIGXFSZ) == 1;
}

static void release_size_signal(const struct held_signal *held) {
  sigset_t size_limit;
  sigemptyset(&size_limit);
  sigaddset(&size_limit, SIGXFSZ);
  if (!held->was_pending)
    while (sigtimedwait(&size_limit, NULL, &(struct timespec){0, 0}) == SIGXFSZ)
      ;
  pthread_sigmask(SIG_SETMASK, &held->before, NULL);
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
#define REAL(name) REAL_AS(name, #name)
#define REAL_AS(name, symbol)                                                          \
  ({                                                                                   \
    static void *_Atomic found_;                                                       \
    (__typeof__(&name))next_function(&found_, symbol);                                 \
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
  struct held_signal held;
  hold_size_signal(&held);
  int fd = REAL(open)(events_path,
                      O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0644);
  if (fd >= 0) {
    ssize_t written = REAL(writev)(fd, line, 3);
    (void)written; /* a process without events is not told of, as on a full disk */
    REAL(close)(fd);
  }
  release_size_signal(&held);
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
static void note_end(void) {
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

/* Notes once per spool, in the spool or as an empty file, that calls are being lost. */
static void report_loss(const struct run *run, int error) {
  if (spool.error)
    return;
  spool.error = error;
  if (spool.header) {
    spool.header->incomplete = (uint32_t)error;
    return;
  }
  char marker[PATH_BYTES];
  snprintf(marker, sizeof marker, "%s/rank-%05d.%d.%d.incomplete", run->spool_dir,
           run->rank, (int)process_id, error);
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
  struct held_signal held;
  hold_size_signal(&held);
  *error = posix_fallocate(fd, (off_t)spool.file_bytes, (off_t)bytes);
  if (*error == 0)
    *error = write_zeros(fd, (off_t)spool.file_bytes, bytes);
  release_size_signal(&held);
  if (*error == 0) {
    map = REAL(mmap)(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
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
  size_t first = *events_path ? N_MONITORED_IN_COMMAND : 0;
  for (size_t i = first; i < sizeof unmonitored / sizeof *unmonitored; i++)
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
 * Memory, all zeros; the caller holds files.lock. It comes in blocks whose
 * pages exist at once: the faults of single ones cost more than a file's calls.
 */
static void *allocate(size_t bytes) {
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
  void *memory = next;
  next += bytes;
  return memory;
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
  struct file *file = allocate(sizeof *file + path_bytes);
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

/* Whether a path begins with a prefix, or is the file or folder that `PATH/` names. */
static bool begins_with(const char *path, const char *prefix, size_t length) {
  if (strncmp(path, prefix, length) == 0)
    return true;
  size_t last = length - 1;
  return prefix[last] == '/' && strncmp(path, prefix, last) == 0 && path[last] == '\0';
}

static size_t longest_prefix(char **prefixes, int n_prefixes, const char *path) {
  size_t longest = 0;
  for (int i = 0; i < n_prefixes; i++) {
    size_t length = strlen(prefixes[i]);
    if (length > longest && begins_with(path, prefixes[i], length))
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
  if (end == path)
    *end++ = '/';
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
  ssize_t length = REAL(readlink)(link, directory, bytes);
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
  int saved_errno = errno;
  if (!become_busy())
    return;
  pthread_mutex_lock(&spool.lock);
  if (run)
    report_loss(run, error);
  pthread_mutex_unlock(&spool.lock);
  become_free();
  errno = saved_errno;
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
  if (is_child_in_memory())
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

static void clear_descriptors(unsigned first, unsigned last) {
  for (unsigned i = first >> LEAF_BITS; i <= last >> LEAF_BITS && i < N_LEAVES; i++) {
    descriptor_slot *leaf = descriptor_leaves[i];
    for (unsigned slot = 0; leaf && slot < LEAF_SLOTS; slot++) {
      unsigned fd = (i << LEAF_BITS) + slot;
      if (leaf[slot] && fd >= first && fd <= last)
        leaf[slot] = NULL;
    }
  }
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

/* Of a call that Darshan has no counter for. */
static void record_meta_time(struct file *file, double start_s) {
  struct call call;
  if (!enter(&call, file, start_s))
    return;
  add_time(&call, META_TIME, META_LANE);
  leave(&call);
}

static void record_mapping(struct file *file, uint64_t bytes) {
  struct call call;
  if (!enter(&call, file, now_s()))
    return;
  call.record->counters[MMAPS]++;
  __atomic_fetch_add(&spool.header->mapped_bytes, bytes, __ATOMIC_RELAXED);
  leave(&call);
}

static void record_rename(struct file *source, struct file *target, double start_s) {
  struct call call;
  if (source)
    record_meta(source, RENAME_SOURCES, start_s);
  if (!target || !enter(&call, target, source ? now_s() : start_s))
    return;
  call.record->counters[RENAME_TARGETS]++;
  if (source && !call.record->counters[RENAMED_FROM])
    call.record->counters[RENAMED_FROM] = (int64_t)source->hash;
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
  int fd = REAL(open)(spool_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0)
    return errno;
  REAL(close)(fd);
  if (REAL(access)(spool_dir, W_OK | X_OK) != 0)
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

/*
 * Writes the name by which an open file is traced, if it is. Names of open files stand
 * resolved in /proc, so here, and only here, the resolved form of a prefix counts, too.
 */
static bool name_open_file(const struct run *run, const char *resolved, char *name,
                           size_t bytes) {
  char prefix[PATH_BYTES];
  if (is_traced(run, resolved))
    return (size_t)snprintf(name, bytes, "%s", resolved) < bytes;
  for (int i = 0; i < run->n_prefixes; i++) {
    if ((size_t)snprintf(name, bytes, "%s", run->prefixes[i]) >= bytes)
      continue;
    normalise(name); /* a file is no folder, which a slash at the end would say */
    if (!realpath(name, prefix))
      continue;
    size_t length = strlen(prefix), given = strlen(name);
    if (strncmp(resolved, prefix, length) != 0 ||
        (resolved[length] != '/' && resolved[length] != '\0'))
      continue;
    if ((size_t)snprintf(name + given, bytes - given, "%s", resolved + length) <
            bytes - given &&
        is_traced(run, name))
      return true;
  }
  return false;
}

static void adopt_descriptor(const struct run *run, int fd) {
  static const char gone[] = " (deleted)";
  char link[64], path[PATH_BYTES], name[PATH_BYTES];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t length = REAL(readlink)(link, path, sizeof path - 1);
  if (length <= 0 || *path != '/')
    return;
  path[length] = '\0';
  size_t without = (size_t)length - (sizeof gone - 1);
  if ((size_t)length >= sizeof gone && strcmp(path + without, gone) == 0)
    path[without] = '\0';
  if (!name_open_file(run, path, name, sizeof name))
    return;
  struct file *file = named_file(name);
  if (!file || !set_descriptor(fd, file))
    return;
  off_t offset = REAL(lseek)(fd, 0, SEEK_CUR);
  file->offset = offset < 0 ? 0 : offset;
}

/* Finds the files that a program has open when it starts: a shell's `< in > out`. */
static void adopt_descriptors(void) {
  DIR *folder = REAL(opendir)("/proc/self/fd");
  struct dirent *entry;
  while (folder && (entry = REAL(readdir)(folder)))
    if (*entry->d_name != '.' && atoi(entry->d_name) != dirfd(folder))
      adopt_descriptor(current_run, atoi(entry->d_name));
  if (folder)
    REAL(closedir)(folder);
}

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
  int saved_errno = errno;
  char folder[PATH_BYTES];
  if (getenv("TIERSCOPE_TRACE_PROCESSES")) {
    if (!enter_host_folder(spool_dir, folder, sizeof folder))
      return;
    spool_dir = folder;
  }
  note_start();
  int error = start(spool_dir, atoi(rank), prefixes, excluded ? excluded : "");
  if (error)
    note_event("loss", strerror(error));
  else if (*events_path)
    adopt_descriptors();
  errno = saved_errno;
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
  set_descriptor(fd, file);
  if (file)
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

/* libc opens these inside. They write the name that they have made into `path`. */
#define TRACED_TEMPORARY(name, parameters, arguments)                                  \
  int name parameters {                                                                \
    double start_s = call_start();                                                     \
    int fd = REAL(name) arguments;                                                     \
    return opened(NULL, AT_FDCWD, path, 0, fd, start_s);                               \
  }
#define TRACED_TEMPORARIES(suffix)                                                     \
  TRACED_TEMPORARY(mkstemp##suffix, (char *path), (path))                              \
  TRACED_TEMPORARY(mkostemp##suffix, (char *path, int flags), (path, flags))           \
  TRACED_TEMPORARY(mkstemps##suffix, (char *path, int n_end), (path, n_end))           \
  TRACED_TEMPORARY(mkostemps##suffix, (char *path, int n_end, int flags),              \
                   (path, n_end, flags))

TRACED_OPEN(open)
TRACED_OPEN(open64)
TRACED_OPENAT(openat)
TRACED_OPENAT(openat64)
TRACED_CREAT(creat)
TRACED_CREAT(creat64)
TRACED_TEMPORARIES()
TRACED_TEMPORARIES(64)

int shm_open(const char *name, int flags, mode_t mode) {
  char path[PATH_MAX];
  double start_s = call_start();
  int fd = REAL(shm_open)(name, flags, mode);
  if (LIKELY(!*events_path) || fd < 0)
    return fd;
  int length = snprintf(path, sizeof path, "/dev/shm/%s", name);
  return length < PATH_MAX ? opened(NULL, AT_FDCWD, path, mode, fd, start_s) : fd;
}

/* Of the kernel since Linux 5.6, of libc only recently. */
int traced_openat2(int directory_fd, const char *path, const void *how, size_t bytes)
    __asm__("openat2");

int traced_openat2(int directory_fd, const char *path, const void *how, size_t bytes) {
  double start_s = call_start();
  int fd = (int)syscall(SYS_openat2, directory_fd, path, how, bytes);
  uint64_t mode = fd < 0 ? 0 : ((const uint64_t *)how)[1];
  return opened(NULL, directory_fd, path, (int64_t)mode, fd, start_s);
}

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

/*
 * Also of _FORTIFY_SOURCE: the last argument is the size of the caller's buffer. libc
 * ends the program if it is too small, with its own message.
 */
__attribute__((noreturn)) extern void __chk_fail(void);

static void check_buffer(size_t size, size_t buffer_size) {
  if (size > buffer_size)
    __chk_fail();
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

/* What dprintf writes, libc writes inside. */
#define TRACED_PRINT(name, parameters, arguments)                                      \
  int name parameters {                                                                \
    struct file *file = descriptor_file(fd);                                           \
    double start_s = file ? now_s() : 0;                                               \
    int bytes = REAL(name) arguments;                                                  \
    if (file)                                                                          \
      record_transfer(file, WRITE_LANE, -1, bytes, start_s);                           \
    return bytes;                                                                      \
  }

int __vdprintf_chk(int fd, int flag, const char *format, va_list values);

TRACED_PRINT(vdprintf, (int fd, const char *format, va_list values),
             (fd, format, values))
TRACED_PRINT(__vdprintf_chk, (int fd, int flag, const char *format, va_list values),
             (fd, flag, format, values))

int dprintf(int fd, const char *format, ...) {
  va_list values;
  va_start(values, format);
  int bytes = vdprintf(fd, format, values);
  va_end(values);
  return bytes;
}

int __dprintf_chk(int fd, int flag, const char *format, ...) {
  va_list values;
  va_start(values, format);
  int bytes = __vdprintf_chk(fd, flag, format, values);
  va_end(values);
  return bytes;
}

/* ---- Wrappers: copies by the kernel, mappings, advice -------------------------- */

/* A copy's time counts once: as reading, or as writing if its source is not traced. */
static ssize_t copied(int source_fd, const off64_t *source_end, int target_fd,
                      const off64_t *target_end, ssize_t bytes, double start_s) {
  if (LIKELY(!*events_path) || bytes < 0)
    return bytes;
  struct file *source = descriptor_file(source_fd);
  struct file *target = descriptor_file(target_fd);
  if (source)
    record_transfer(source, READ_LANE, source_end ? *source_end - bytes : -1, bytes,
                    start_s);
  if (target)
    record_transfer(target, WRITE_LANE, target_end ? *target_end - bytes : -1, bytes,
                    source ? now_s() : start_s);
  return bytes;
}

#define TRACED_SENDFILE(name, offset_type)                                             \
  ssize_t name(int target, int source, offset_type *offset, size_t size) {             \
    double start_s = call_start();                                                     \
    ssize_t bytes = REAL(name)(target, source, offset, size);                          \
    return copied(source, offset, target, NULL, bytes, start_s);                       \
  }
#define TRACED_COPY(name)                                                              \
  ssize_t name(int source, off64_t *source_offset, int target, off64_t *target_offset, \
               size_t size, unsigned flags) {                                          \
    double start_s = call_start();                                                     \
    ssize_t bytes =                                                                    \
        REAL(name)(source, source_offset, target, target_offset, size, flags);         \
    return copied(source, source_offset, target, target_offset, bytes, start_s);       \
  }

TRACED_SENDFILE(sendfile, off_t)
TRACED_SENDFILE(sendfile64, off64_t)
TRACED_COPY(copy_file_range)
TRACED_COPY(splice)

/* The part of a mapping that is in its file. */
static uint64_t mapped_bytes(int fd, size_t bytes, off64_t offset) {
  struct stat info;
  if (REAL(fstat)(fd, &info) != 0 || !S_ISREG(info.st_mode))
    return bytes;
  uint64_t left = info.st_size > offset ? (uint64_t)(info.st_size - offset) : 0;
  return bytes < left ? bytes : left;
}

/* Loads and stores in a mapping are no calls: their number and time are unknown. */
#define TRACED_MMAP(name, offset_type)                                                 \
  void *name(void *wanted, size_t bytes, int protection, int flags, int fd,            \
             offset_type offset) {                                                     \
    if (fd < 0 || flags & MAP_ANONYMOUS)                                               \
      return map_anonymous(wanted, bytes, protection, flags, fd);                      \
    void *map = REAL(name)(wanted, bytes, protection, flags, fd, offset);              \
    struct file *file = *events_path ? descriptor_file(fd) : NULL;                     \
    if (file && map != MAP_FAILED) {                                                   \
      int saved_errno = errno;                                                         \
      record_mapping(file, mapped_bytes(fd, bytes, offset));                           \
      errno = saved_errno;                                                             \
    }                                                                                  \
    return map;                                                                        \
  }

TRACED_MMAP(mmap, off_t)
TRACED_MMAP(mmap64, off64_t)

/* A call on a descriptor that Darshan has no counter for: its time is META. */
#define TRACED_TIME(type, name, parameters, arguments, is_done)                        \
  type name parameters {                                                               \
    struct file *file = *events_path ? descriptor_file(fd) : NULL;                     \
    if (LIKELY(!file))                                                                 \
      return REAL(name) arguments;                                                     \
    double start_s = now_s();                                                          \
    type result = REAL(name) arguments;                                                \
    if (is_done)                                                                       \
      record_meta_time(file, start_s);                                                 \
    return result;                                                                     \
  }

TRACED_TIME(int, posix_fadvise, (int fd, off_t offset, off_t length, int advice),
            (fd, offset, length, advice), result == 0)
TRACED_TIME(int, posix_fadvise64, (int fd, off64_t offset, off64_t length, int advice),
            (fd, offset, length, advice), result == 0)
TRACED_TIME(ssize_t, getdents64, (int fd, void *entries, size_t bytes),
            (fd, entries, bytes), result >= 0)

/* ---- Wrappers: asynchronous reads and writes ----------------------------------- */

/* Calls that are under way; like Darshan, we count them when their result is fetched. */
struct pending {
  const void *block; /* NULL: free */
  struct file *file;
  double start_s;
  enum lane lane;
};

static struct {
  pthread_mutex_t lock;
  struct pending calls[1024];
} asynchronous = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void note_pending(const void *block, int fd, enum lane lane, double start_s) {
  enum { N_CALLS = sizeof asynchronous.calls / sizeof *asynchronous.calls };
  struct file *file = descriptor_file(fd);
  if (!file || !become_busy())
    return;
  int i = 0;
  pthread_mutex_lock(&asynchronous.lock);
  while (i < N_CALLS && asynchronous.calls[i].block)
    i++;
  if (i < N_CALLS)
    asynchronous.calls[i] = (struct pending){block, file, start_s, lane};
  pthread_mutex_unlock(&asynchronous.lock);
  become_free();
  if (i == N_CALLS)
    note_loss(ENOBUFS);
}

static struct pending take_pending(const void *block) {
  struct pending found = {0};
  if (!become_busy())
    return found;
  pthread_mutex_lock(&asynchronous.lock);
  for (size_t i = 0; i < sizeof asynchronous.calls / sizeof found; i++)
    if (asynchronous.calls[i].block == block) {
      found = asynchronous.calls[i];
      asynchronous.calls[i].block = NULL;
      break;
    }
  pthread_mutex_unlock(&asynchronous.lock);
  become_free();
  return found;
}

static enum lane lane_of(int operation) {
  return operation == LIO_READ ? READ_LANE : WRITE_LANE;
}

#define TRACED_AIO(name, block_type, lane)                                             \
  int name(block_type *block) {                                                        \
    double start_s = call_start();                                                     \
    int status = REAL(name)(block);                                                    \
    if (status == 0)                                                                   \
      note_pending(block, block->aio_fildes, lane, start_s);                           \
    return status;                                                                     \
  }
#define TRACED_AIO_RETURN(name, block_type)                                            \
  ssize_t name(block_type *block) {                                                    \
    int64_t offset = block->aio_offset;                                                \
    struct pending call = take_pending(block);                                         \
    ssize_t bytes = REAL(name)(block);                                                 \
    if (call.block)                                                                    \
      record_transfer(call.file, call.lane, offset, bytes, call.start_s);              \
    return bytes;                                                                      \
  }
#define TRACED_LIO(name, block_type)                                                   \
  int name(int mode, block_type *const blocks[], int n, struct sigevent *event) {      \
    double start_s = call_start();                                                     \
    for (int i = 0; i < n; i++)                                                        \
      if (blocks[i] && blocks[i]->aio_lio_opcode != LIO_NOP)                           \
        note_pending(blocks[i], blocks[i]->aio_fildes,                                 \
                     lane_of(blocks[i]->aio_lio_opcode), start_s);                     \
    return REAL(name)(mode, blocks, n, event);                                         \
  }
#define TRACED_ASYNCHRONOUS(suffix)                                                    \
  TRACED_AIO(aio_read##suffix, struct aiocb##suffix, READ_LANE)                        \
  TRACED_AIO(aio_write##suffix, struct aiocb##suffix, WRITE_LANE)                      \
  TRACED_AIO_RETURN(aio_return##suffix, struct aiocb##suffix)                          \
  TRACED_LIO(lio_listio##suffix, struct aiocb##suffix)

TRACED_ASYNCHRONOUS()
TRACED_ASYNCHRONOUS(64)

/* ---- Wrappers: streams of libc ------------------------------------------------ */

/*
 * Only for `tierscope trace`. libc makes the calls of its streams inside, where nobody
 * sees them, so these records do not count any call twice.
 *
 * getc and putc are often no calls at all: compiled programs move a pointer of the
 * stream, and call libc when its buffer is empty or full. So we remember where the
 * pointers stood when a call on the stream ended. What lies between that and the next
 * call counts as one read or write, without time.
 */
struct stream {
  struct stream *next; /* another one of the file */
  struct file *file;   /* to which calls are counted */
  FILE *_Atomic of;    /* NULL: it was closed */
  const char *read_at, *write_at;
};

/* The file to which calls on streams of a file are counted. */
static struct file *counted_file(const struct file *file) {
  char usual[1024], *name = usual;
  size_t bytes = strlen(file->path) + 2;
  if (bytes > sizeof usual && !(name = map_memory(bytes, 0)))
    return NULL;
  *name = STREAM_MARK;
  memcpy(name + 1, file->path, bytes - 1);
  struct file *counted = named_file(name);
  if (name != usual)
    munmap(name, bytes);
  return counted;
}

static void remember(struct stream *known) {
  known->read_at = known->of->_IO_read_ptr;
  known->write_at = known->of->_IO_write_ptr;
}

/* A stream of a file, not known before; the caller holds files.lock. */
static struct stream *add_stream(struct file *file, struct file *counted, FILE *of) {
  struct stream *known = file->stream;
  while (known && known->of)
    known = known->next;
  if (!known) {
    if (!(known = allocate(sizeof *known)))
      return NULL;
    known->next = file->stream;
    file->stream = known;
  }
  known->file = counted;
  known->of = of;
  remember(known);
  return known;
}

/* What is known of a stream of a file. NULL: no memory, or an interrupted thread. */
static struct stream *stream_of(struct file *file, FILE *of) {
  for (struct stream *known = file->stream; known; known = known->next)
    if (LIKELY(known->of == of))
      return known;
  struct file *counted = counted_file(file);
  if (!counted || !become_busy())
    return NULL;
  pthread_mutex_lock(&files.lock);
  struct stream *known = add_stream(file, counted, of);
  pthread_mutex_unlock(&files.lock);
  become_free();
  return known;
}

/* The same of a stream that may be of any file; NULL if that is not traced. */
static struct stream *traced_stream(FILE *of) {
  if (LIKELY(!*events_path) || !of)
    return NULL;
  int saved_errno = errno;
  struct file *file = descriptor_file(fileno_unlocked(of)); /* -1: memory */
  errno = saved_errno;
  return LIKELY(!file) ? NULL : stream_of(file, of);
}

/* Counts what the program has read or written in the buffer since the last call. */
static void count_moved(const struct stream *known) {
  const FILE *of = known->of;
  int64_t n_read = of->_IO_read_ptr - known->read_at;
  int64_t n_written = of->_IO_write_ptr - known->write_at;
  if (n_read > 0 && known->read_at >= of->_IO_read_base)
    record_transfer(known->file, READ_LANE, -1, n_read, now_s());
  if (n_written > 0 && known->write_at >= of->_IO_write_base)
    record_transfer(known->file, WRITE_LANE, -1, n_written, now_s());
}

/* Begins a call on a traced stream: other threads wait until it has ended. */
static double begin_stream_call(const struct stream *known) {
  flockfile(known->of);
  count_moved(known);
  return now_s();
}

static void end_stream_call(struct stream *known) {
  remember(known);
  funlockfile(known->of);
}

/* The stream is about to be closed, or to be that of another file. */
static void forget_stream(struct stream *known) {
  FILE *of = known->of;
  begin_stream_call(known);
  known->of = NULL;
  funlockfile(of);
}

/* Notes the file of a new stream. Those of C++ read its descriptor themselves. */
static FILE *opened_stream(FILE *stream, struct file *file, bool of_descriptor,
                           double start_s) {
  if (!of_descriptor)
    set_descriptor(fileno_unlocked(stream), file);
  struct stream *known = file ? stream_of(file, stream) : NULL;
  if (known) {
    remember(known); /* not what an earlier stream at this address has left */
    record_open(known->file, 0, of_descriptor, start_s);
  }
  return stream;
}

#define TRACED_FOPEN(name, parameters, arguments, path)                                \
  FILE *name parameters {                                                              \
    double start_s = call_start();                                                     \
    FILE *opened = REAL(name) arguments;                                               \
    if (LIKELY(!*events_path) || !opened || !(path))                                   \
      return opened;                                                                   \
    return opened_stream(opened, path_file(AT_FDCWD, path), false, start_s);           \
  }

TRACED_FOPEN(fopen, (const char *path, const char *mode), (path, mode), path)
TRACED_FOPEN(fopen64, (const char *path, const char *mode), (path, mode), path)
TRACED_FOPEN(tmpfile, (void), (), P_tmpdir)
TRACED_FOPEN(tmpfile64, (void), (), P_tmpdir)

#define TRACED_FREOPEN(name)                                                           \
  FILE *name(const char *path, const char *mode, FILE *stream) {                       \
    struct stream *before = traced_stream(stream);                                     \
    if (before)                                                                        \
      forget_stream(before);                                                           \
    double start_s = call_start();                                                     \
    FILE *opened = REAL(name)(path, mode, stream);                                     \
    if (LIKELY(!*events_path) || !opened || !path)                                     \
      return opened;                                                                   \
    return opened_stream(opened, path_file(AT_FDCWD, path), false, start_s);           \
  }

TRACED_FREOPEN(freopen)
TRACED_FREOPEN(freopen64)

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
    struct stream *known = traced_stream(stream);                                    \
    if (LIKELY(!known))                                                              \
      return REAL(name) arguments;                                                     \
    double start_s = begin_stream_call(known);                               \
    type result = REAL(name) arguments;                                                \
    int64_t n_bytes = (int64_t)(bytes);                                                \
    if (n_bytes > 0)                                                                   \
      record_transfer(known->file, lane, -1, n_bytes, start_s);                      \
    end_stream_call(known);                                                  \
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

/* What a program calls when the buffer of a stream is empty or full. */
#define TRACED_UNDERFLOW(name)                                                         \
  TRACED_STREAM(int, name, READ_LANE, (FILE * stream), (stream), result != EOF)
#define TRACED_OVERFLOW(name)                                                          \
  TRACED_STREAM(int, name, WRITE_LANE, (FILE * stream, int character),                 \
                (stream, character), result != EOF && character != EOF)

#undef fread_unlocked /* macros of libc */
#undef fwrite_unlocked
#undef getc
#undef putc
#undef fgetc_unlocked
#undef fputc_unlocked
#undef getc_unlocked
#undef putc_unlocked
#undef getchar
#undef putchar
#undef getchar_unlocked
#undef putchar_unlocked
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
TRACED_FGETC(fgetc_unlocked)
TRACED_FGETC(getc_unlocked)
TRACED_UNDERFLOW(__uflow)
TRACED_FPUTC(fputc)
TRACED_FPUTC(putc)
TRACED_FPUTC(_IO_putc)
TRACED_FPUTC(fputc_unlocked)
TRACED_FPUTC(putc_unlocked)
TRACED_OVERFLOW(__overflow)
TRACED_STREAM(int, getw, READ_LANE, (FILE * stream), (stream),
              feof(stream) || ferror(stream) ? 0 : sizeof result)
TRACED_STREAM(int, putw, WRITE_LANE, (int word, FILE *stream), (word, stream),
              result ? 0 : sizeof word)
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

/* A function with arguments `...` as a call of the one that takes them as a list. */
#define VARIADIC(name, listed, parameters, arguments)                                  \
  int name parameters {                                                                \
    va_list values;                                                                    \
    va_start(values, format);                                                          \
    int result = listed arguments;                                                     \
    va_end(values);                                                                    \
    return result;                                                                     \
  }

VARIADIC(fprintf, vfprintf, (FILE * stream, const char *format, ...),
         (stream, format, values))
VARIADIC(__fprintf_chk, __vfprintf_chk,
         (FILE * stream, int flag, const char *format, ...),
         (stream, flag, format, values))
VARIADIC(printf, vfprintf, (const char *format, ...), (stdout, format, values))
VARIADIC(__printf_chk, __vfprintf_chk, (int flag, const char *format, ...),
         (stdout, flag, format, values))

int vprintf(const char *format, va_list values) {
  return vfprintf(stdout, format, values);
}
int __vprintf_chk(int flag, const char *format, va_list values) {
  return __vfprintf_chk(stdout, flag, format, values);
}

/* Calls on the standard streams, as calls on any. */
int getchar(void) { return getc(stdin); }
int getchar_unlocked(void) { return getc_unlocked(stdin); }
int putchar(int character) { return putc(character, stdout); }
int putchar_unlocked(int character) { return putc_unlocked(character, stdout); }

int puts(const char *text) {
  struct stream *known = traced_stream(stdout);
  if (LIKELY(!known))
    return REAL(puts)(text);
  double start_s = begin_stream_call(known);
  int result = REAL(puts)(text);
  if (result != EOF)
    record_transfer(known->file, WRITE_LANE, -1, (int64_t)strlen(text) + 1, start_s);
  end_stream_call(known);
  return result;
}

/*
 * How many bytes scanf reads, its result does not say; the position in the file does.
 * C has several standards of scanf, and headers rename it: so symbols are given as text.
 */
static off_t position(FILE *stream) {
  int saved_errno = errno;
  off_t offset = ftello(stream);
  errno = saved_errno;
  return offset;
}

#define TRACED_SCANS(name, symbol)                                                     \
  int name##_v(FILE *stream, const char *format, va_list values) __asm__(symbol        \
                                                                         "vfscanf");   \
  int name##_stdin_v(const char *format, va_list values) __asm__(symbol "vscanf");     \
  int name(FILE *stream, const char *format, ...) __asm__(symbol "fscanf");            \
  int name##_stdin(const char *format, ...) __asm__(symbol "scanf");                   \
  int name##_v(FILE *stream, const char *format, va_list values) {                     \
    struct stream *known = traced_stream(stream);                                    \
    if (LIKELY(!known))                                                              \
      return REAL_AS(name##_v, symbol "vfscanf")(stream, format, values);              \
    double start_s = begin_stream_call(known);                               \
    off_t start = position(stream);                                                    \
    int result = REAL_AS(name##_v, symbol "vfscanf")(stream, format, values);          \
    off_t end = position(stream);                                                      \
    if (start >= 0 && end > start)                                                     \
      record_transfer(known->file, READ_LANE, -1, end - start, start_s);             \
    end_stream_call(known);                                                  \
    return result;                                                                     \
  }                                                                                    \
  int name##_stdin_v(const char *format, va_list values) {                             \
    return name##_v(stdin, format, values);                                            \
  }                                                                                    \
  VARIADIC(name, name##_v, (FILE * stream, const char *format, ...),                   \
           (stream, format, values))                                                   \
  VARIADIC(name##_stdin, name##_v, (const char *format, ...), (stdin, format, values))

TRACED_SCANS(scan_gnu, "")
TRACED_SCANS(scan_c99, "__isoc99_")
TRACED_SCANS(scan_c23, "__isoc23_")

size_t __fread_chk(void *data, size_t buffer_size, size_t size, size_t n,
                   FILE *stream) {
  size_t bytes;
  check_buffer(__builtin_mul_overflow(size, n, &bytes) ? SIZE_MAX : bytes, buffer_size);
  return fread(data, size, n, stream);
}

size_t __fread_unlocked_chk(void *data, size_t buffer_size, size_t size, size_t n,
                            FILE *stream) {
  size_t bytes;
  check_buffer(__builtin_mul_overflow(size, n, &bytes) ? SIZE_MAX : bytes, buffer_size);
  return fread_unlocked(data, size, n, stream);
}

char *__fgets_chk(char *text, size_t buffer_size, int size, FILE *stream) {
  check_buffer(size < 0 ? 0 : (size_t)size, buffer_size);
  return fgets(text, size, stream);
}

char *__fgets_unlocked_chk(char *text, size_t buffer_size, int size, FILE *stream) {
  check_buffer(size < 0 ? 0 : (size_t)size, buffer_size);
  return fgets_unlocked(text, size, stream);
}

#define TRACED_SEEK_STREAM(type, name, parameters, arguments)        \
  type name parameters {                                                               \
    struct stream *known = traced_stream(stream);                                    \
    if (LIKELY(!known))                                                              \
      return REAL(name) arguments;                                                     \
    double start_s = begin_stream_call(known);                               \
    type result = REAL(name) arguments;                                                \
    if (result == 0)                                                                   \
      record_seek(known->file, ftello(stream), start_s);                             \
    end_stream_call(known);                                                  \
    return result;                                                                     \
  }

TRACED_SEEK_STREAM(int, fseek, (FILE * stream, long offset, int whence),
                   (stream, offset, whence))
TRACED_SEEK_STREAM(int, fseeko, (FILE * stream, off_t offset, int whence),
                   (stream, offset, whence))
TRACED_SEEK_STREAM(int, fseeko64, (FILE * stream, off64_t offset, int whence),
                   (stream, offset, whence))
TRACED_SEEK_STREAM(int, fsetpos, (FILE * stream, const fpos_t *position),
                   (stream, position))
TRACED_SEEK_STREAM(int, fsetpos64, (FILE * stream, const fpos64_t *position),
                   (stream, position))

void rewind(FILE *stream) {
  struct stream *known = traced_stream(stream);
  if (LIKELY(!known)) {
    REAL(rewind)(stream);
    return;
  }
  double start_s = begin_stream_call(known);
  REAL(rewind)(stream);
  record_seek(known->file, 0, start_s);
  end_stream_call(known);
}

/*
 * Counts what the program has written by putc into a buffer that libc will flush. Of the
 * standard streams only: others may be gone, if their descriptors were closed first.
 */
static void count_standard_streams(void) {
  FILE *const standard[] = {stdin, stdout, stderr};
  for (int i = 0; i < 3; i++) {
    if (ftrylockfile(standard[i]) != 0) /* another thread waits for input */
      continue;
    struct stream *known = traced_stream(standard[i]);
    if (known) {
      count_moved(known);
      remember(known);
    }
    funlockfile(standard[i]);
  }
}

#define TRACED_FFLUSH(name)                                                            \
  int name(FILE *stream) {                                                             \
    struct stream *known = traced_stream(stream);                                      \
    if (!stream && *events_path)                                                       \
      count_standard_streams();                                                        \
    if (LIKELY(!known)) {                                                              \
      int status = REAL(name)(stream);                                                 \
      if (!stream && *events_path) /* whose buffers are empty now */                   \
        count_standard_streams();                                                      \
      return status;                                                                   \
    }                                                                                  \
    double start_s = begin_stream_call(known);                                         \
    int status = REAL(name)(stream);                                                   \
    if (status == 0)                                                                   \
      record_flush(known->file, FSYNCS, start_s);                                      \
    end_stream_call(known);                                                            \
    return status;                                                                     \
  }

TRACED_FFLUSH(fflush)
TRACED_FFLUSH(fflush_unlocked)

__attribute__((destructor)) static void finish(void) {
  if (!*events_path || getpid() != process_id)
    return;
  count_standard_streams();
  note_end();
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
  struct stream *known = traced_stream(stream);
  struct file *file = known ? known->file : NULL;
  if (known)
    forget_stream(known);
  if (!set_descriptor(fileno_unlocked(stream), NULL) || LIKELY(!file))
    return REAL(fclose)(stream);
  double start_s = now_s();
  int status = REAL(fclose)(stream);
  record_close(file, start_s);
  return status;
}

static int duplicated(int old_fd, int new_fd, double start_s) {
  if (new_fd < 0 || new_fd == old_fd)
    return new_fd;
  struct file *file = descriptor_file(old_fd);
  set_descriptor(new_fd, file);
  if (file)
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

static ssize_t path_status(int directory_fd, const char *path, ssize_t status,
                           double start_s) {
  struct file *file = status >= 0 ? path_file(directory_fd, path) : NULL;
  if (file)
    record_meta(file, STATS, start_s);
  return status;
}

#define TRACED_PATH_STAT(name, directory_fd, parameters, arguments)                    \
  int name parameters {                                                                \
    double start_s = call_start();                                                     \
    return (int)path_status(directory_fd, path, REAL(name) arguments, start_s);        \
  }

/* Other calls that ask for a name, in a command only: Darshan does not see them. */
#define TRACED_LOOK_UP(type, name, directory_fd, parameters, arguments)                \
  type name parameters {                                                               \
    if (LIKELY(!*events_path))                                                         \
      return REAL(name) arguments;                                                     \
    double start_s = call_start();                                                     \
    return (type)path_status(directory_fd, path, REAL(name) arguments, start_s);       \
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

ssize_t __readlink_chk(const char *path, char *target, size_t bytes, size_t size);
ssize_t __readlinkat_chk(int fd, const char *path, char *target, size_t bytes,
                         size_t size);

#ifdef STATX_BASIC_STATS /* not of glibc before 2.28 */
TRACED_LOOK_UP(int, statx, fd,
               (int fd, const char *path, int flags, unsigned mask, struct statx *info),
               (fd, path, flags, mask, info))
#endif
TRACED_LOOK_UP(int, access, AT_FDCWD, (const char *path, int mode), (path, mode))
TRACED_LOOK_UP(int, eaccess, AT_FDCWD, (const char *path, int mode), (path, mode))
TRACED_LOOK_UP(int, euidaccess, AT_FDCWD, (const char *path, int mode), (path, mode))
TRACED_LOOK_UP(int, faccessat, fd, (int fd, const char *path, int mode, int flags),
               (fd, path, mode, flags))
TRACED_LOOK_UP(ssize_t, readlink, AT_FDCWD,
               (const char *path, char *target, size_t bytes), (path, target, bytes))
TRACED_LOOK_UP(ssize_t, readlinkat, fd,
               (int fd, const char *path, char *target, size_t bytes),
               (fd, path, target, bytes))
TRACED_LOOK_UP(ssize_t, __readlink_chk, AT_FDCWD,
               (const char *path, char *target, size_t bytes, size_t size),
               (path, target, bytes, size))
TRACED_LOOK_UP(ssize_t, __readlinkat_chk, fd,
               (int fd, const char *path, char *target, size_t bytes, size_t size),
               (fd, path, target, bytes, size))

/* ---- Wrappers: folders, names -------------------------------------------------- */

/* In a command only: a benchmark's log has no records of folders. */

DIR *opendir(const char *path) {
  double start_s = call_start();
  DIR *directory = REAL(opendir)(path);
  if (LIKELY(!*events_path) || !directory)
    return directory;
  opened(NULL, AT_FDCWD, path, 0, dirfd(directory), start_s);
  return directory;
}

int closedir(DIR *directory) {
  DIR *volatile given = directory; /* else "never NULL", as glibc declares it */
  if (!given) {                    /* dirfd would crash */
    errno = EINVAL;
    return -1;
  }
  int fd = dirfd(directory);
  struct file *file = *events_path ? descriptor_file(fd) : NULL;
  bool is_ours = set_descriptor(fd, NULL);
  double start_s = call_start();
  int status = REAL(closedir)(directory);
  if (file && is_ours && status == 0)
    record_close(file, start_s);
  return status;
}

#define TRACED_READDIR(type, name, parameters, arguments)                              \
  type name parameters {                                                               \
    struct file *file = *events_path ? descriptor_file(dirfd(directory)) : NULL;       \
    if (LIKELY(!file))                                                                 \
      return REAL(name) arguments;                                                     \
    double start_s = now_s();                                                          \
    type result = REAL(name) arguments;                                                \
    record_meta_time(file, start_s);                                                   \
    return result;                                                                     \
  }
/* libc opens, reads and closes the folder inside. */
#define TRACED_SCANDIR(name, folder_fd, parameters, arguments)                         \
  int name parameters {                                                                \
    double start_s = call_start();                                                     \
    int n = REAL(name) arguments;                                                      \
    struct file *file = *events_path && n >= 0 ? path_file(folder_fd, path) : NULL;    \
    if (file)                                                                          \
      record_open(file, 0, false, start_s);                                            \
    return n;                                                                          \
  }
#define TRACED_LISTINGS(suffix, entry)                                                 \
  TRACED_READDIR(entry *, readdir##suffix, (DIR * directory), (directory))             \
  TRACED_READDIR(int, readdir##suffix##_r,                                             \
                 (DIR * directory, entry * one, entry * *next),                        \
                 (directory, one, next))                                               \
  TRACED_SCANDIR(scandir##suffix, AT_FDCWD,                                            \
                 (const char *path, entry ***found, int (*filter)(const entry *),      \
                  int (*order)(const entry **, const entry **)),                       \
                 (path, found, filter, order))                                         \
  TRACED_SCANDIR(scandirat##suffix, fd,                                                \
                 (int fd, const char *path, entry ***found,                            \
                  int (*filter)(const entry *),                                        \
                  int (*order)(const entry **, const entry **)),                       \
                 (fd, path, found, filter, order))

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations" /* readdir_r */
TRACED_LISTINGS(, struct dirent)
TRACED_LISTINGS(64, struct dirent64)
#pragma GCC diagnostic pop

static int renamed(int source_fd, const char *source, int target_fd, const char *target,
                   int status, double start_s) {
  if (LIKELY(!*events_path) || status != 0)
    return status;
  struct file *source_file = path_file(source_fd, source);
  struct file *target_file = path_file(target_fd, target);
  if (source_file || target_file)
    record_rename(source_file, target_file, start_s);
  return status;
}

int rename(const char *source, const char *target) {
  double start_s = call_start();
  int status = REAL(rename)(source, target);
  return renamed(AT_FDCWD, source, AT_FDCWD, target, status, start_s);
}

int renameat(int source_fd, const char *source, int target_fd, const char *target) {
  double start_s = call_start();
  int status = REAL(renameat)(source_fd, source, target_fd, target);
  return renamed(source_fd, source, target_fd, target, status, start_s);
}

int renameat2(int source_fd, const char *source, int target_fd, const char *target,
              unsigned flags) {
  double start_s = call_start();
  int status = REAL(renameat2)(source_fd, source, target_fd, target, flags);
  return renamed(source_fd, source, target_fd, target, status, start_s);
}

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
