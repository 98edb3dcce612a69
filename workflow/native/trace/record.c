/* Adds calls that have ended to the records of their files, by Darshan's rules. */
#include "trace.h"

#include <string.h>

/* The counters and timers that a read and a write have in common. */
struct direction {
  enum counter calls, bytes, max_byte, consecutive, sequential, sizes, max_time_size;
  enum timer start, end, time, max_time;
};

static const struct direction reading = {
    READS,     BYTES_READ,      MAX_BYTE_READ,      CONSEC_READS,
    SEQ_READS, SIZE_READ_0_100, MAX_READ_TIME_SIZE, READ_START,
    READ_END,  READ_TIME,       MAX_READ_TIME};
static const struct direction writing = {
    WRITES,     BYTES_WRITTEN,    MAX_BYTE_WRITTEN,    CONSEC_WRITES,
    SEQ_WRITES, SIZE_WRITE_0_100, MAX_WRITE_TIME_SIZE, WRITE_START,
    WRITE_END,  WRITE_TIME,       MAX_WRITE_TIME};

/* A finished call on a file, with times since the run's origin. */
struct call {
  struct file *file;
  struct posix_record *record;
  double start_s, end_s;
};

/*
 * Locks the file and finds its record. False, and nothing locked, if the call does
 * not belong to the run: begin or end came in between. Under the file's lock the
 * record stays valid, because end takes every file's lock before it unmaps.
 */
static bool lock_record(struct call *call, struct file *file, double start_s,
                        double end_s) {
  if (!become_busy())
    return false;
  pthread_mutex_lock(&file->lock);
  const struct run *run = current_run;
  if (LIKELY(run && start_s >= run->origin_s)) {
    if (!file->record)
      file->record = add_record(run, file);
    if (LIKELY(file->record != NULL)) {
      int64_t start_ns, end_ns;
      *call = (struct call){file, file->record, start_s - run->origin_s,
                            end_s - run->origin_s};
      if (tierscope_clock_call && tierscope_clock_call(&start_ns, &end_ns)) {
        call->start_s = start_ns * 1e-9;
        call->end_s = end_ns * 1e-9;
      }
      return true;
    }
  }
  pthread_mutex_unlock(&file->lock);
  become_free();
  return false;
}

static void leave(struct call *call) {
  pthread_mutex_unlock(&call->file->lock);
  become_free();
}

/* Adds a call's time; time that overlaps an earlier call on the file counts once. */
static void add_time(struct call *call, enum timer timer, enum lane lane) {
  double *busy_until = &call->file->busy_until[lane];
  if (call->end_s <= *busy_until)
    return;
  double start_s = call->start_s < *busy_until ? *busy_until : call->start_s;
  call->record->timers[timer] += call->end_s - start_s;
  *busy_until = call->end_s;
}

static void count_other(const struct file *mount, enum other what, int64_t bytes,
                        double start_s, double end_s) {
  static const struct {
    enum counter calls, bytes;
    enum timer time;
    enum lane lane;
  } sums[N_OTHERS] = {{READS, BYTES_READ, READ_TIME, READ_LANE},
                      {WRITES, BYTES_WRITTEN, WRITE_TIME, WRITE_LANE},
                      {WRITES, BYTES_WRITTEN, WRITE_TIME, WRITE_LANE},
                      {OPENS, BYTES_READ, META_TIME, META_LANE},
                      {OPENS, BYTES_READ, META_TIME, META_LANE}};
  struct call call;
  struct file *sum = sum_of(mount, what);
  if (!sum || !lock_record(&call, sum, start_s, end_s))
    return;
  call.record->counters[sums[what].calls]++;
  call.record->counters[sums[what].bytes] += bytes;
  add_time(&call, sums[what].time, sums[what].lane);
  leave(&call);
}

/* What a mapping of a file of no tier reads is no call, and takes an unknown time. */
void record_other_mapping(const struct file *file, uint64_t bytes) {
  double at_s = now_s();
  if (!*fork_mark)
    become_child();
  count_other(file->mount, OTHER_MAP, (int64_t)bytes, at_s, at_s);
}

/* The same for a call that ends now; a file of no tier also counts to its mount. */
static bool enter(struct call *call, struct file *file, enum other what, int64_t bytes,
                  double start_s) {
  double end_s = now_s();
  if (!*fork_mark)
    become_child();
  if (LIKELY(!file->mount))
    return lock_record(call, file, start_s, end_s);
  count_other(file->mount, what, bytes, start_s, end_s);
  return !file->has_no_record && lock_record(call, file, start_s, end_s);
}

static void stamp(struct call *call, enum timer start, enum timer end) {
  double *timers = call->record->timers;
  if (timers[start] == 0 || timers[start] > call->start_s)
    timers[start] = call->start_s;
  timers[end] = call->end_s;
}

void record_open(struct file *file, int64_t mode, bool duplicate, double start_s) {
  struct call call;
  if (!enter(&call, file, OTHER_META, 0, start_s))
    return;
  call.record->counters[OPENS]++;
  if (duplicate) {
    call.record->counters[DUPS]++;
  } else {
    if (mode)
      call.record->counters[MODE] = mode;
    file->offset = 0;
    file->last_byte[READ_LANE] = file->last_byte[WRITE_LANE] = 0;
  }
  stamp(&call, OPEN_START, OPEN_END);
  add_time(&call, META_TIME, META_LANE);
  leave(&call);
}

void record_close(struct file *file, double start_s) {
  struct call call;
  if (*events_path && !file->record && !file->has_no_record) /* inherited, not used */
    return;
  if (!enter(&call, file, OTHER_META, 0, start_s))
    return;
  stamp(&call, CLOSE_START, CLOSE_END);
  add_time(&call, META_TIME, META_LANE);
  leave(&call);
}

void record_meta(struct file *file, enum counter counter, double start_s) {
  struct call call;
  if (!enter(&call, file, OTHER_META, 0, start_s))
    return;
  call.record->counters[counter]++;
  add_time(&call, META_TIME, META_LANE);
  leave(&call);
}

/* Of a call that Darshan has no counter for. */
void record_meta_time(struct file *file, double start_s) {
  struct call call;
  if (!enter(&call, file, OTHER_META, 0, start_s))
    return;
  add_time(&call, META_TIME, META_LANE);
  leave(&call);
}

void record_mapping(struct file *file, uint64_t bytes) {
  struct call call;
  if (!enter(&call, file, OTHER_META, 0, now_s()))
    return;
  call.record->counters[MMAPS]++;
  __atomic_fetch_add(&spool.header->mapped_bytes, bytes, __ATOMIC_RELAXED);
  leave(&call);
}

void record_drop(struct file *file, enum drop outcome) {
  struct call call;
  if (!enter(&call, file, OTHER_META, 0, now_s()))
    return;
  __atomic_fetch_add(&spool.header->drops[outcome], 1, __ATOMIC_RELAXED);
  leave(&call);
}

void record_rename(struct file *source, struct file *target, double start_s) {
  struct call call;
  if (source)
    record_meta(source, RENAME_SOURCES, start_s);
  if (!target || !enter(&call, target, OTHER_META, 0, source ? now_s() : start_s))
    return;
  call.record->counters[RENAME_TARGETS]++;
  if (source && !call.record->counters[RENAMED_FROM])
    call.record->counters[RENAMED_FROM] = (int64_t)source->hash;
  add_time(&call, META_TIME, META_LANE);
  leave(&call);
}

void record_seek(struct file *file, int64_t offset, double start_s) {
  struct call call;
  if (!enter(&call, file, OTHER_META, 0, start_s))
    return;
  file->offset = offset;
  call.record->counters[SEEKS]++;
  add_time(&call, META_TIME, META_LANE);
  leave(&call);
}

/* Darshan counts a flush as a write that moves no bytes. */
void record_flush(struct file *file, enum counter counter, double start_s) {
  struct call call;
  enum other what = *file->path == STREAM_MARK ? OTHER_WRITE : OTHER_FSYNC;
  if (!enter(&call, file, what, 0, start_s))
    return;
  call.record->counters[counter]++;
  stamp(&call, WRITE_START, WRITE_END);
  add_time(&call, WRITE_TIME, WRITE_LANE);
  leave(&call);
}

static int size_bucket(int64_t bytes) {
  static const int64_t limits[] = {100,     1 << 10,  10 << 10,  100 << 10, 1 << 20,
                                   4 << 20, 10 << 20, 100 << 20, 1 << 30};
  int bucket = 0;
  while (bucket < 9 && bytes > limits[bucket])
    bucket++;
  return bucket;
}

/* Keeps the first four access sizes; a genuine Darshan keeps the most frequent. */
static void count_access_size(int64_t *counters, int64_t bytes) {
  for (int i = 0; bytes > 0 && i < 4; i++) {
    if (counters[ACCESS1_COUNT + i] == 0)
      counters[ACCESS1_ACCESS + i] = bytes;
    if (counters[ACCESS1_ACCESS + i] == bytes) {
      counters[ACCESS1_COUNT + i]++;
      return;
    }
  }
}

/* Records a read or write of some bytes at an offset; -1 for the current one. */
void record_transfer(struct file *file, enum lane lane, int64_t offset, int64_t bytes,
                     double start_s) {
  const struct direction *is = lane == READ_LANE ? &reading : &writing;
  enum other what = lane == READ_LANE ? OTHER_READ : OTHER_WRITE;
  struct call call;
  if (bytes < 0 || !enter(&call, file, what, bytes, start_s))
    return;
  int64_t *counters = call.record->counters;
  double *timers = call.record->timers;
  if (offset < 0)
    offset = file->offset;
  counters[is->calls]++;
  counters[is->bytes] += bytes;
  counters[is->sequential] += offset > file->last_byte[lane];
  counters[is->consecutive] += offset == file->last_byte[lane] + 1;
  counters[is->sizes + size_bucket(bytes)]++;
  count_access_size(counters, bytes);
  if (offset + bytes - 1 > counters[is->max_byte])
    counters[is->max_byte] = offset + bytes - 1;
  counters[RW_SWITCHES] += file->last_lane != lane && file->last_lane != META_LANE;
  file->last_lane = lane;
  file->last_byte[lane] = offset + bytes - 1;
  file->offset = offset + bytes;
  if (timers[is->max_time] < call.end_s - call.start_s) {
    timers[is->max_time] = call.end_s - call.start_s;
    counters[is->max_time_size] = bytes;
  }
  stamp(&call, is->start, is->end);
  add_time(&call, is->time, lane);
  leave(&call);
}

/* The records of a spool that is left. */
void forget_records(void) {
  for (size_t i = 0; i < files.capacity; i++) {
    struct file *file = files.slots[i].file;
    if (!file)
      continue;
    pthread_mutex_lock(&file->lock);
    file->record = NULL;
    file->last_lane = META_LANE;
    memset(file->busy_until, 0, sizeof file->busy_until);
    pthread_mutex_unlock(&file->lock);
  }
}
