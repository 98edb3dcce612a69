/*
 * Preload tracer: per-file counters with the semantics of Darshan's POSIX module.
 *
 * For machines without a Darshan runtime. Every process keeps one 704-byte Darshan
 * record per path below the given prefixes. The records live in a spool file that
 * is mapped shared, so all counts survive _exit, SIGKILL and crashes.
 * tierscope.trace.spool turns the spools of a run into one .darshan log.
 *
 *   cc -O2 -fexceptions -shared -fPIC -pthread -o libtierscope_trace.so \
 *     preload.c and all sources here, -ldl
 *
 * Tracing starts with tierscope_trace_begin(), or when the library is loaded if the
 * environment holds TIERSCOPE_TRACE_SPOOL, _RANK and _PREFIXES, which begin() sets
 * for the programs that the process starts. `tierscope trace` also sets _EXCLUDED, the
 * prefixes of paths that are not traced unless a longer one of _PREFIXES matches, and
 * _PROCESSES: then the spools of a host are in a folder of its name, in which a file
 * tells what processes there were (tierscope.logs.traced.processes reads it). A sweep
 * of a program also sets _OTHERS, its folder in the node's memory (others.c). A
 * benchmark's run counts what its audit knows, a command also streams of libc,
 * listings, look-ups, copies by the kernel, mappings and what it has inherited.
 *
 * The program must not notice: no message goes to its descriptors, errno stays as its
 * own call has set it, and no signal comes from a limit that our files reach.
 *
 * Locks: `files.lock` guards the table of paths and begin/end; each file's lock
 * guards its record; `spool.lock` guards the spool's growth. The order is
 * files.lock, a file's lock, spool.lock; no wrapped call runs under a lock.
 *
 * Signals: a handler may make traced calls. If it interrupts its thread while the
 * thread holds a lock, its call is made but not recorded, and the trace is marked as
 * incomplete. No code in a call uses malloc, which a handler may have interrupted.
 */
#include "trace.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

const struct run *_Atomic current_run;
pid_t process_id;
_Thread_local volatile bool is_busy __attribute__((tls_model("initial-exec")));
volatile bool has_missed_calls;

/* Ends the current run, if any; the caller holds files.lock. */
static int stop(void) {
  const struct run *run = current_run;
  current_run = NULL; /* from here on, no call finds a record */
  forget_slots(0, INT_MAX);
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

/*
 * Writes the name by which an open file is traced, if it is. Names of open files stand
 * resolved in /proc, so here, and only here, the resolved form of a prefix counts, too.
 */
static bool name_open_file(const struct run *run, const char *resolved, char *name,
                           size_t bytes) {
  static char prefix[PATH_BYTES];
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
  static char path[PATH_BYTES], name[PATH_BYTES]; /* the stack may be small */
  char link[64];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t length = REAL(readlink)(link, path, sizeof path - 1);
  if (length <= 0 || *path != '/')
    return;
  path[length] = '\0';
  size_t without = (size_t)length - (sizeof gone - 1);
  if ((size_t)length >= sizeof gone && strcmp(path + without, gone) == 0 &&
      REAL(access)(path, F_OK) != 0)
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
  watch_processes();
  const char *spool_dir = getenv("TIERSCOPE_TRACE_SPOOL");
  const char *rank = getenv("TIERSCOPE_TRACE_RANK");
  const char *prefixes = getenv("TIERSCOPE_TRACE_PREFIXES");
  if (!spool_dir || !rank || !prefixes)
    return;
  const char *excluded = getenv("TIERSCOPE_TRACE_EXCLUDED");
  int saved_errno = errno;
  static char folder[PATH_BYTES];
  if (getenv("TIERSCOPE_TRACE_PROCESSES")) {
    if (!enter_host_folder(spool_dir, folder, sizeof folder))
      return;
    spool_dir = folder;
    find_libraries();
  }
  note_start();
  int error = start(spool_dir, atoi(rank), prefixes, excluded ? excluded : "");
  count_others_from_now_on();
  if (error)
    note_event("loss", strerror(error));
  else if (*events_path)
    adopt_descriptors();
  errno = saved_errno;
}

__attribute__((destructor)) static void finish(void) {
  if (!*events_path || getpid() != process_id)
    return;
  count_standard_streams();
  note_end();
}
