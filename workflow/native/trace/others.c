/* Calls on files of no tier, such as checkpoints: sums by mount, epoch and thread. */
#include "trace.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * Only for the program of a sweep. A mount is a file without a record of its own. Its
 * calls count to records whose names say what they are sums of, as
 * tierscope.trace.other_time reads them:
 * MARK EPOCH/THREAD/CALL/TYPE:POINT, such as 3/loop/fsync/ext4:/scratch; the epoch is
 * -1 before the first one. Blanks of a mount point are written as the kernel writes
 * them.
 */
bool counts_others;
static char own_folder[PATH_BYTES]; /* of ours in the node's memory */

static const char *const call_names[N_OTHERS] = {"read", "write", "fsync", "other",
                                                 "map"};
static const char *const thread_names[] = {"beside", "main", "loop"};

/* From the library that redirects: what this thread is, and the epoch under way. */
extern int tierscope_thread(int *epoch) __attribute__((weak, visibility("default")));

void count_others_from_now_on(void) {
  const char *folder = getenv("TIERSCOPE_TRACE_OTHERS");
  counts_others = folder && *folder && strlen(folder) < sizeof own_folder &&
                  tierscope_thread && *events_path;
  if (counts_others)
    strcpy(own_folder, folder);
}

/* ---- Mounts -------------------------------------------------------------------- */

/* Known mounts by the devices of their files; never removed. */
enum { N_DEVICES = 256 };
static struct device {
  dev_t number;
  struct file *file; /* NULL: is no storage */
} devices[N_DEVICES];
static _Atomic int n_devices;

/* Copies the next field of a line and steps behind it. */
static void copy_field(const char **line, char *field, size_t bytes) {
  size_t length = strcspn(*line, " \n");
  snprintf(field, bytes, "%.*s", (int)length, *line);
  *line += length + ((*line)[length] == ' ');
}

/* Writes TYPE:POINT of a line of mountinfo; false if it is no storage. */
static bool describe_mount(const char *line, char *text, size_t bytes) {
  static const char *const unreal[] = {"proc", "sysfs", "cgroup", "cgroup2"};
  char point[PATH_MAX], type[64];
  for (int i = 0; i < 4; i++)
    copy_field(&line, point, sizeof point);
  copy_field(&line, point, sizeof point);
  const char *end = strchrnul(line, '\n'), *system = strstr(line, " - ");
  if (!system || system > end)
    return false;
  system += strlen(" - ");
  copy_field(&system, type, sizeof type);
  for (size_t i = 0; i < sizeof unreal / sizeof *unreal; i++)
    if (strcmp(type, unreal[i]) == 0)
      return false;
  return (size_t)snprintf(text, bytes, "%s:%s", type, point) < bytes;
}

/* Reads a file of the kernel as a whole; false if it is too long. */
static bool read_whole(const char *path, char *text, size_t bytes) {
  int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
  size_t length = 0;
  ssize_t n = fd < 0 ? -1 : 1;
  while (n > 0 && length < bytes - 1) {
    n = syscall(SYS_read, fd, text + length, bytes - 1 - length);
    length += n > 0 ? (size_t)n : 0;
  }
  text[length] = '\0';
  if (fd >= 0)
    syscall(SYS_close, fd);
  return n == 0;
}

/* The mount of an open file; NULL if the kernel does not list it, as that of a memfd.
 */
static struct file *find_mount(int fd) {
  enum { TEXT_BYTES = 1 << 20 };
  char link[64], told[512], wanted[32], name[PATH_BYTES];
  struct file *found = NULL;
  snprintf(link, sizeof link, "/proc/self/fdinfo/%d", fd);
  read_text(link, told, sizeof told);
  const char *number = strstr(told, "mnt_id:");
  char *text = number ? map_memory(TEXT_BYTES, 0) : NULL;
  if (!text)
    return NULL;
  int length = snprintf(wanted, sizeof wanted, "%d ", atoi(number + strlen("mnt_id:")));
  bool is_whole = read_whole("/proc/self/mountinfo", text, TEXT_BYTES);
  for (const char *line = text; is_whole && *line; line = strchrnul(line, '\n')) {
    line += *line == '\n';
    if (strncmp(line, wanted, (size_t)length) == 0 &&
        describe_mount(line, name, sizeof name) && (found = named_file(name))) {
      found->mount = found;
      found->has_no_record = true;
    }
  }
  munmap(text, TEXT_BYTES);
  return found;
}

bool lies_in_memory(const struct file *file) {
  return file->mount && strncmp(file->mount->path, "tmpfs:", strlen("tmpfs:")) == 0;
}

static struct device *known_device(dev_t number) {
  for (int i = 0; i < n_devices; i++)
    if (devices[i].number == number)
      return &devices[i];
  return NULL;
}

static struct file *mount_of(int fd, dev_t number) {
  struct device *known = known_device(number);
  if (LIKELY(known != NULL))
    return known->file;
  struct file *file = find_mount(fd);
  if (!become_busy())
    return file;
  pthread_mutex_lock(&files.lock);
  if (!known_device(number) && n_devices < N_DEVICES) {
    devices[n_devices] = (struct device){number, file};
    n_devices++; /* published last */
  }
  pthread_mutex_unlock(&files.lock);
  become_free();
  return file;
}

/* The mount of a descriptor, or NO_FILE; NULL: it is not open. Keeps errno. */
static struct file *mount_file(int fd) {
  struct stat info;
  struct file *file = NULL;
  int saved_errno = errno;
  if (syscall(SYS_fstat, fd, &info) == 0) {
    bool is_device = S_ISBLK(info.st_mode);
    if (is_device || S_ISREG(info.st_mode) || S_ISDIR(info.st_mode))
      file = mount_of(fd, is_device ? info.st_rdev : info.st_dev);
    file = file ? file : NO_FILE;
  }
  errno = saved_errno;
  return file;
}

/* The mount of a path, if a file on it was open before; NULL: unknown. Keeps errno. */
static struct file *mount_of_path(int directory_fd, const char *path) {
  struct stat info;
  int saved_errno = errno;
  long status = syscall(SYS_newfstatat, directory_fd, path, &info, AT_SYMLINK_NOFOLLOW);
  struct device *known = status == 0 ? known_device(info.st_dev) : NULL;
  errno = saved_errno;
  return known ? known->file : NULL;
}

/* Notes what a descriptor is of that nobody has noted. */
struct file *other_file(int fd) {
  struct file *file = mount_file(fd);
  set_descriptor(fd, file);
  return file == NO_FILE ? NULL : file;
}

static bool is_own(const char *path) {
  return strncmp(path, own_folder, strlen(own_folder)) == 0;
}

/*
 * Notes what a call has opened: a file of a traced path, or NULL. Those of ours, and
 * the tiers, which have their names there, count to no mount.
 */
struct file *note_opened(int fd, struct file *file, const char *path) {
  if (counts_others && !file && !is_own(path))
    return other_file(fd);
  if (counts_others && file && !file->mount && !is_own(file->path)) {
    struct file *mount = mount_file(fd);
    file->mount = mount == NO_FILE ? NULL : mount;
  }
  set_descriptor(fd, file || !counts_others ? file : NO_FILE);
  return file;
}

void record_other_path(int directory_fd, const char *path, double start_s) {
  struct file *file = counts_others ? mount_of_path(directory_fd, path) : NULL;
  if (file)
    record_meta_time(file, start_s);
}

/* ---- Sums ----------------------------------------------------------------------- */

struct file *sum_of(const struct file *mount, enum other call) {
  static _Thread_local struct {
    const struct file *mount;
    int epoch, thread;
    struct file *sums[N_OTHERS];
  } last __attribute__((tls_model("initial-exec")));
  int epoch, thread = tierscope_thread(&epoch);
  if (last.mount != mount || last.epoch != epoch || last.thread != thread) {
    memset(&last, 0, sizeof last);
    last.mount = mount, last.epoch = epoch, last.thread = thread;
  }
  if (LIKELY(last.sums[call] != NULL))
    return last.sums[call];
  char name[PATH_BYTES];
  snprintf(name, sizeof name, "%c%d/%s/%s/%s", OTHER_MARK, epoch, thread_names[thread],
           call_names[call], mount->path);
  return last.sums[call] = named_file(name);
}

/* ---- Shared mappings ------------------------------------------------------------ */

/* The latest mappings through which files are written; msync names no descriptor. */
enum { N_MAPPINGS = 256 };
static struct mapping {
  _Atomic uintptr_t start;
  uintptr_t end;
  struct file *_Atomic file;
} mappings[N_MAPPINGS];
static _Atomic unsigned n_mappings;

void note_mapping(struct file *file, const void *start, size_t bytes) {
  struct mapping *one = &mappings[n_mappings++ % N_MAPPINGS];
  one->start = 0;
  one->end = (uintptr_t)start + bytes;
  one->file = file;
  one->start = (uintptr_t)start;
}

struct file *mapped_file(const void *address) {
  uintptr_t at = (uintptr_t)address;
  for (unsigned i = 1; i <= N_MAPPINGS; i++) {
    struct mapping *one = &mappings[(n_mappings - i) % N_MAPPINGS];
    if (one->start && one->start <= at && at < one->end)
      return one->file;
  }
  return NULL;
}
