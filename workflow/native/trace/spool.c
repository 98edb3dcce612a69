/* The spool: a file that is mapped into the process and holds its records. */
#include "trace.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

struct spool spool = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* What Darshan writes for a counter that it does not monitor; the first three are
 * monitored in a command. */
static const enum counter unmonitored[] = {
    MMAPS,         RENAME_SOURCES,    RENAME_TARGETS,    FILENOS,
    MEM_ALIGNMENT, MEM_NOT_ALIGNED,   FILE_ALIGNMENT,    FILE_NOT_ALIGNED,
    STRIDE1_COUNT, STRIDE1_COUNT + 1, STRIDE1_COUNT + 2, STRIDE1_COUNT + 3};
enum { N_MONITORED_IN_COMMAND = 3 };

void become_quiet(struct quiet *held) {
  sigset_t pending, size_limit;
  sigemptyset(&size_limit);
  sigaddset(&size_limit, SIGXFSZ);
  pthread_sigmask(SIG_BLOCK, &size_limit, &held->before);
  held->was_pending = sigpending(&pending) == 0 && sigismember(&pending, SIGXFSZ) == 1;
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &held->cancel_state);
}

void end_quiet(const struct quiet *held) {
  sigset_t size_limit;
  sigemptyset(&size_limit);
  sigaddset(&size_limit, SIGXFSZ);
  if (!held->was_pending)
    while (sigtimedwait(&size_limit, NULL, &(struct timespec){0, 0}) == SIGXFSZ)
      ;
  pthread_sigmask(SIG_SETMASK, &held->before, NULL);
  pthread_setcancelstate(held->cancel_state, NULL);
}

/* Notes once per spool, in the spool or as an empty file, that calls are being lost. */
void report_loss(const struct run *run, int error) {
  if (spool.error)
    return;
  if (error != EMFILE && error != ENFILE) /* the next call may have a descriptor */
    spool.error = error;
  if (spool.header) {
    spool.header->incomplete = (uint32_t)error;
    return;
  }
  char marker[PATH_BYTES];
  snprintf(marker, sizeof marker, "%s/rank-%05d.%d.%d.incomplete", run->spool_dir,
           run->rank, (int)process_id, error);
  struct quiet held;
  become_quiet(&held);
  int fd = REAL(open)(marker, O_WRONLY | O_CREAT | O_EXCL | UNTRUSTED, 0644);
  if (fd >= 0)
    REAL(close)(fd);
  end_quiet(&held);
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

/* Whether this is the file that was opened first; returns 0 or an errno. */
static int check_same(int fd) {
  struct stat file;
  if (REAL(fstat)(fd, &file) != 0)
    return errno;
  if (spool.n_segments == 0) {
    spool.device = file.st_dev;
    spool.inode = file.st_ino;
  }
  return file.st_dev == spool.device && file.st_ino == spool.inode ? 0 : ESTALE;
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
  struct quiet held;
  become_quiet(&held);
  int fd = REAL(open)(spool.path, O_RDWR | UNTRUSTED | open_flags, 0644);
  if (fd < 0) {
    *error = errno;
    end_quiet(&held);
    return NULL;
  }
  *error = check_same(fd);
  if (*error == 0)
    *error = posix_fallocate(fd, (off_t)spool.file_bytes, (off_t)bytes);
  if (*error == 0)
    *error = write_zeros(fd, (off_t)spool.file_bytes, bytes);
  if (*error == 0) {
    map = REAL(mmap)(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
                     (off_t)spool.file_bytes);
    if (map == MAP_FAILED)
      *error = errno;
  }
  REAL(close)(fd);
  end_quiet(&held);
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
    snprintf(spool.path, sizeof spool.path, "%s/rank-%05d.%d.%d.spool", run->spool_dir,
             run->rank, (int)process_id, serial);
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
                                        .used_bytes = HEADER_BYTES,
                                        .device_bytes = device_bytes()};
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

struct posix_record *add_record(const struct run *run, const struct file *file) {
  int saved_errno = errno;
  pthread_mutex_lock(&spool.lock);
  struct posix_record *record = append_record(run, file);
  pthread_mutex_unlock(&spool.lock);
  errno = saved_errno;
  return record;
}

/* Forgets the spool. The caller has removed its records from all files. */
void leave_spool(void) {
  for (size_t i = 0; i < spool.n_segments; i++)
    munmap(spool.segments[i].iov_base, spool.segments[i].iov_len);
  spool.n_segments = 0;
  spool.header = NULL;
  spool.next = spool.end = NULL;
  spool.file_bytes = 0;
  spool.error = 0;
  *spool.path = '\0';
}

void note_loss(int error) {
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
