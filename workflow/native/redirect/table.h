/*
 * The table of redirections: one file that all processes of a node map.
 *
 * tierscope.benchmark.programs.table has the same layout. Only this library and that
 * module write to it.
 */
#ifndef TIERSCOPE_REDIRECT_TABLE_H
#define TIERSCOPE_REDIRECT_TABLE_H

#include <limits.h>
#include <stdint.h>

#define TABLE_MAGIC "tierscope-table" /* 16 bytes with its end */
#define TABLE_VERSION 4
enum {
  N_ROOTS = 4,
  FOLDER_BYTES = 1024,
  N_GROUPS = 1024,
  N_ESCAPED = 64,
  ESCAPED_BYTES = 252,
  N_COUNTS = 16
};

/*
 * A slot is 29 bits of the hash of a file's path below the dataset, and its state. 0:
 * no file has the slot. Slots are probed one after the other. A name that no file had
 * may, once in 50 million, find the slot of another: its open is then told of as that
 * one's, but reaches what its own name names.
 */
enum state { STAGED = 1, WRITTEN = 2, IS_LINK = 4, STATE_BITS = 3 };

enum event_kind {
  OPENED_GFS = 1,
  OPENED_LFS,
  FELL_BACK, /* the LFS copy could not be opened; an OPENED_GFS follows */
  CLOSED,
  MARKED,  /* an epoch of the group begins; from AFTER on: loops of it have ended */
  ALTERED, /* a known file was changed by its name: the GFS has it from now on */
  OPENED_TO_WRITE, /* which may change a known file: the GFS has it from now on */
  REUSED /* a file's descriptor is another one's: it was closed by a call unseen */
};

#define NO_SLOT UINT32_MAX
/*
 * Numbers of epochs from AFTER on are of what follows loops that have ended, each end
 * has its own: whether another loop follows, and so of which epoch it is, is known
 * later.
 */
#define AFTER (1 << 30)
#define LAST_EPOCH (AFTER - 1)

/* Of an open, the time is that of the decision: before the slot's state was read. */
struct event {
  uint64_t serial; /* position + 1; written last */
  uint64_t time_ns;
  uint32_t slot; /* of MARKED: blocks of 512 bytes that the process has read so far */
  int32_t pid, epoch;
  uint16_t group;
  uint8_t kind;
  uint8_t was_on_lfs; /* what was CLOSED or REUSED */
};

enum count {
  FALLBACKS,        /* opens of an LFS copy that the GFS served instead */
  LOOK_FALLBACKS,   /* the same of stat and access */
  WRITES,           /* changes of known files */
  UNDIRECTED,       /* known files that only the program's own path could open */
  REACHED_BY_LINKS, /* known files opened by a path that leads into the dataset */
  FAILED_MARKS,
  UNKNOWN_PROCESSES, /* that found no free slot */
  ESCAPES,
  SPAWNED,  /* known files that libc opens in a child of posix_spawn: in no log */
  LOOP_ENDS /* numbers from AFTER on that are in use */
};

/* Processes whose epochs begin together; the first group is of those without another.
 */
struct group {
  uint64_t key;  /* a rank and RANK_KEY, or the key of a process; 0: free */
  int32_t pid;   /* of the first that marked; 0: nobody did */
  int32_t epoch; /* that began last */
  uint32_t n_marks;
  uint32_t rank;    /* + 1, of a group with the key of a process; 0: that has none */
  int64_t ended_ns; /* when its loops have ended last */
  int32_t after;    /* the number of what follows them; 0: a loop is under way */
  uint32_t unused;
};
#define RANK_KEY (UINT64_C(1) << 63)

struct process {
  uint64_t key; /* its id, and the ticks at which the kernel started it; 0: free */
  int64_t start_ns, end_ns;
  /*
   * At its end: rchar and wchar of /proc/self/io, which count children that it has
   * waited for, too, and its own read_bytes and write_bytes. UINT64_MAX: unknown.
   */
  uint64_t io[4];
  uint32_t group;     /* of its own, by its rank or its marks; 0: that of its parent */
  uint32_t parent;    /* place of the nearest known ancestor, + 1; 0: there is none */
  int64_t marked_ns;  /* when it has marked last */
  uint32_t marked;    /* the last epoch that it has marked, + 1; 0: none */
  uint32_t has_loops; /* whether a hook counts its epochs */
};
#define PID_BITS 22 /* the kernel's largest process id is 2^22 */

struct escaped {
  uint32_t reason; /* an enum escape; 0: free, or not complete yet */
  char path[ESCAPED_BYTES];
};

struct table {
  char magic[16];
  uint32_t version, header_bytes;
  uint64_t file_bytes, seed;
  uint64_t n_files, n_slots, n_events, n_processes; /* n_events: a power of two */
  uint64_t slots_at, ids_at, readers_at, events_at, processes_at;
  uint64_t device;                   /* st_dev of the dataset's files */
  uint32_t is_virtual, wants_closes; /* is_virtual: the first root does not exist */
  uint32_t drops_gfs, drops_lfs;     /* pages after a file's last close on the node */
  uint32_t n_roots;
  uint32_t root_bytes[N_ROOTS];
  uint32_t real_bytes, lfs_bytes, links_bytes;
  char roots[N_ROOTS][FOLDER_BYTES];
  char real[FOLDER_BYTES], lfs[FOLDER_BYTES], links[FOLDER_BYTES];
  _Alignas(64) uint64_t generation; /* changes with each membership in a group */
  _Alignas(64) uint64_t n_noted;    /* events so far */
  _Alignas(64) uint64_t counts[N_COUNTS];
  struct group groups[N_GROUPS];
  struct escaped escaped[N_ESCAPED];
};

_Static_assert(sizeof(struct event) == 32, "as in Python");
_Static_assert(sizeof(struct process) == 80, "as in Python");
_Static_assert(sizeof(struct group) == 40, "as in Python");

#endif
