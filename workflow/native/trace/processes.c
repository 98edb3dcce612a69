/*
 * Processes of a command: what `tierscope trace` is told of them, and forks.
 */
#include "trace.h"

#include <dlfcn.h>
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/*
 * What `tierscope trace` wants to know of each process, a line an event:
 * EVENT PID PARENT TICKS TIME_NS RANK DETAIL. TICKS is when the kernel started the
 * process, as PIDs come again; RANK is a variable of its launcher, such as RANK=3, or
 * -.
 */
char events_path[PATH_BYTES];
static unsigned long long process_ticks;

/* Opens the file of events until close_events; -1 if there is none. */
int open_events(struct quiet *held) {
  struct stat file;
  become_quiet(held);
  if (!*events_path)
    return -1;
  int fd = REAL(open)(events_path, O_WRONLY | O_CREAT | O_APPEND | UNTRUSTED, 0644);
  /* Nobody else's file that another user has given this name. */
  bool is_ours = fd >= 0 && REAL(fstat)(fd, &file) == 0 && S_ISREG(file.st_mode) &&
                 file.st_nlink <= 1;
  if (fd < 0 || is_ours)
    return fd;
  REAL(close)(fd);
  return -1;
}

void close_events(int fd, const struct quiet *held) {
  if (fd >= 0)
    REAL(close)(fd);
  end_quiet(held);
}

/* Appends an event; in a single call, so that those of processes do not mix. */
void append_event(int fd, const char *event, const char *detail) {
  if (fd < 0)
    return;
  char rank[RANK_BYTES], head[256];
  struct timespec time;
  read_rank(rank);
  clock_gettime(CLOCK_REALTIME, &time);
  snprintf(head, sizeof head, "%s %d %d %llu %lld %s ", event, (int)process_id,
           (int)getppid(), process_ticks, time.tv_sec * 1000000000LL + time.tv_nsec,
           rank);
  /* A line that a limit has cut must cost its own event only. */
  struct iovec line[] = {
      {"\n", 1}, {head, strlen(head)}, {(char *)detail, strlen(detail)}, {"\n", 1}};
  ssize_t written = REAL(writev)(fd, line, 4);
  (void)written; /* a process without events is not told of, as on a full disk */
}

void note_event(const char *event, const char *detail) {
  if (!*events_path)
    return;
  int saved_errno = errno;
  struct quiet held;
  int fd = open_events(&held);
  append_event(fd, event, detail);
  close_events(fd, &held);
  errno = saved_errno;
}

void note_start(void) {
  char command[3840];
  if (!*events_path)
    return;
  int saved_errno = errno;
  pid_t parent;
  read_start(getpid(), &process_ticks, &parent);
  read_text("/proc/self/cmdline", command, sizeof command);
  note_event("start", command);
  note_libraries();
  errno = saved_errno;
}

int64_t device_bytes(void) {
  enum { BLOCK_BYTES = 512 };
  struct rusage used;
  return getrusage(RUSAGE_SELF, &used) ? 0 : (int64_t)used.ru_inblock * BLOCK_BYTES;
}

/* Not of a child of vfork, which uses its parent's memory. */
void note_end(void) {
  char read[32] = "-"; /* the kernel does not count */
  if (!*events_path || getpid() != process_id)
    return;
  int saved_errno = errno;
  if (REAL(access)("/proc/self/io", F_OK) == 0)
    snprintf(read, sizeof read, "%lld", (long long)device_bytes());
  note_event("end", read);
  errno = saved_errno;
}

/* Makes this host's folder for spools and events; false if that fails. */
bool enter_host_folder(const char *spool_dir, char *folder, size_t bytes) {
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

/* ---- Forks ---------------------------------------------------------------------- */

/*
 * Whether this may be a child that uses its parent's memory. The child of vfork also
 * uses the memory of its parent's thread, which waits until the child has ended. getpid
 * costs as much as the rest of a close, so it is called only after a vfork.
 */
static _Thread_local bool has_vforked __attribute__((tls_model("initial-exec")));
static bool has_cloned; /* a process with this memory; by another call than vfork */

bool is_child_in_memory(void) {
  if (!*fork_mark)
    become_child();
  if (LIKELY(!has_vforked && !has_cloned))
    return false;
  if (getpid() != process_id)
    return true;
  has_vforked = false;
  return false;
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

static int always = 1, *mark = &always;
const volatile int *fork_mark = &always;

/* Lets the kernel tell of forks: a page that is zero in a child. */
static void make_fork_mark(void) {
#ifdef MADV_WIPEONFORK /* Linux 4.14 */
  enum { PAGE_BYTES = 4096 };
  int *page = map_memory(PAGE_BYTES, 0);
  if (!page || madvise(page, PAGE_BYTES, MADV_WIPEONFORK) != 0)
    return;
  *page = 1;
  fork_mark = mark = page;
#endif
}

/* As after_fork_in_child; other threads may have held any lock. */
void become_child(void) {
  *mark = 1;
  process_id = getpid();
  pthread_mutex_init(&files.lock, NULL);
  pthread_mutex_init(&spool.lock, NULL);
  for (size_t i = 0; i < files.capacity; i++)
    if (files.slots[i].file)
      pthread_mutex_init(&files.slots[i].file->lock, NULL);
  forget_asynchronous_locks();
  forget_records();
  leave_spool();
  note_start();
}

/*
 * The child keeps its descriptors' files but counts into its own spool: the previous
 * counts belong to the parent. Threads that do not exist in the child may have held
 * locks.
 */
static void after_fork_in_child(void) {
  *mark = 1;
  process_id = getpid();
  forget_asynchronous_locks();
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

void watch_processes(void) {
  process_id = getpid();
  next_vfork = (pid_t (*)(void))dlsym(RTLD_NEXT, "vfork");
  next_exit = (void (*)(int))dlsym(RTLD_NEXT, "_exit");
  pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
  make_fork_mark();
}

/*
 * The child returns into our caller before the parent does, so we must not use the
 * stack: the compiler must turn the call into a jump, as it does from level 2 on.
 */
__attribute__((optimize("O2"))) pid_t vfork(void) {
  has_vforked = true;
  if (!next_vfork) /* before our constructor */
    next_vfork = (pid_t (*)(void))dlsym(RTLD_NEXT, "vfork");
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
