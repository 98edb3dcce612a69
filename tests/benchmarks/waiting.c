/*
 * Files on which calls really wait: what emulated devices in virtual time are held
 * against (emulation.py). Processes that preload this library share two queues, one for
 * opens and one for reads, each with a fixed service time:
 *
 *     WAITING_PREFIX                    what the paths of these files begin with
 *     WAITING_STATE                     a file of zeros, at least as long as the
 * queues; after that each queue says how often it was waited in, and for how many bytes
 *     WAITING_OPEN_NS, WAITING_READ_NS  service times, in whole nanoseconds
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S 1000000000LL
#define MOST_DESCRIPTORS 65536
#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

struct queue {
  _Atomic int64_t free_at_ns, n_waits, n_bytes;
};

static struct queue *opens, *reads; /* NULL: nothing waits */
static int64_t open_ns, read_ns;
static const char *prefix;
static _Atomic bool is_ours[MOST_DESCRIPTORS];

static const char *setting(const char *name) {
  const char *value = getenv(name);
  if (value)
    return value;
  dprintf(STDERR_FILENO, "waiting.c: %s is not set\n", name);
  _exit(2);
}

__attribute__((constructor)) static void set_up(void) {
  prefix = setting("WAITING_PREFIX");
  open_ns = atoll(setting("WAITING_OPEN_NS"));
  read_ns = atoll(setting("WAITING_READ_NS"));
  int fd = NEXT(open)(setting("WAITING_STATE"), O_RDWR | O_CLOEXEC);
  struct queue *queues =
      mmap(NULL, 2 * sizeof *queues, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (queues == MAP_FAILED) {
    perror("waiting.c: WAITING_STATE");
    _exit(2);
  }
  NEXT(close)(fd);
  reads = queues + 1;
  opens = queues;
}

/* Join a queue, wait until the service ends, and count it. */
static void serve(struct queue *queue, int64_t service_ns, int64_t bytes) {
  static __thread bool is_precise;
  if (!is_precise)
    prctl(PR_SET_TIMERSLACK, 1UL); /* the default lets the kernel add 50 us */
  is_precise = true;
  int saved_errno = errno;
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  int64_t arrival = now.tv_sec * NS_PER_S + now.tv_nsec, end;
  int64_t free_at = atomic_load(&queue->free_at_ns);
  do
    end = (free_at > arrival ? free_at : arrival) + service_ns;
  while (!atomic_compare_exchange_weak(&queue->free_at_ns, &free_at, end));
  struct timespec until = {end / NS_PER_S, end % NS_PER_S};
  int error;
  while ((error = clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL)))
    if (error != EINTR) {
      dprintf(STDERR_FILENO, "waiting.c: cannot sleep: %s\n", strerror(error));
      _exit(2);
    }
  queue->n_waits++;
  queue->n_bytes += bytes;
  errno = saved_errno;
}

static int after_open(int fd, const char *path) {
  if (fd < 0 || fd >= MOST_DESCRIPTORS || !opens)
    return fd;
  is_ours[fd] = strncmp(path, prefix, strlen(prefix)) == 0;
  if (is_ours[fd] && open_ns)
    serve(opens, open_ns, 0);
  return fd;
}

static ssize_t after_read(int fd, ssize_t bytes) {
  if (bytes > 0 && fd < MOST_DESCRIPTORS && is_ours[fd] && read_ns)
    serve(reads, read_ns, bytes);
  return bytes;
}

/* The mode is an argument of calls that make a file only; to others it is nothing. */
#define OPEN(name, parameters, ...)                                                    \
  int name parameters {                                                                \
    va_list arguments;                                                                 \
    va_start(arguments, flags);                                                        \
    mode_t mode = va_arg(arguments, mode_t);                                           \
    va_end(arguments);                                                                 \
    return after_open(NEXT(name)(__VA_ARGS__), path);                                  \
  }

OPEN(open, (const char *path, int flags, ...), path, flags, mode)
OPEN(open64, (const char *path, int flags, ...), path, flags, mode)
OPEN(openat, (int at, const char *path, int flags, ...), at, path, flags, mode)
OPEN(openat64, (int at, const char *path, int flags, ...), at, path, flags, mode)

#define READ(name, parameters, ...)                                                    \
  ssize_t name parameters { return after_read(fd, NEXT(name)(__VA_ARGS__)); }

READ(read, (int fd, void *buffer, size_t bytes), fd, buffer, bytes)
READ(pread, (int fd, void *buffer, size_t bytes, off_t at), fd, buffer, bytes, at)
READ(pread64, (int fd, void *buffer, size_t bytes, off64_t at), fd, buffer, bytes, at)
READ(readv, (int fd, const struct iovec *parts, int n), fd, parts, n)
READ(preadv, (int fd, const struct iovec *parts, int n, off_t at), fd, parts, n, at)
READ(preadv64, (int fd, const struct iovec *parts, int n, off64_t at), fd, parts, n, at)
READ(preadv2, (int fd, const struct iovec *parts, int n, off_t at, int flags), fd,
     parts, n, at, flags)
READ(preadv64v2, (int fd, const struct iovec *parts, int n, off64_t at, int flags), fd,
     parts, n, at, flags)

int close(int fd) {
  if (fd >= 0 && fd < MOST_DESCRIPTORS)
    is_ours[fd] = false;
  return NEXT(close)(fd);
}
