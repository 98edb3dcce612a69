/* The table of traced paths, and which descriptor is of which file. */
#include "trace.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

struct files files = {.lock = PTHREAD_MUTEX_INITIALIZER};

/*
 * A word at a time, as bytes cost as much as the rest of the tracer. Each step can be
 * undone, so paths of one length that differ in one word never have the same hash.
 */
static uint64_t hash_path(const char *path) {
  size_t bytes = strlen(path);
  uint64_t hash = 0xcbf29ce484222325u ^ bytes;
  while (bytes > 0) {
    uint64_t word = 0;
    size_t n = bytes < sizeof word ? bytes : sizeof word;
    if (LIKELY(n == sizeof word))
      memcpy(&word, path, sizeof word);
    else
      memcpy(&word, path, n);
    hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 32;
    path += n;
    bytes -= n;
  }
  hash *= 0xd6e8feb86659fd93u;
  return hash ^ hash >> 32;
}

/* The slot of a path, or the free one where it belongs. */
static struct file_slot *find_slot(uint64_t hash, const char *path) {
  size_t mask = files.capacity - 1;
  for (size_t i = hash & mask;; i = (i + 1) & mask) {
    struct file_slot *slot = &files.slots[i];
    if (!slot->file)
      return slot;
    if (slot->hash != hash)
      continue;
    __builtin_prefetch(slot->file, 1);
    if (LIKELY(strcmp(slot->file->path, path) == 0))
      return slot;
  }
}

static bool grow_files(void) {
  struct file_slot *old_slots = files.slots;
  size_t old_capacity = files.capacity;
  size_t capacity = old_capacity ? 2 * old_capacity : 1024;
  struct file_slot *slots = map_memory(capacity * sizeof *slots, 0);
  if (!slots)
    return false;
  files.slots = slots;
  files.capacity = capacity;
  for (size_t i = 0; i < old_capacity; i++)
    if (old_slots[i].file)
      *find_slot(old_slots[i].hash, old_slots[i].file->path) = old_slots[i];
  if (old_slots)
    munmap(old_slots, old_capacity * sizeof *old_slots);
  return true;
}

/*
 * Memory, all zeros; the caller holds files.lock. It comes in blocks whose
 * pages exist at once: the faults of single ones cost more than a file's calls.
 */
void *allocate(size_t bytes) {
  static char *next, *end;
  static size_t block_bytes = 32u << 10;
  bytes = (bytes + 63) & ~(size_t)63;
  if (bytes > (size_t)(end - next)) {
    if (block_bytes < LARGEST_BLOCK_BYTES)
      block_bytes *= 2;
    char *block = map_memory(block_bytes, MAP_POPULATE);
    if (!block)
      return NULL;
    next = block;
    end = block + block_bytes;
  }
  void *memory = next;
  next += bytes;
  return memory;
}

/* The file of a path, made if new; the caller holds files.lock. NULL: no memory. */
static struct file *find_or_add_file(const char *path) {
  if (files.count >= files.capacity / 2 && !grow_files())
    return NULL;
  uint64_t hash = hash_path(path);
  struct file_slot *slot = find_slot(hash, path);
  if (slot->file)
    return slot->file;
  size_t path_bytes = strlen(path) + 1;
  struct file *file = allocate(sizeof *file + path_bytes);
  if (!file)
    return NULL;
  pthread_mutex_init(&file->lock, NULL);
  file->hash = hash;
  file->last_lane = META_LANE;
  memcpy(file->path, path, path_bytes);
  files.count++;
  *slot = (struct file_slot){hash, file};
  return file;
}

/* Whether a path begins with a prefix, or is the file or folder that `PATH/` names. */
static bool begins_with(const char *path, const char *prefix, size_t length) {
  if (strncmp(path, prefix, length) == 0)
    return true;
  size_t last = length - 1;
  return prefix[last] == '/' && strncmp(path, prefix, last) == 0 && path[last] == '\0';
}

static size_t longest_prefix(char **prefixes, int n_prefixes, const char *path) {
  size_t longest = 0;
  for (int i = 0; i < n_prefixes; i++) {
    size_t length = strlen(prefixes[i]);
    if (length > longest && begins_with(path, prefixes[i], length))
      longest = length;
  }
  return longest;
}

bool is_traced(const struct run *run, const char *path) {
  size_t included = longest_prefix(run->prefixes, run->n_prefixes, path);
  if (LIKELY(run->n_excluded == 0) || included == 0)
    return included > 0;
  return included > longest_prefix(run->excluded, run->n_excluded, path);
}

/* Whether a path has no empty, "." or ".." component and no slash at its end. */
static bool is_normal(const char *path) {
  for (; *path; path++)
    if (*path == '/' && (path[1] == '/' || path[1] == '.' || path[1] == '\0'))
      return false;
  return true;
}

/* Removes empty, "." and ".." components in place, as text, as Darshan does. */
void normalise(char *path) {
  size_t end = 0;
  for (const char *part = path; *part;) {
    part += strspn(part, "/");
    size_t length = strcspn(part, "/");
    end = add_component(path, end, part, length);
    part += length;
  }
  if (end == 0)
    path[end++] = '/';
  path[end] = '\0';
}

/* Writes the directory from which a relative path starts; false if it is unknown. */
static bool start_directory(int directory_fd, char *directory, size_t bytes) {
  struct file *file = descriptor_file(directory_fd);
  if (file && !file->has_no_record) /* as opened: a link such as data.ep1 stays */
    return (size_t)snprintf(directory, bytes, "%s", file->path) < bytes;
  return folder_of(directory_fd, directory, bytes);
}

/* Writes a path as an absolute, normalised one; false if it is unknown. */
static bool make_absolute(int directory_fd, const char *path, char *absolute,
                          size_t bytes) {
  size_t length = 0;
  if (*path != '/') {
    if (!start_directory(directory_fd, absolute, bytes))
      return false;
    length = strlen(absolute);
  }
  size_t left = bytes - length;
  int n = snprintf(absolute + length, left, "%s%s", length ? "/" : "", path);
  if (n < 0 || (size_t)n >= left)
    return false;
  normalise(absolute);
  return true;
}

/* The file of a name in the table of paths. */
struct file *named_file(const char *path) {
  if (!become_busy())
    return NULL;
  pthread_mutex_lock(&files.lock);
  struct file *file = find_or_add_file(path);
  pthread_mutex_unlock(&files.lock);
  become_free();
  if (!file)
    note_loss(ENOMEM);
  return file;
}

static struct file *lookup(const struct run *run, const char *path) {
  return is_traced(run, path) ? named_file(path) : NULL;
}

/* Prefetches the memory of a record, which the read data has evicted from the caches.
 */
static void fetch_record(const void *record) {
  for (size_t at = 0; at < sizeof(struct spool_entry); at += 64)
    __builtin_prefetch((const char *)record + at, 1);
}

/* The file of a path given to a call; NULL if it is not traced. Keeps errno. */
struct file *path_file(int directory_fd, const char *path) {
  const struct run *run = current_run;
  if (!run || !path)
    return NULL;
  if (LIKELY(*path == '/' && is_normal(path)))
    return lookup(run, path);
  int saved_errno = errno;
  char usual[1024]; /* the stack is small under a signal handler */
  struct file *file = NULL;
  if (LIKELY(make_absolute(directory_fd, path, usual, sizeof usual))) {
    file = lookup(run, usual);
  } else {
    char *absolute = map_memory(LONG_PATH_BYTES, 0);
    if (absolute && make_absolute(directory_fd, path, absolute, LONG_PATH_BYTES))
      file = lookup(run, absolute);
    else if (!absolute || strlen(path) >= LONG_PATH_BYTES / 2)
      note_loss(ENAMETOOLONG);
    if (absolute)
      munmap(absolute, LONG_PATH_BYTES);
  }
  errno = saved_errno;
  return file;
}

/*
 * The file of a path that is about to be opened, if it can be found at once; otherwise
 * NULL. The memory of its record is prefetched while the system opens the file.
 */
struct file *file_to_open(const char *path) {
  const struct run *run = current_run;
  if (*events_path) /* a program may pass what is no path; the kernel says so */
    return NULL;
  if (!run || !path || *path != '/' || !is_normal(path))
    return NULL;
  struct file *file = lookup(run, path);
  if (file)
    fetch_record(file->record ? (void *)file->record : spool.next);
  return file;
}

/*
 * Notes the file of a descriptor, NULL for none of ours. A child of vfork uses its
 * parent's memory but has its own descriptors: if it closes them before exec, this must
 * not change the parent's entries. Returns false in such a child.
 */
bool set_descriptor(int fd, struct file *file) {
  meaning *slot = slot_of(fd);
  if (LIKELY((slot ? *slot : 0) == (uintptr_t)file))
    return true;
  if (is_child_in_memory())
    return false;
  slot = file ? make_slot(fd) : slot;
  if (slot)
    *slot = (uintptr_t)file;
  else if (file)
    note_loss(ENOMEM);
  return true;
}
