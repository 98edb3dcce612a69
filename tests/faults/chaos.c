/* Does something at the n-th open, write or rename below folders, whatever process
   calls; preloaded. CHAOS names a file, which all processes map, with what to do. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum { OPEN, WRITE, RENAME, N_OPS };
enum { NOTHING, FAIL, KILL, KILL_STARTER, TERMINATE_STARTER, HALT, TEAR };

/* As `chaos.py` writes it. */
static struct plan {
  int64_t calls[N_OPS];
  int64_t op, nth, action, error, goes_on, starter, fired;
  char folders[2][1024];
  char where[1024];
} *plan;

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

__attribute__((constructor)) static void begin(void) {
  const char *path = getenv("CHAOS");
  int fd = path ? REAL(open)(path, O_RDWR | O_CLOEXEC) : -1;
  if (fd < 0)
    return;
  plan = mmap(0, sizeof *plan, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (plan == MAP_FAILED)
    plan = 0;
  close(fd);
}

/* What to do at this call; it is done here, unless it fails or tears the call. */
static int action_at(int op, const char *path) {
  int64_t number;
  for (int i = 0; strncmp(path, plan->folders[i], strlen(plan->folders[i])); i++)
    if (i == 1)
      return NOTHING;
  number = __atomic_add_fetch(&plan->calls[op], 1, __ATOMIC_SEQ_CST);
  if (op != plan->op || number < plan->nth || (number > plan->nth && !plan->goes_on))
    return NOTHING;
  if (!__atomic_exchange_n(&plan->fired, 1, __ATOMIC_SEQ_CST))
    strncpy(plan->where, path, sizeof plan->where - 1);
  if (plan->action == KILL)
    kill(getpid(), SIGKILL);
  if (plan->action == KILL_STARTER || plan->action == TERMINATE_STARTER)
    kill(plan->starter, plan->action == KILL_STARTER ? SIGKILL : SIGTERM);
  while (plan->action == HALT) /* who looks kills all that run */
    pause();
  errno = plan->error;
  return plan->action;
}

static int action_of(int op, int dir, const char *path) {
  char link[64], whole[2048], real[4096];
  ssize_t n;
  if (!plan)
    return NOTHING;
  if (path && *path == '/')
    return action_at(op, path);
  snprintf(link, sizeof link, "/proc/self/fd/%d", dir);
  n = readlink(dir == AT_FDCWD ? "/proc/self/cwd" : link, whole, sizeof whole - 1);
  if (n < 0)
    return NOTHING;
  whole[n] = 0;
  snprintf(real, sizeof real, path ? "%s/%s" : "%s", whole, path);
  return action_at(op, real);
}

#define OPENS(name, given, dir, named)                                                 \
  int name given {                                                                     \
    va_list rest;                                                                      \
    va_start(rest, flags);                                                             \
    mode_t mode = va_arg(rest, mode_t);                                                \
    va_end(rest);                                                                      \
    return action_of(OPEN, dir, p) == FAIL ? -1 : REAL(name) named;                    \
  }
OPENS(open, (const char *p, int flags, ...), AT_FDCWD, (p, flags, mode))
OPENS(open64, (const char *p, int flags, ...), AT_FDCWD, (p, flags, mode))
OPENS(openat, (int d, const char *p, int flags, ...), d, (d, p, flags, mode))
OPENS(openat64, (int d, const char *p, int flags, ...), d, (d, p, flags, mode))

int rename(const char *a, const char *b) {
  return action_of(RENAME, AT_FDCWD, b) == FAIL ? -1 : REAL(rename)(a, b);
}
int renameat(int d, const char *a, int e, const char *b) {
  return action_of(RENAME, e, b) == FAIL ? -1 : REAL(renameat)(d, a, e, b);
}

/* A torn write puts half of its bytes into the file, and nothing follows. */
#define WRITES(name, given, named, half)                                               \
  ssize_t name given {                                                                 \
    int action = action_of(WRITE, fd, 0);                                              \
    if (action == TEAR) {                                                              \
      half;                                                                            \
      while (1)                                                                        \
        pause();                                                                       \
    }                                                                                  \
    return action == FAIL ? -1 : REAL(name) named;                                     \
  }
WRITES(write, (int fd, const void *b, size_t n), (fd, b, n), REAL(write)(fd, b, n / 2))
WRITES(pwrite, (int fd, const void *b, size_t n, off_t o), (fd, b, n, o),
       REAL(pwrite)(fd, b, n / 2, o))
WRITES(pwrite64, (int fd, const void *b, size_t n, off64_t o), (fd, b, n, o),
       REAL(pwrite64)(fd, b, n / 2, o))
WRITES(writev, (int fd, const struct iovec *v, int n), (fd, v, n),
       REAL(writev)(fd, v, n / 2))
