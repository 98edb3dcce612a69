/* What our preload libraries share; see preload.h. */
#include "preload.h"

#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

meaning *_Atomic descriptor_leaves[N_LEAVES];

/* Replaces a function that this C library does not have. */
static long missing_function(void) {
  errno = ENOSYS;
  return -1;
}

void *find_next(void *_Atomic *found, const char *name) {
  void *function = dlsym(RTLD_NEXT, name);
  return *found = function ? function : (void *)missing_function;
}

void *map_anonymous(void *wanted, size_t bytes, int protection, int flags, int fd) {
  return (void *)syscall(SYS_mmap, wanted, bytes, protection, flags, fd, 0L);
}

void *map_memory(size_t bytes, int flags) {
  int saved_errno = errno;
  void *memory = map_anonymous(NULL, bytes, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS | flags, -1);
  errno = saved_errno;
  return memory == MAP_FAILED ? NULL : memory;
}

meaning *make_slot(int fd) {
  meaning *slot = slot_of(fd), *none = NULL;
  if (slot || fd < 0 || fd >> LEAF_BITS >= N_LEAVES)
    return slot;
  meaning *leaf = map_memory(LEAF_SLOTS * sizeof *leaf, 0);
  if (!leaf)
    return NULL;
  if (!atomic_compare_exchange_strong(&descriptor_leaves[fd >> LEAF_BITS], &none, leaf))
    munmap(leaf, LEAF_SLOTS * sizeof *leaf); /* another thread was faster */
  return slot_of(fd);
}

void forget_slots(unsigned first, unsigned last) {
  for (unsigned i = first >> LEAF_BITS; i <= last >> LEAF_BITS && i < N_LEAVES; i++) {
    meaning *leaf = descriptor_leaves[i];
    for (unsigned slot = 0; leaf && slot < LEAF_SLOTS; slot++) {
      unsigned fd = (i << LEAF_BITS) + slot;
      if (leaf[slot] && fd >= first && fd <= last)
        leaf[slot] = 0;
    }
  }
}

bool folder_of(int directory_fd, char *path, size_t bytes) {
  char link[64];
  if (directory_fd == AT_FDCWD)
    return REAL(getcwd)(path, bytes) != NULL;
  snprintf(link, sizeof link, "/proc/self/fd/%d", directory_fd);
  ssize_t length = REAL(readlink)(link, path, bytes);
  if (length < 0 || (size_t)length >= bytes)
    return false;
  path[length] = '\0';
  return true;
}

size_t add_component(char *path, size_t end, const char *component, size_t length) {
  if (length == 2 && memcmp(component, "..", 2) == 0) {
    while (end > 0 && path[--end] != '/')
      continue;
  } else if (length > 0 && !(length == 1 && *component == '.')) {
    path[end++] = '/';
    memmove(path + end, component, length);
    end += length;
  }
  return end;
}

static struct stat stderr_at_start;
static bool has_stderr, has_looked;

__attribute__((constructor)) static void look_at_stderr(void) {
  if (!has_looked)
    has_stderr = syscall(SYS_fstat, STDERR_FILENO, &stderr_at_start) == 0;
  has_looked = true;
}

void say_last(const char *format, ...) {
  char line[1024];
  struct stat now;
  sigset_t limits;
  va_list values;
  va_start(values, format);
  int length = vsnprintf(line, sizeof line - 1, format, values);
  va_end(values);
  size_t end = length < (int)sizeof line - 1 ? (size_t)length : sizeof line - 2;
  line[end++] = '\n';
  look_at_stderr();
  if (!has_stderr || syscall(SYS_fstat, STDERR_FILENO, &now) != 0 ||
      now.st_dev != stderr_at_start.st_dev || now.st_ino != stderr_at_start.st_ino)
    return;
  sigemptyset(&limits);
  sigaddset(&limits, SIGPIPE);
  sigaddset(&limits, SIGXFSZ);
  sigprocmask(SIG_BLOCK, &limits, NULL);
  syscall(SYS_write, STDERR_FILENO, line, end);
}

void read_text(const char *path, char *text, size_t bytes) {
  ssize_t length = -1;
  int saved_errno = errno;
  int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
  if (fd >= 0) {
    length = syscall(SYS_read, fd, text, bytes - 1);
    syscall(SYS_close, fd);
  }
  errno = saved_errno;
  length = length < 0 ? 0 : length;
  for (ssize_t i = 0; i < length; i++)
    if (text[i] == '\0' || text[i] == '\n')
      text[i] = ' ';
  text[length] = '\0';
}

/* The 4th and 22nd field of its stat; the second may hold spaces, and ends with `)`. */
bool read_start(pid_t process, unsigned long long *ticks, pid_t *parent) {
  char path[64], text[1024];
  snprintf(path, sizeof path, "/proc/%d/stat", (int)process);
  read_text(path, text, sizeof text);
  const char *field = strrchr(text, ')');
  for (int i = 3; field && i <= 22; i++) {
    field = strchr(field + 1, ' ');
    if (field && i == 4)
      *parent = atoi(field + 1);
  }
  *ticks = field ? strtoull(field + 1, NULL, 10) : 0;
  return field != NULL;
}

void read_rank(char text[RANK_BYTES]) {
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
