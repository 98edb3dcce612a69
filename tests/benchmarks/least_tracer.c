/*
 * The least that any tracer of this kind does, to find its floor: it knows a file by
 * its path, reads the clock before and after each call, and adds time, calls and bytes
 * to a record in a mapped file, which outlives the process. Nothing else: no threads,
 * no forks, no other calls, none of Darshan's other counters.
 *
 * TIERSCOPE_TRACE_SPOOL: a folder. TIERSCOPE_TRACE_PREFIXES: one prefix of paths.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { N_SLOTS = 1 << 14, N_DESCRIPTORS = 1024 };

typedef struct {
  uint64_t id, opens, reads, bytes;
  double read_s, meta_s;
  char path[80];
} Record;

static int (*real_open)(const char *, int, ...);
static ssize_t (*real_pread)(int, void *, size_t, off_t);
static int (*real_close)(int);
static Record *records, *of_slot[N_SLOTS], *of_descriptor[N_DESCRIPTORS];
static size_t n_records;
static const char *prefix;
static size_t prefix_length;

__attribute__((constructor)) static void start(void) {
  char path[4096];
  const char *folder = getenv("TIERSCOPE_TRACE_SPOOL");
  real_open = dlsym(RTLD_NEXT, "open");
  real_pread = dlsym(RTLD_NEXT, "pread");
  real_close = dlsym(RTLD_NEXT, "close");
  prefix = getenv("TIERSCOPE_TRACE_PREFIXES");
  if (!folder || !prefix)
    return;
  prefix_length = strlen(prefix);
  snprintf(path, sizeof path, "%s/0.spool", folder);
  int spool = real_open(path, O_RDWR | O_CREAT, 0600);
  size_t n_bytes = N_SLOTS * sizeof *records;
  if (spool < 0 || ftruncate(spool, n_bytes))
    return;
  int flags = MAP_SHARED | MAP_POPULATE; // so that no file pays for a page
  void *mapped = mmap(NULL, n_bytes, PROT_READ | PROT_WRITE, flags, spool, 0);
  records = mapped == MAP_FAILED ? NULL : mapped;
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec + time.tv_nsec * 1e-9;
}

static Record *record_of(const char *path) {
  uint64_t id = 14695981039346656037u;
  for (const char *sign = path; *sign; sign++)
    id = (id ^ (unsigned char)*sign) * 1099511628211u;
  for (size_t slot = id % N_SLOTS;; slot = (slot + 1) % N_SLOTS) {
    if (!of_slot[slot]) {
      of_slot[slot] = &records[n_records++];
      of_slot[slot]->id = id;
      strncpy(of_slot[slot]->path, path, sizeof of_slot[slot]->path - 1);
    }
    if (of_slot[slot]->id == id)
      return of_slot[slot];
  }
}

int open(const char *path, int flags, ...) {
  if (!records || strncmp(path, prefix, prefix_length))
    return real_open(path, flags, 0666);
  double before = now();
  int descriptor = real_open(path, flags, 0666);
  double after = now();
  if (descriptor >= 0 && descriptor < N_DESCRIPTORS) {
    Record *record = of_descriptor[descriptor] = record_of(path);
    record->opens++;
    record->meta_s += after - before;
  }
  return descriptor;
}

ssize_t pread(int descriptor, void *buffer, size_t size, off_t offset) {
  Record *record = descriptor < N_DESCRIPTORS ? of_descriptor[descriptor] : NULL;
  if (!record)
    return real_pread(descriptor, buffer, size, offset);
  double before = now();
  ssize_t n_bytes = real_pread(descriptor, buffer, size, offset);
  record->read_s += now() - before;
  record->reads++;
  record->bytes += n_bytes > 0 ? n_bytes : 0;
  return n_bytes;
}

int close(int descriptor) {
  Record *record = descriptor < N_DESCRIPTORS ? of_descriptor[descriptor] : NULL;
  if (!record)
    return real_close(descriptor);
  of_descriptor[descriptor] = NULL;
  double before = now();
  int status = real_close(descriptor);
  record->meta_s += now() - before;
  return status;
}
