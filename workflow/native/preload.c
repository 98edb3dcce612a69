/* What our preload libraries share; see preload.h. */
#include "preload.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
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
