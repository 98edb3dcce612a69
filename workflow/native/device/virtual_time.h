/*
 * Virtual time: the queues decide how long a call takes, and no process sleeps.
 *
 * The state is a file that all processes of a launch map. It
 * holds the stations of the devices and of the network between nodes, a lock, and the
 * actors of each process:
 *
 *     reader    makes the calls below an epoch's alias, whichever thread issues them
 *     consumer  asks for batches and takes them
 *     copiers   one for each thread that copies for the node, in its first process
 *     workers   in place of reader and copiers, if several read batches of a process
 *
 * A thread may act for an actor of this process or another (`tierscope_clock_act`): its
 * calls then advance that actor's clock. So a server reads on the clock of the process
 * that sent the request.
 *
 * Every actor has its own clock, in whole nanoseconds. An actor is
 *
 *     idle      outside of epochs; a consumer runs there until it reaches a barrier
 *     running   its thread computes; its next action happens at its clock or later
 *     waiting   it has arrived at a station at its clock, and waits for its turn
 *     blocked   it waits for another actor, which will set its clock; no actor waits
 * for it
 *
 * Order. An arrival is handled only when no actor can make an earlier one: the clocks
 * of all running actors that can still make an arrival are later, and among the waiting
 * actors it is the first by (nanosecond, kind, rank, role).
 * tierscope.model.simulator.loop has the same order, so simulated and emulated times
 * are equal. The actor that changes the state handles all arrivals that have become
 * possible (`advance`), for all actors; threads are woken only when their whole call is
 * done.
 *
 * Turns. An actor that reports to a node's policy, or asks it, first arrives for a
 * turn. When it has its turn it runs, so all others wait until its next arrival:
 * everything that the policy decides meanwhile happens at this instant, whatever the
 * sockets do.
 *
 * Peers. A process that reads a file of another node sends a request to its owner.
 * After one message latency the request needs one of the owner's server threads; the
 * first request to arrive is served first. A real thread reads the file on the clock of
 * the requesting process. Then the file leaves by the owner's link and arrives by the
 * requester's link, both at the same time if both are free. When its last byte has
 * left, the server thread is free again.
 *
 * Batches. The lock of the buffer of tf.data is not visible to us, so its rule is
 * modelled here. Batch b is ready when the last byte of its last file has come and the
 * sample's processor time is over. The reader then needs a free place: it is blocked
 * until batch b + 1 - prefetch has been taken (prefetch 0: until batch b + 1 is
 * requested). Its thread may continue to deliver the batch; its next call waits. A last
 * batch that is not full is ready after the close of its last file, because only then
 * the end is found.
 *
 * Workers. Batches can be read by workers, as PyTorch's DataLoader has them: batch b is
 * sent to worker b mod W when batch b - depth is taken, and is ready when the worker
 * delivers it. Here the threads of the workers say when they wait and deliver.
 *
 * No process waits for ever: every wait checks `stopped` ten times a second.
 */
#ifndef TIERSCOPE_VIRTUAL_TIME_H
#define TIERSCOPE_VIRTUAL_TIME_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#pragma GCC visibility push(hidden)

#define RING 256         /* batches whose instants are remembered */
#define MOST_TOKENS 4096 /* that a process gives in an epoch */
#define MOST_COPIERS 64  /* and workers */
enum role {
  READER,
  CONSUMER,
  COPIER,
  WORKER = COPIER,
  N_ROLES = COPIER + MOST_COPIERS
};
enum actor_state { IDLE, RUNNING, WAITING, BLOCKED };
/*
 * What an actor arrives for; at one instant, what ends comes before what begins. The
 * numbers are those of tierscope.model.simulator.loop.
 */
enum kind {
  COPIED,
  ENDED,
  CLOSING = 3,
  ON_LINK,
  ON_OUT_LINK,
  ON_IN_LINK,
  REQUESTING,
  OPENING,
  ASKING_OWNER,
  STARTING,
  ENDING_EPOCH,
  N_KINDS
};
enum reason {
  FOR_NOTHING,
  FOR_BATCH,
  FOR_PLACE,
  FOR_BARRIER,
  FOR_THREAD,
  FOR_COPIES,
  FOR_GROUP,
  FOR_TOKEN
};
/* The actor that reports reads that have ended to a node's policy. */
enum teller { NOBODY, THE_READER, THE_CONSUMER };

struct actor {
  int64_t clock_ns;
  int64_t start_ns, end_ns; /* of its last call */
  int64_t bytes, bytes_left;
  int64_t ticket;          /* place in the line for a server thread, or a batch */
  uint32_t device, server; /* or the nodes of the owner and of the requester */
  int32_t state, kind, reason;
  int32_t is_loading;        /* its call belongs to the reads of its epoch */
  _Atomic int32_t is_served; /* the end of its call is known */
  _Atomic int32_t bell, n_sleepers;
};

struct process {
  struct actor actors[N_ROLES];
  int64_t n_files, file_bytes, batch_size, prefetch, sample_ns; /* of its epoch */
  int64_t n_batches, n_workers, depth;                          /* if workers read */
  int64_t is_followed;        /* others wait for its consumer in the epoch */
  int64_t teller, is_planned; /* from then on to the barrier */
  int64_t n_bytes, n_closed, n_ready, n_asked, n_taken;
  int64_t has_ended, end_ns;
  int64_t ready_ns[RING], taken_ns[RING];
  int64_t delivered[RING]; /* by a worker: the number of the next batch */
  int64_t group;           /* at whose meeting the consumer is */
  int64_t giver, token;    /* which token of whom it waits for */
  int64_t n_given, given_ns[MOST_TOKENS];
};

/* What a node has for others: server threads, a link out and one in. */
struct node {
  int64_t n_busy, n_tickets, out_free_ns, in_free_ns;
};

struct virtual_state {
  int64_t magic, n_devices, n_processes, bytes;
  pthread_mutex_t lock;
  _Atomic int32_t stopped;
  _Atomic int64_t n_events;
  int32_t n_arrived;                             /* at the barrier */
  int32_t n_roles;                               /* those behind are idle everywhere */
  int64_t n_server_threads, way_ns, transfer_ns; /* of the network */
  struct process processes[];
};

/* A device's stations and counters, behind the processes and the nodes. */
struct stations {
  int64_t n_opens, n_closes, n_requests, n_bytes;
  int64_t metadata_free_ns, link_free_ns, server_free_ns[];
};

extern struct virtual_state *shared; /* NULL: no virtual time in this process */
extern struct process *me;           /* NULL: not yet an actor */

/* Let a call take its time. False if the launch was stopped: the call has failed. */
bool take_time(bool is_below_alias, enum kind kind, uint32_t number, uint32_t server,
               int64_t bytes);

/* Use a mapped state in this process. */
void attach_state(const char *file, char *map, size_t bytes, uint32_t n_devices);

#pragma GCC visibility pop

#endif
