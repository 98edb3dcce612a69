/* The preload tracer: its records, its state, and what its parts ask of each other. */
#ifndef TIERSCOPE_TRACE_H
#define TIERSCOPE_TRACE_H

#include "../preload.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/uio.h>
#include <time.h>

#pragma GCC visibility push(hidden)

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

/* ---- The spool's layout, read by tierscope.trace.spool ------------------------ */

#define SPOOL_MAGIC "tierscope-trace"
#define SPOOL_VERSION 4
#define HEADER_BYTES 4096
#define FIRST_SEGMENT_BYTES (256u << 10)
#define LARGEST_SEGMENT_BYTES (4u << 20)
#define LARGEST_BLOCK_BYTES (1u << 20)
#define N_SEGMENTS 4096                 /* of 4 MiB: more than 20 million records */
#define PATH_BYTES (2 * PATH_MAX)       /* of a spool */
#define LONG_PATH_BYTES (16 * PATH_MAX) /* of a file */

/* Flags for names in folders to which others may write: no link, no wait for a pipe. */
#define UNTRUSTED (O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)

/* What became of a call of posix_fadvise by which a program lets pages be dropped. */
enum drop { DROP_MADE, DROP_FAILED, DROP_SWALLOWED, N_DROPS };

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
  int64_t device_bytes;  /* that this process had read of devices before */
  uint64_t drops[N_DROPS];
};

/*
 * A record and its path; path_bytes 0 fills the rest of a segment. Before the path of a
 * file that the program uses as a stream of libc stands STREAM_MARK. Its record counts
 * calls on the stream: DUPS those of fdopen, FSYNCS those of fflush.
 */
#define STREAM_MARK '\1'
/* Before the name of a sum of calls on files of no tier (others.c). */
#define OTHER_MARK '\2'
struct spool_entry {
  uint32_t bytes;
  uint32_t path_bytes;
  struct posix_record record;
  char path[];
};

/* ---- State --------------------------------------------------------------------- */

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

/* What a call on a file of no tier does. */
enum other { OTHER_READ, OTHER_WRITE, OTHER_FSYNC, OTHER_META, OTHER_MAP, N_OTHERS };

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
  struct file *mount; /* of a file of no tier: its calls count to this one, too */
  bool has_no_record; /* they count only so: a mount, and streams on it */
  char path[];
};

extern const struct run *_Atomic current_run;
extern pid_t process_id;

/* The hash stands beside the pointer, so files of other paths are not accessed. */
struct file_slot {
  uint64_t hash;
  struct file *file; /* NULL: the slot is free */
};

extern struct files {
  pthread_mutex_t lock;
  struct file_slot *slots; /* open addressing; the capacity is a power of two */
  size_t capacity;
  size_t count;
} files;

extern struct spool {
  pthread_mutex_t lock;
  char path[PATH_BYTES];
  struct spool_header *header;
  char *next, *end; /* free part of the last segment */
  uint64_t file_bytes;
  dev_t device; /* with the inode: which file it is */
  ino_t inode;
  struct iovec segments[N_SEGMENTS]; /* what is mapped */
  size_t n_segments;
  int error; /* why calls could not be recorded: an errno, or 0 */
} spool;

/* ---- Signals: locks that a handler must not wait for --------------------------- */

/* Whether this thread holds a lock of ours, or is about to take or release one. */
extern _Thread_local volatile bool is_busy __attribute__((tls_model("initial-exec")));
extern volatile bool has_missed_calls; /* of signal handlers */

void note_loss(int error);

/* False if a signal handler has interrupted its thread at a lock: it must not wait. */
static inline bool become_busy(void) {
  if (is_busy) {
    has_missed_calls = true;
    if (spool.header) /* at once: the handler may never return to its thread */
      spool.header->incomplete = EDEADLK;
    return false;
  }
  is_busy = true;
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  return true;
}

static inline void become_free(void) {
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  is_busy = false;
  if (__builtin_expect(has_missed_calls, false)) {
    has_missed_calls = false;
    note_loss(EDEADLK);
  }
}

/*
 * From the emulated devices, if they are loaded: begin and end of the last call of this
 * thread in virtual time, in nanoseconds since the run began. False without virtual
 * time.
 */
extern bool tierscope_clock_call(int64_t *start_ns, int64_t *end_ns)
    __attribute__((weak, visibility("default")));

static inline double now_s(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec + time.tv_nsec * 1e-9;
}

/* Start of a call on a path; 0 spares the clock while nothing is traced. */
static inline double call_start(void) { return current_run ? now_s() : 0; }

/* ---- processes.c: what `tierscope trace` wants to know of each process ---------- */

extern char events_path[PATH_BYTES]; /* empty: nobody asks, a benchmark's run */

struct quiet;
int open_events(struct quiet *held);
void append_event(int fd, const char *event, const char *detail);
void close_events(int fd, const struct quiet *held);
void note_event(const char *event, const char *detail);
void note_start(void);
void note_end(void);
bool enter_host_folder(const char *spool_dir, char *folder, size_t bytes);
void watch_processes(void);
/* Whether this may be a child that uses its parent's memory, as that of vfork does. */
bool is_child_in_memory(void);
/* What block devices have read for this process so far, without its children. */
int64_t device_bytes(void);

/* ---- libraries.c: foreign libraries ---------------------------------------------- */

/* libc's own functions; NULL: unknown. */
extern void *libc_posix_fadvise, *libc_posix_fadvise64;

void find_libraries(void);
void note_libraries(void);

/* 0 in a child of which no handler of forks knows: of clone, _Fork or a system call. */
extern const volatile int *fork_mark;
void become_child(void);

/* ---- spool.c: where records lie ------------------------------------------------- */

/*
 * Around our own calls of the system: a limit of the size of files that one of ours
 * reaches must not end the program, and its thread must not be cancelled in them.
 */
struct quiet {
  sigset_t before;
  bool was_pending;
  int cancel_state;
};

void become_quiet(struct quiet *held);
void end_quiet(const struct quiet *held);
void report_loss(const struct run *run, int error);
struct posix_record *add_record(const struct run *run, const struct file *file);
void leave_spool(void);

/* ---- files.c: paths and descriptors --------------------------------------------- */

void *allocate(size_t bytes);
bool is_traced(const struct run *run, const char *path);
void normalise(char *path);
struct file *named_file(const char *path);
struct file *path_file(int directory_fd, const char *path);
struct file *file_to_open(const char *path);
bool set_descriptor(int fd, struct file *file);

/* The meaning of a descriptor that is of no file at all, such as a pipe. */
#define NO_FILE ((struct file *)1)

static inline struct file *descriptor_file(int fd) {
  meaning *slot = slot_of(fd);
  struct file *file = slot ? (struct file *)*slot : NULL;
  return file == NO_FILE ? NULL : file;
}

/* ---- others.c: files of no tier ------------------------------------------------- */

extern bool counts_others;

void count_others_from_now_on(void);
bool lies_in_memory(const struct file *file);
struct file *other_file(int fd);
struct file *note_opened(int fd, struct file *file, const char *path);
void record_other_path(int directory_fd, const char *path, double start_s);
struct file *sum_of(const struct file *mount, enum other call);
void note_mapping(struct file *file, const void *start, size_t bytes);
struct file *mapped_file(const void *address);

/* The file of a descriptor that a call uses. */
static inline struct file *used_file(int fd) {
  meaning *slot = slot_of(fd);
  uintptr_t means = slot ? *slot : 0;
  if (LIKELY(means > (uintptr_t)NO_FILE))
    return (struct file *)means;
  return LIKELY(means || !counts_others) ? NULL : other_file(fd);
}

/* ---- record.c: calls that have ended -------------------------------------------- */

void record_open(struct file *file, int64_t mode, bool duplicate, double start_s);
void record_close(struct file *file, double start_s);
void record_meta(struct file *file, enum counter counter, double start_s);
void record_meta_time(struct file *file, double start_s);
void record_other_mapping(const struct file *file, uint64_t bytes);
void record_mapping(struct file *file, uint64_t bytes);
void record_drop(struct file *file, enum drop outcome);
void record_rename(struct file *source, struct file *target, double start_s);
void record_seek(struct file *file, int64_t offset, double start_s);
void record_flush(struct file *file, enum counter counter, double start_s);
void record_transfer(struct file *file, enum lane lane, int64_t offset, int64_t bytes,
                     double start_s);
void forget_records(void);

/*
 * Also of _FORTIFY_SOURCE: the last argument is the size of the caller's buffer. libc
 * ends the program if it is too small, with its own message.
 */
#pragma GCC visibility push(default)
__attribute__((noreturn)) extern void __chk_fail(void);
#pragma GCC visibility pop

static inline void check_buffer(size_t size, size_t buffer_size) {
  if (size > buffer_size)
    __chk_fail();
}

/* ---- streams.c, asynchronous.c: what lies between calls ---------------------------
 */

void count_standard_streams(void);
void forget_asynchronous_locks(void);

#pragma GCC visibility pop

#endif
