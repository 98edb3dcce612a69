/* Processes of a run, the groups of them whose epochs begin together, and epochs. */
#include "redirect.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct process *own; /* NULL: the table had no free place */
/* The place + 1 of this process or its nearest known ancestor; 0: there is none. */
static uint32_t nearest;
/* On a page that is zero in a child, also of _Fork or a system call; NULL: ask. */
static volatile pid_t *known_pid;
static int epoch_here = -1;
/* When this process began, or became the program that it is. */
static int64_t began_ns;
static uint32_t marked_above; /* `marked` of its nearest marking ancestor, then */
static pid_t marking_thread;  /* the thread that marked last; 0: none of this process */
/* A child of fork must not look for it: another thread may have held the loader's lock.
 */
static void (*next_exit)(int);

static struct process *all_processes(void) {
  return (struct process *)((char *)table + table->processes_at);
}

/* ---- Processes ------------------------------------------------------------------ */

static bool read_key(pid_t process, uint64_t *key, pid_t *parent) {
  unsigned long long ticks;
  bool is_there = read_start(process, &ticks, parent);
  *key = (uint64_t)ticks << PID_BITS | (uint64_t)process;
  return is_there;
}

/* The place of a process, taken if it is new and wanted; NULL: it has none. */
static struct process *find_process(pid_t process, uint64_t key, bool is_wanted) {
  struct process *all = all_processes();
  for (uint64_t i = 0; i < table->n_processes; i++) {
    struct process *one = &all[((uint64_t)process + i) % table->n_processes];
    uint64_t found = __atomic_load_n(&one->key, __ATOMIC_ACQUIRE);
    if (found == 0 && is_wanted)
      __atomic_compare_exchange_n(&one->key, &found, key, false, __ATOMIC_ACQ_REL,
                                  __ATOMIC_ACQUIRE);
    if (found == key || (found == 0 && is_wanted))
      return one;
    if (found == 0)
      return NULL;
  }
  return NULL;
}

/* The place + 1 of the nearest ancestor that has one. */
static uint32_t find_ancestor(pid_t ancestor) {
  for (int depth = 0; ancestor > 1 && depth < 64; depth++) {
    uint64_t key;
    pid_t parent;
    if (!read_key(ancestor, &key, &parent))
      break;
    struct process *found = find_process(ancestor, key, false);
    if (found)
      return (uint32_t)(found - all_processes()) + 1;
    ancestor = parent;
  }
  return 0;
}

static void join_before_marks(void);

/* What is known when this process begins, or becomes another program. */
static void note_start(uint32_t before, pid_t parent) {
  own->end_ns = 0;
  began_ns = now_ns();
  /* Else it has become another program, or another thread was faster. */
  if (own->start_ns == 0 && before != nearest) {
    own->parent = before ? before : find_ancestor(parent);
    own->start_ns = began_ns;
  }
  marked_above = 0;
  for (uint32_t at = own->parent; at && !marked_above;
       at = all_processes()[at - 1].parent)
    marked_above = __atomic_load_n(&all_processes()[at - 1].marked, __ATOMIC_ACQUIRE);
}

/* A process that starts, or that a fork has made. Keeps errno. */
void enter_process(void) {
  enum { PAGE_BYTES = 4096 };
  static bool watches_forks;
  pid_t pid = getpid(), parent = 0;
  uint64_t key;
  if (!watches_forks) {
    watches_forks = true;
    next_exit = (void (*)(int))dlsym(RTLD_NEXT, "_exit");
    pthread_atfork(NULL, NULL, enter_process);
#ifdef MADV_WIPEONFORK /* Linux 4.14 */
    void *page = map_memory(PAGE_BYTES, 0);
    if (page && madvise(page, PAGE_BYTES, MADV_WIPEONFORK) == 0)
      known_pid = page;
#endif
  }
  static pid_t last;
  if (last && last != pid) {
    forget_descriptors();
    marking_thread = 0;
  }
  last = pid;
  uint32_t before = nearest;
  own = read_key(pid, &key, &parent) ? find_process(pid, key, true) : NULL;
  if (known_pid)
    *known_pid = pid;
  if (!own) {
    count(UNKNOWN_PROCESSES);
    nearest = before ? before : find_ancestor(parent);
    return;
  }
  nearest = (uint32_t)(own - all_processes()) + 1;
  note_start(before, parent);
  if (!own->marked)
    join_before_marks();
}

pid_t own_pid(void) {
  if (!known_pid)
    return getpid();
  if (__builtin_expect(*known_pid == 0, false))
    enter_process();
  return *known_pid;
}

/* Not of a child of vfork, which uses its parent's memory. */
static void note_end(void) {
  if (!table || getpid() != own_pid() || !own)
    return;
  static const char *const names[] = {"rchar: ", "wchar: "};
  enum { BLOCK_BYTES = 512 };
  struct rusage used;
  char text[512];
  read_text("/proc/self/io", text, sizeof text);
  for (int i = 0; i < 2; i++) {
    const char *found = strstr(text, names[i]);
    own->io[i] = found ? strtoull(found + strlen(names[i]), NULL, 10) : UINT64_MAX;
  }
  bool is_known = *text && getrusage(RUSAGE_SELF, &used) == 0;
  own->io[2] = is_known ? (uint64_t)used.ru_inblock * BLOCK_BYTES : UINT64_MAX;
  own->io[3] = is_known ? (uint64_t)used.ru_oublock * BLOCK_BYTES : UINT64_MAX;
  __atomic_store_n(&own->end_ns, now_ns(), __ATOMIC_RELEASE);
}

__attribute__((destructor)) static void finish(void) { note_end(); }

/* What ends a process without its destructors, as the children of multiprocessing. */
__attribute__((noreturn)) void _exit(int status) {
  note_end();
  if (next_exit)
    next_exit(status);
  syscall(SYS_exit_group, status);
  __builtin_unreachable();
}

__attribute__((noreturn)) void _Exit(int status) { _exit(status); }

/* ---- Groups --------------------------------------------------------------------- */

/* The group of a key, made if it is new; 0: all are in use. */
static uint32_t find_group(uint64_t key) {
  for (uint32_t i = 1; i < N_GROUPS; i++) {
    uint64_t found = 0;
    if (__atomic_compare_exchange_n(&table->groups[i].key, &found, key, false,
                                    __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE) ||
        found == key)
      return i;
  }
  return 0;
}

/*
 * The group that this process belongs to: its own, or that of its nearest ancestor that
 * has one, also if that has marked after this process began.
 */
unsigned own_group(void) {
  enum { GROUP_BITS = 16 };
  static uint64_t known = UINT64_MAX; /* the generation, and the group */
  uint64_t generation = __atomic_load_n(&table->generation, __ATOMIC_ACQUIRE);
  uint64_t is_known = __atomic_load_n(&known, __ATOMIC_RELAXED);
  if (LIKELY(is_known >> GROUP_BITS == generation))
    return is_known & ((1 << GROUP_BITS) - 1);
  uint32_t group = 0;
  for (uint32_t at = nearest; at && !group; at = all_processes()[at - 1].parent)
    group = __atomic_load_n(&all_processes()[at - 1].group, __ATOMIC_ACQUIRE);
  __atomic_store_n(&known, generation << GROUP_BITS | group, __ATOMIC_RELAXED);
  return group;
}

/* The rank that a launcher has given, + 1; 0: none. */
static uint32_t own_rank(void) {
  char rank[RANK_BYTES];
  read_rank(rank);
  const char *number = strchr(rank, '=');
  return number ? (uint32_t)strtoul(number + 1, NULL, 10) + 1 : 0;
}

static uint32_t group_of_rank(uint32_t rank) {
  return find_group(RANK_KEY | (rank - 1));
}

static uint32_t rank_of(uint32_t group) {
  const struct group *found = &table->groups[group];
  return found->key & RANK_KEY ? (uint32_t)(found->key & ~RANK_KEY) + 1 : found->rank;
}

static bool join(uint32_t group) {
  if (group == 0)
    return false;
  __atomic_store_n(&own->group, group, __ATOMIC_SEQ_CST);
  __atomic_fetch_add(&table->generation, 1, __ATOMIC_RELEASE);
  return true;
}

/* ---- Programs in turn ----------------------------------------------------------- */

/* A killed one is known to have run when it marked last. */
static bool has_ended_before(const struct process *one, int64_t time_ns) {
  int64_t end_ns = __atomic_load_n(&one->end_ns, __ATOMIC_ACQUIRE);
  if (end_ns)
    return end_ns < time_ns;
  uint64_t key;
  pid_t parent, pid = (pid_t)(one->key & ((1 << PID_BITS) - 1));
  bool is_running = read_key(pid, &key, &parent) && key == one->key;
  return !is_running && one->marked_ns < time_ns;
}

/*
 * Whether this process is another one or comes from it; `child` is the place of what
 * that one has started for it, 0 if it is this process. If not, it is that of the first
 * known ancestor.
 */
static bool comes_from(uint32_t ancestor, uint32_t *child) {
  *child = 0;
  for (uint32_t at = nearest; at; *child = at, at = all_processes()[at - 1].parent)
    if (at == ancestor)
      return true;
  return false;
}

/*
 * Whether a process belongs to a program that had ended before the one of this process
 * began. Each is what their nearest common ancestor has started, so of ranks that start
 * one by one none comes before another. What starts a task of srun is not known: then
 * each is the first process of such a task, and they have the same rank.
 */
static bool came_before(uint32_t other) {
  const struct process *all = all_processes();
  uint32_t theirs = 0, ours = 0, at = other;
  for (; at && !comes_from(at, &ours); at = all[at - 1].parent)
    theirs = at;
  uint32_t rank = own_rank();
  bool is_of_rank = rank && rank == rank_of(all[other - 1].group);
  if (at ? !theirs : !is_of_rank)
    return false;
  int64_t start_ns = at && !ours ? began_ns : all[ours - 1].start_ns;
  return has_ended_before(&all[theirs - 1], start_ns) &&
         has_ended_before(&all[other - 1], start_ns);
}

/* Of the processes that have marked or will, by whether they came before this one. */
struct turn {
  uint32_t marked; /* the largest of those before */
  uint32_t group;  /* of it; of several that of the first rank */
  bool is_shared;  /* another one, not from before, marks for a group of ours */
};

static struct turn look_around(uint32_t group) {
  struct turn turn = {0};
  for (uint32_t at = 1; at <= table->n_processes; at++) {
    const struct process *one = &all_processes()[at - 1];
    uint32_t marked = __atomic_load_n(&one->marked, __ATOMIC_ACQUIRE);
    uint32_t marks = marked | __atomic_load_n(&one->has_loops, __ATOMIC_SEQ_CST);
    if (!marks || one == own)
      continue;
    if (!came_before(at)) {
      turn.is_shared |= __atomic_load_n(&one->group, __ATOMIC_SEQ_CST) == group;
    } else if (marked > turn.marked || (marked && marked == turn.marked &&
                                        rank_of(one->group) < rank_of(turn.group))) {
      turn.marked = marked;
      turn.group = one->group;
    }
  }
  return turn;
}

/*
 * Enters the group of the launcher's rank, unless an ancestor has one of that rank.
 * Without a rank and without an ancestor's group it is that of the program before.
 */
static void join_before_marks(void) {
  uint32_t rank = own_rank(), group = own_group();
  if (rank && rank != rank_of(group))
    join(group_of_rank(rank));
  else if (!rank && !group && table->groups[1].key)
    join(look_around(0).group);
}

/*
 * Enters the group for which this process marks, before its first mark. A program may
 * set its rank itself, so it is looked for again. Explicit marks are of all processes
 * of the rank. Others have a group of their own if a program that runs at the same time
 * marks for theirs. Of two that begin their loops at once at least one sees the other:
 * each enters the group before it looks.
 */
static bool join_to_mark(bool has_loops) {
  uint32_t rank = own_rank(), group = own_group();
  if (rank && rank != rank_of(group))
    group = group_of_rank(rank);
  bool is_of_rank = rank && !has_loops;
  if (group && has_loops)
    join(group);
  if (group && (is_of_rank || !look_around(group).is_shared))
    return join(group);
  const struct group *shared = &table->groups[group];
  uint32_t alone = find_group(own->key);
  if (alone) {
    table->groups[alone].rank = rank ? rank : rank_of(group);
    table->groups[alone].epoch = __atomic_load_n(&shared->epoch, __ATOMIC_ACQUIRE);
  }
  return join(alone);
}

/* ---- Epochs --------------------------------------------------------------------- */

/*
 * A program that begins after the loops of another one is no part of what follows them:
 * it reads for the epoch under way, unless that one has started it.
 */
int own_epoch(void) {
  if (epoch_here >= 0)
    return epoch_here;
  const struct group *group = &table->groups[own_group()];
  int after = __atomic_load_n(&group->after, __ATOMIC_ACQUIRE);
  if (after && (marked_above || began_ns < group->ended_ns))
    return after;
  return __atomic_load_n(&group->epoch, __ATOMIC_ACQUIRE);
}

static bool make_link(const char *tier, int epoch, const char *folder) {
  char path[FOLDER_BYTES + 32];
  snprintf(path, sizeof path, "%s/%s.ep%d", table->links, tier, epoch);
  return syscall(SYS_symlinkat, folder, AT_FDCWD, path) == 0 || errno == EEXIST;
}

/* The names of the tiers in an epoch. Keeps errno. */
static bool make_links(int epoch) {
  static int last = -1;
  int saved_errno = errno;
  if (epoch == last)
    return true;
  bool is_made =
      make_link("gfs", epoch, table->real) && make_link("lfs", epoch, table->lfs);
  if (is_made)
    last = epoch;
  errno = saved_errno;
  return is_made;
}

/*
 * Marks that an epoch begins, for all processes of this process's group. Returns 0, or
 * -1 if nothing is redirected or the epoch cannot begin.
 */
int tierscope_epoch(int epoch) {
  if (!start() || epoch < 0 || epoch > LAST_EPOCH)
    return -1;
  pid_t pid = own_pid();
  if (!own || !(own->marked || join_to_mark(own->has_loops)) || !make_links(epoch)) {
    count(FAILED_MARKS);
    return -1;
  }
  struct group *group = &table->groups[own->group];
  int32_t nobody = 0;
  __atomic_compare_exchange_n(&group->pid, &nobody, pid, false, __ATOMIC_ACQ_REL,
                              __ATOMIC_ACQUIRE);
  __atomic_store_n(&group->epoch, epoch, __ATOMIC_RELEASE);
  __atomic_store_n(&group->after, 0, __ATOMIC_RELEASE);
  __atomic_fetch_add(&group->n_marks, 1, __ATOMIC_RELEASE);
  marking_thread = (pid_t)syscall(SYS_gettid);
  own->marked_ns = now_ns();
  __atomic_store_n(&own->marked, (uint32_t)epoch + 1, __ATOMIC_RELEASE);
  note_mark(epoch, own->marked_ns);
  return 0;
}

/*
 * The epoch that the first loop of this process begins, for a hook that counts its
 * loops: the one after those of the programs before it; if an ancestor has marked, or
 * it has itself, the one that was under way when it began.
 */
int tierscope_first_epoch(void) {
  if (!start())
    return 0;
  own_pid(); /* finds `own` anew in a child */
  if (!own)
    return 0;
  uint32_t marked = own->marked, is_under_way = !own->has_loops;
  __atomic_store_n(&own->has_loops, 1, __ATOMIC_SEQ_CST);
  if (marked)
    return (int)(marked - is_under_way);
  join_to_mark(true);
  return marked_above ? (int)marked_above - 1 : (int)look_around(0).marked;
}

/*
 * Marks that all loops of this process have ended, in all processes of its group; if it
 * has begun no epoch, in this one. It may go on, as the next loop does, by beginning an
 * epoch, the same one again as well.
 */
void tierscope_loops_ended(void) {
  if (!start())
    return;
  own_pid(); /* finds `own` anew in a child */
  struct group *group = &table->groups[own_group()];
  if (!own || !__atomic_load_n(&group->n_marks, __ATOMIC_ACQUIRE))
    return;
  uint64_t *n_ends = &table->counts[LOOP_ENDS];
  int after = AFTER + (int)__atomic_fetch_add(n_ends, 1, __ATOMIC_RELAXED);
  if (!make_links(after)) {
    count(FAILED_MARKS);
    return;
  }
  int64_t now = now_ns();
  if (own->marked) {
    group->ended_ns = now;
    __atomic_store_n(&group->after, after, __ATOMIC_RELEASE);
  } else {
    epoch_here = after;
  }
  note_mark(after, now);
}

/* The epoch that loops of this group are of; 0 if nothing is redirected. */
int tierscope_epoch_under_way(void) {
  if (!start())
    return 0;
  return __atomic_load_n(&table->groups[own_group()].epoch, __ATOMIC_ACQUIRE);
}

/*
 * For the tracer: what this thread is, and the epoch that is under way; -1 before the
 * first one. What marks runs the loop. In a process that marks nothing, such as one
 * that a script starts for an epoch, the main thread may.
 */
int tierscope_thread(int *epoch) {
  enum { BESIDE, MAIN, LOOP };
  *epoch = -1;
  if (!start())
    return BESIDE;
  pid_t pid = own_pid(), thread = (pid_t)syscall(SYS_gettid);
  if (__atomic_load_n(&table->groups[own_group()].n_marks, __ATOMIC_ACQUIRE))
    *epoch = own_epoch();
  if (marking_thread)
    return thread == marking_thread ? LOOP : BESIDE;
  return thread == pid ? MAIN : BESIDE;
}

/*
 * Lets this process alone read for an epoch, as a worker that knows what its work is
 * for; -1: it follows its group again.
 */
void tierscope_epoch_here(int epoch) {
  if (!start())
    return;
  if (epoch >= 0 && !make_links(epoch))
    count(FAILED_MARKS);
  else
    epoch_here = epoch < 0 ? -1 : epoch;
}
