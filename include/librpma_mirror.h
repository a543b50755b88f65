/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * librpma_mirror: a range of persistent memory with copies on several machines. librpma_mirror(7) is the introduction.
 *
 * The copies of a set are numbered 0 to 15. The local copy is memory of this machine, to which the program stores. Each
 * other copy is stored by a target, a daemon `rpmemd --listen`. All copies have the same offsets. Only one program at a
 * time can write to a set: librpma_mirror(7) and docs/replication.md describe how this is ensured.
 *
 * The following applies to each function unless its comment states an exception.
 *
 * Return value   0 on success, or a negative RPMA_MIRROR_E_* code. rpma_mirror_error_message() describes the error to
 *                the same thread. Arguments are checked first. Each function can return RPMA_MIRROR_E_INVAL and
 *                RPMA_MIRROR_E_NOMEM, and a function of a mirror the code with which the mirror has failed.
 * Outputs        Written on success only.
 * Units          Offsets and lengths are in bytes.
 * Structures     Start with their size, which the caller sets to sizeof. Later versions can append members; members
 *                that the library lacks are set to 0.
 * Ownership      Strings and structures are read during the call only. The contexts of functions must stay valid until
 *                rpma_mirror_unmap.
 * Threads        Threads may use different objects concurrently, and call functions of one mirror concurrently, but
 *                only one thread at a time may use a lane. Lanes are not ordered. Only one thread at a time may use a
 *                cfg; calls only read it. No other call may use the mirror during rpma_mirror_unmap.
 * Blocking       Each call ends within the timeouts of the cfg, whatever the other machines do.
 */
#ifndef LIBRPMA_MIRROR_H
#define LIBRPMA_MIRROR_H 1

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Error codes */

#define RPMA_MIRROR_E_INVAL (-110000)      /* an argument is NULL, out of range or contradicts another */
#define RPMA_MIRROR_E_NOMEM (-110001)      /* out of memory */
#define RPMA_MIRROR_E_SYSTEM (-110002)     /* a system call failed, see errno */
#define RPMA_MIRROR_E_TIMEOUT (-110003)    /* not completed in time; the operation might take effect later */
#define RPMA_MIRROR_E_FENCED (-110004)     /* another writer owns the set; this mirror has failed permanently */
#define RPMA_MIRROR_E_ARBITER (-110005)    /* the arbiter does not respond, or the lease has expired */
#define RPMA_MIRROR_E_NO_TARGET (-110006)  /* no target is in sync, and the policy is safety; the mirror has failed */
#define RPMA_MIRROR_E_INCOMPLETE (-110007) /* a target that was in sync does not respond: start it, or use force */
#define RPMA_MIRROR_E_STALE (-110008)      /* the copy is not in sync */
#define RPMA_MIRROR_E_CONNECTION (-110009) /* the target cannot be reached, or broke the connection */
#define RPMA_MIRROR_E_REJECTED (-110010)   /* the target rejected the request */
#define RPMA_MIRROR_E_LEVEL_TOO_LOW (-110011) /* a copy is below the requested level */
#define RPMA_MIRROR_E_VERIFY (-110012)        /* data read back differs from the written data */
#define RPMA_MIRROR_E_MEDIA (-110013)         /* memory cannot be read or written back */
#define RPMA_MIRROR_E_BUSY (-110014)          /* another process has the set open, or another call works on the copy */
#define RPMA_MIRROR_E_EXISTS (-110015)        /* a copy exists already */
#define RPMA_MIRROR_E_NOT_FOUND (-110016)     /* copy, file or set not found */
#define RPMA_MIRROR_E_CANCELED (-110017)      /* stopped by the progress function; a new call continues */
#define RPMA_MIRROR_E_EVICTION_REFUSED (-110018) /* the program refused an eviction; the mirror has failed */
#define RPMA_MIRROR_E_CHANGED (-110019)          /* the local file was replaced or resized: put the right file back */
#define RPMA_MIRROR_E_UNFOUND (-110020)          /* the last writer may have written alone: open there, or use force */
#define RPMA_MIRROR_E_DOWN (-110021)             /* no copy that was in sync responds, even by force: start a target */
#define RPMA_MIRROR_E_INTERRUPTED (-110022)      /* a target was lost during the opening: open again */
#define RPMA_MIRROR_E_UNCLEAN (-110023)          /* no target confirmed the end: the next opening needs one of them */
#define RPMA_MIRROR_E_UNFENCED (-110024)         /* a target in sync made no promise: fence the writer again */
#define RPMA_MIRROR_E_AGAIN (-110025)            /* no consistency point in time: the previous image is still valid */

/* Returns a static English string for an error code, never NULL. */
const char *rpma_mirror_err_2str(int error);

/* Returns the description of the last error of this thread in one line, or "". Valid until the next call. */
const char *rpma_mirror_error_message(void);

/* Configuration of a set */

#define RPMA_MIRROR_MAX_COPIES 16

struct rpma_mirror_cfg;

/* Behavior when no target is in sync. */
enum rpma_mirror_policy {
    RPMA_MIRROR_POLICY_SAFETY,      /* the writer stops, and never acknowledges alone; default */
    RPMA_MIRROR_POLICY_AVAILABILITY /* the writer continues, and the record contains this */
};

/* Persistence of flushed data, weakest first. */
enum rpma_mirror_level {
    RPMA_MIRROR_LEVEL_VOLATILE,     /* in memory that loses its content without power: redundant only */
    RPMA_MIRROR_LEVEL_WRITTEN_BACK, /* written back to the device of an ordinary file */
    RPMA_MIRROR_LEVEL_CPU_FLUSHED,  /* in persistent memory, flushed from the processor's caches */
    RPMA_MIRROR_LEVEL_DIRECT_WRITE, /* in persistent memory, bypassing caches, as the operator declared */
    RPMA_MIRROR_LEVEL_NATIVE_FLUSH  /* in persistent memory, flushed by the RDMA devices of both sides */
};

enum rpma_mirror_device {
    RPMA_MIRROR_DEVICE_ANY, /* kernel if the target has one, else softrdma; here preferably the same; default */
    RPMA_MIRROR_DEVICE_KERNEL,
    RPMA_MIRROR_DEVICE_SOFTRDMA
};

/* Creates an empty configuration: policy safety, arbiter operator, one lane, timeouts of 2000 ms for an operation and
 * 10000 ms for opening, any level, any device. Release it with rpma_mirror_cfg_delete. */
int rpma_mirror_cfg_new(struct rpma_mirror_cfg **cfg_ptr);
/* Deletes the configuration and sets *cfg_ptr to NULL. Mirrors do not need it. Accepts a NULL *cfg_ptr. */
int rpma_mirror_cfg_delete(struct rpma_mirror_cfg **cfg_ptr);

/* Creates a configuration from a set file, whose lines librpma_mirror(7) describes. RPMA_MIRROR_E_NOT_FOUND,
 * RPMA_MIRROR_E_SYSTEM: it cannot be read. RPMA_MIRROR_E_INVAL: the message contains line and error. */
int rpma_mirror_cfg_from_file(const char *path, struct rpma_mirror_cfg **cfg_ptr);

/*
 * Sets the local copy: its number, its file or device DAX, and its length. With path NULL the copy is anonymous memory,
 * redundant but not durable. With length 0 the length is that of the file. state_path is the file for the state of the
 * copy; NULL selects PATH.mirror.
 */
int rpma_mirror_cfg_set_local_copy(
        struct rpma_mirror_cfg *cfg, unsigned copy, const char *path, size_t length, const char *state_path);

/* Adds a target: the number of its copy, "ADDRESS:PORT" of its rpmemd, and its poolset. */
int rpma_mirror_cfg_add_target(struct rpma_mirror_cfg *cfg, unsigned copy, const char *target, const char *poolset);

/* Sets the file with the key of this client, one line NAME:KEY with hexadecimal digits, which other users must not be
 * able to read. Each call that connects reads it. */
int rpma_mirror_cfg_set_key_file(struct rpma_mirror_cfg *cfg, const char *path);

int rpma_mirror_cfg_set_policy(struct rpma_mirror_cfg *cfg, enum rpma_mirror_policy policy);
int rpma_mirror_cfg_set_device(struct rpma_mirror_cfg *cfg, enum rpma_mirror_device device);

/* Sets the arbiter: "operator", or "etcd URL ...", as in the line `arbiter` of a set file. RPMA_MIRROR_E_INVAL: the
 * arbiter is unknown or not installed. */
int rpma_mirror_cfg_set_arbiter(struct rpma_mirror_cfg *cfg, const char *arbiter);

/* Sets the minimum persistence level. Opening the set or connecting a target fails if a copy has a lower level. Levels
 * above CPU_FLUSHED apply to targets; the local copy then needs CPU_FLUSHED. Default: VOLATILE. */
int rpma_mirror_cfg_set_min_level(struct rpma_mirror_cfg *cfg, enum rpma_mirror_level level);

/* Sets timeouts in milliseconds, 1 to 3600000. operation_ms limits an operation before the target is evicted, and then
 * the commit of the eviction. It restarts with each chunk of 1 MiB that the target has received. A flush with
 * RPMA_MIRROR_F_LAST_RANGE_ORDERED consists of two operations. open_ms limits opening, without resynchronization. */
int rpma_mirror_cfg_set_timeouts(struct rpma_mirror_cfg *cfg, unsigned operation_ms, unsigned open_ms);

/* Evicts a target that confirms `count` consecutive flushes, each more than late_ms milliseconds after its start, while
 * another target in sync responds. Default: count 0, which disables this. */
int rpma_mirror_cfg_set_slow_limit(struct rpma_mirror_cfg *cfg, unsigned count, unsigned late_ms);

/* Reserves addresses for `length` bytes when the set is opened, so that the open set can grow to this length. A
 * multiple of 4096, at most 64 TiB. The reservation uses no memory. Default: 0, the set has its length until it is
 * closed. */
int rpma_mirror_cfg_set_max_length(struct rpma_mirror_cfg *cfg, size_t length);

/* Sets the number of lanes, 1 to 1023, and the maximum of outstanding ranges of each, 2 to 65536 (default 128). */
int rpma_mirror_cfg_set_lanes(struct rpma_mirror_cfg *cfg, unsigned lanes, unsigned depth);

/* Events and errors */

enum rpma_mirror_event_type {
    RPMA_MIRROR_EVENT_EVICTED = 1,    /* a copy left the set durably; flushes continue without it */
    RPMA_MIRROR_EVENT_NO_TARGET,      /* no target is in sync */
    RPMA_MIRROR_EVENT_FENCED,         /* another writer owns the set */
    RPMA_MIRROR_EVENT_LEASE_EXPIRED,  /* the lease has expired */
    RPMA_MIRROR_EVENT_RESYNC_STARTED, /* resynchronization of a copy started */
    RPMA_MIRROR_EVENT_IN_SYNC,        /* a copy is in sync */
    RPMA_MIRROR_EVENT_ADDED,
    RPMA_MIRROR_EVENT_REMOVED,
    RPMA_MIRROR_EVENT_MEDIA,            /* memory of a copy cannot be read or written back */
    RPMA_MIRROR_EVENT_REPAIRED,         /* a range was rewritten from another copy */
    RPMA_MIRROR_EVENT_EVICTION_REFUSED, /* the program refused an eviction */
    RPMA_MIRROR_EVENT_GROWN             /* the set has a new length, see rpma_mirror_get_length */
};

/* Kind of an error; see the recovery table of librpma_mirror(7) for the possible actions of a program. */
enum rpma_mirror_error_kind {
    RPMA_MIRROR_ERROR_NONE,
    RPMA_MIRROR_ERROR_CONNECTION,
    RPMA_MIRROR_ERROR_TIMEOUT,
    RPMA_MIRROR_ERROR_MEDIA,
    RPMA_MIRROR_ERROR_VERIFY,
    RPMA_MIRROR_ERROR_FENCED,
    RPMA_MIRROR_ERROR_REJECTED
};

struct rpma_mirror_error {
    uint32_t size;
    uint32_t copy;
    enum rpma_mirror_error_kind kind;
    int code;           /* RPMA_MIRROR_E_* */
    int os_errno;       /* an errno, or 0 */
    uint32_t precise;   /* offset and length are exact; otherwise the whole copy can be affected */
    uint32_t contained; /* wrong data has not reached another copy or a caller */
    uint32_t live;      /* the program can continue */
    uint64_t offset;
    uint64_t length;
};

struct rpma_mirror_event {
    uint32_t size;
    enum rpma_mirror_event_type type;
    uint32_t copy;
    uint64_t epoch;
    uint64_t version;
    struct rpma_mirror_error error; /* kind NONE without an error */
};

/* Event function. The thread that detected the event calls it, which can be a thread of the library. During the call
 * functions of the same mirror that need the membership fail with RPMA_MIRROR_E_BUSY. */
typedef void (*rpma_mirror_event_function)(void *context, const struct rpma_mirror_event *event);
int rpma_mirror_cfg_set_event_function(struct rpma_mirror_cfg *cfg, rpma_mirror_event_function function, void *context);

/*
 * Eviction function, called before a failed copy that was in sync is evicted. error contains the copy and the reason.
 * If it returns 0, the copy is evicted and an event follows. Otherwise the mirror fails: no flush is acknowledged
 * without the copy, the record still contains it, and outstanding calls fail with RPMA_MIRROR_E_EVICTION_REFUSED. It is
 * not called for the last target with the policy safety, if another writer owns the set, for a copy that was not in
 * sync, and by rpma_mirror_remove_target().
 *
 * Thread and restrictions are those of the event function. The function is called once for each copy. Calls that wait
 * for the copy or change the membership wait for the function. A lease of the arbiter can expire in the meantime.
 */
typedef int (*rpma_mirror_eviction_function)(void *context, const struct rpma_mirror_error *error);
int rpma_mirror_cfg_set_eviction_function(
        struct rpma_mirror_cfg *cfg, rpma_mirror_eviction_function function, void *context);

/* Progress of a long call. The progress function returns 0 to continue; otherwise the call ends with
 * RPMA_MIRROR_E_CANCELED. */
enum rpma_mirror_phase {
    RPMA_MIRROR_PHASE_COMPARE,
    RPMA_MIRROR_PHASE_COMMIT
};
struct rpma_mirror_progress {
    uint32_t size;
    uint32_t copy;
    enum rpma_mirror_phase phase;
    uint32_t seconds_left; /* at the current rate; UINT32_MAX if unknown */
    uint64_t compared_bytes;
    uint64_t total_bytes;
    uint64_t sent_bytes;       /* sent because they, or the batch before, differed */
    uint64_t bytes_per_second; /* rate of compared_bytes */
};
typedef int (*rpma_mirror_progress_function)(void *context, const struct rpma_mirror_progress *progress);

struct rpma_mirror_resync_options {
    uint32_t size;
    uint32_t flags;                         /* 0 */
    uint64_t bytes_per_second;              /* 0 for no limit */
    rpma_mirror_progress_function progress; /* may be NULL */
    void *context;
};

/* Sets the options of resynchronization during opening; options may be NULL. Several threads can call the progress
 * function concurrently, each for another copy. If it stops, the opening fails with RPMA_MIRROR_E_CANCELED. */
int rpma_mirror_cfg_set_resync_options(struct rpma_mirror_cfg *cfg, const struct rpma_mirror_resync_options *options);

/* Sets whether the library resynchronizes targets that are not in sync and respond again (default 1), in the
 * background, and the rate for each of them (default 104857600; 0 for no limit). */
int rpma_mirror_cfg_set_background_resync(struct rpma_mirror_cfg *cfg, int enabled, uint64_t bytes_per_second);

/* Sets whether the open set serves rpma-mirror(1) on a local socket beside the state file (default 1). The socket has
 * the permissions of the state file. A set whose local copy is anonymous memory has no socket. */
int rpma_mirror_cfg_set_admin_socket(struct rpma_mirror_cfg *cfg, int enabled);
/* Stores the path of the socket. The caller releases *path with free(3). RPMA_MIRROR_E_NOT_FOUND: the set has none. */
int rpma_mirror_cfg_get_admin_socket(const struct rpma_mirror_cfg *cfg, char **path);

/* Creating, opening and closing a set */

struct rpma_mirror;

#define RPMA_MIRROR_F_FORCE (1 << 0) /* open without a target in sync that does not respond: its data is lost */

/*
 * Creates a set: the local file if it is missing, its state, and a copy on each target. The targets create the parts of
 * their poolsets. The set is not opened. RPMA_MIRROR_E_EXISTS: the local copy or that of a target has a state.
 * RPMA_MIRROR_E_CONNECTION, RPMA_MIRROR_E_REJECTED, RPMA_MIRROR_E_TIMEOUT, RPMA_MIRROR_E_SYSTEM.
 */
int rpma_mirror_create(const struct rpma_mirror_cfg *cfg);

/*
 * MAP: opens the set. Maps the local copy, at hint if possible (NULL for any address), connects the targets, fences the
 * previous writer, selects the newest copy, resynchronizes the others from it, and registers the memory. Stores the
 * address of the local copy. On another machine this is the promotion of that machine.
 * RPMA_MIRROR_E_INCOMPLETE, RPMA_MIRROR_E_UNFOUND, RPMA_MIRROR_E_DOWN, RPMA_MIRROR_E_INTERRUPTED,
 * RPMA_MIRROR_E_FENCED (another machine opens it at the same time), RPMA_MIRROR_E_ARBITER,
 * RPMA_MIRROR_E_LEVEL_TOO_LOW, RPMA_MIRROR_E_BUSY, RPMA_MIRROR_E_NOT_FOUND, RPMA_MIRROR_E_CONNECTION,
 * RPMA_MIRROR_E_REJECTED, RPMA_MIRROR_E_TIMEOUT, RPMA_MIRROR_E_SYSTEM. RPMA_MIRROR_E_CHANGED: the local file has
 * another length, or was replaced or changed and no target in sync responds.
 */
int rpma_mirror_map(
        const struct rpma_mirror_cfg *cfg, void *hint, unsigned flags, void **address, struct rpma_mirror **mirror_ptr);

/* Like rpma_mirror_map, but for page-aligned memory that the program has mapped: the local file of the cfg or, without
 * one, memory that is not durable. It must stay mapped until rpma_mirror_unmap. */
int rpma_mirror_map_memory(const struct rpma_mirror_cfg *cfg, void *address, size_t length, unsigned flags,
        struct rpma_mirror **mirror_ptr);

/*
 * UNMAP: waits for outstanding flushes, makes the copies in sync equal, including data that was stored and not flushed,
 * records that the set is clean, and closes it. The call takes as long as a comparison of the copies. A target that is
 * lost in the meantime is evicted. *mirror_ptr becomes NULL except after RPMA_MIRROR_E_BUSY; NULL is accepted.
 * RPMA_MIRROR_E_UNCLEAN, or with the policy safety RPMA_MIRROR_E_NO_TARGET: the last targets in sync did not confirm
 * the end, and the next opening needs them. RPMA_MIRROR_E_TIMEOUT: a target did not respond within the timeout of
 * opening; the set is closed as by a crash. RPMA_MIRROR_E_BUSY: called in a callback of this mirror, without effect.
 */
int rpma_mirror_unmap(struct rpma_mirror **mirror_ptr);

/* Like rpma_mirror_unmap, but the program declares that it has flushed everything that it stored since the opening: the
 * copies are not compared. The library compares them nevertheless if a flush failed, or a verification found a
 * difference. Stores that were not flushed remain in the local copy only, and no later opening detects them. */
int rpma_mirror_unmap_flushed(struct rpma_mirror **mirror_ptr);

int rpma_mirror_get_length(const struct rpma_mirror *mirror, size_t *length);

/*
 * Grows an open set, whose address does not change. When the call returns 0, the length is durable on each copy in
 * sync, and the new bytes are zero. Other threads can flush during the call; flushes pause while the targets connect
 * again. The conditions are those of rpma_mirror_grow_closed, and the limit is that of rpma_mirror_cfg_set_max_length.
 * A target that cannot be extended, or does not respond, leaves the length unchanged. One that is lost later is
 * evicted. RPMA_MIRROR_E_INVAL: the set is longer, or the limit is exceeded, or the program mapped the memory.
 * RPMA_MIRROR_E_BUSY: a resync or verification that the program started is running, or another growth.
 * RPMA_MIRROR_E_REJECTED, RPMA_MIRROR_E_SYSTEM: a copy cannot be extended. RPMA_MIRROR_E_TIMEOUT,
 * RPMA_MIRROR_E_CONNECTION, and the errors of a flush.
 */
int rpma_mirror_grow(struct rpma_mirror *mirror, size_t length);

/* Flushes */

struct rpma_mirror_range {
    uint64_t offset;
    uint64_t length;
};

/* Maximum number of ranges of one call. */
#define RPMA_MIRROR_MAX_RANGES 1024

#define RPMA_MIRROR_F_LAST_RANGE_ORDERED (1 << 1) /* make the last range durable after all others (tail of a log) */
#define RPMA_MIRROR_F_DEEP (1 << 2)               /* flush to the deepest level that software reaches on each copy */

/*
 * OPTIMIZED_FLUSH: makes the ranges durable on each copy in sync. The ranges are neither atomic nor ordered; words of 8
 * bytes are not torn. If a mixture of old and new data matters, they must not change during the call. A target that
 * fails is evicted durably before the function returns 0. n_ranges may be 0.
 *
 * After an error, any part of the ranges can be durable on any copy. The call may be repeated, except after
 * RPMA_MIRROR_E_FENCED, RPMA_MIRROR_E_NO_TARGET, RPMA_MIRROR_E_ARBITER and RPMA_MIRROR_E_EVICTION_REFUSED: the mirror
 * has failed. RPMA_MIRROR_E_MEDIA: the local copy cannot be written back, or part of it is not repaired
 * (rpma_mirror_repair_range). RPMA_MIRROR_E_ARBITER.
 */
int rpma_mirror_optimized_flush(struct rpma_mirror *mirror, unsigned lane, const struct rpma_mirror_range *ranges,
        size_t n_ranges, unsigned flags);

/* Starts a flush. The ranges must not change before it has completed. Stores the ticket for rpma_mirror_flush_wait. A
 * later flush of the lane is not durable before this one. RPMA_MIRROR_F_LAST_RANGE_ORDERED is not supported. */
int rpma_mirror_flush_start(struct rpma_mirror *mirror, unsigned lane, const struct rpma_mirror_range *ranges,
        size_t n_ranges, unsigned flags, uint64_t *ticket);
/* Waits for the flush and all earlier ones of the lane, at most timeout_ms milliseconds; -1 selects the timeout of
 * operations. RPMA_MIRROR_E_TIMEOUT: the flush is outstanding. Otherwise errors are as rpma_mirror_optimized_flush. */
int rpma_mirror_flush_wait(struct rpma_mirror *mirror, unsigned lane, uint64_t ticket, int timeout_ms);

/* Maximum number of tickets of a lane that are not complete; rpma_mirror_flush_start waits beyond it. */
#define RPMA_MIRROR_MAX_TICKETS 64

/*
 * Returns a descriptor for an event loop: it becomes readable (POLLIN) when tickets of the lane are complete, when
 * rpma_mirror_flush_take must check a target, and when the mirror fails. It can be readable without a complete ticket.
 * rpma_mirror_flush_take makes it unreadable; the program must not read from it. The mirror owns it, and
 * rpma_mirror_unmap closes it. Each call for the lane returns the same descriptor. Counts as a use of the lane.
 * RPMA_MIRROR_E_INVAL: the lane is out of range. RPMA_MIRROR_E_SYSTEM: the descriptor cannot be created.
 */
int rpma_mirror_get_lane_fd(struct rpma_mirror *mirror, unsigned lane, int *fd);

/*
 * Returns without waiting the tickets of the lane that are complete: durable on each copy in sync. *n_tickets contains
 * the capacity of tickets and receives their number, 0 if none is complete. Each ticket is returned once, and not if
 * rpma_mirror_flush_wait returned 0 for it or a later one. The order is unspecified. If more are complete than fit, the
 * descriptor stays readable. A target that fails, is silent for the timeout of operations, or is too slow is evicted by
 * a thread of the library; its tickets are complete afterwards.
 *
 * RPMA_MIRROR_E_INVAL: the lane is out of range, or tickets or n_tickets is NULL. RPMA_MIRROR_E_FENCED,
 * RPMA_MIRROR_E_NO_TARGET, RPMA_MIRROR_E_ARBITER, RPMA_MIRROR_E_EVICTION_REFUSED and other codes with which the mirror
 * has failed: outstanding tickets are not acknowledged.
 */
int rpma_mirror_flush_take(struct rpma_mirror *mirror, unsigned lane, uint64_t *tickets, size_t *n_tickets);

/* Method by which the content of a copy was verified. */
enum rpma_mirror_verify_level {
    RPMA_MIRROR_VERIFY_NONE,
    RPMA_MIRROR_VERIFY_CACHE, /* read back through the memory system, perhaps from a cache */
    RPMA_MIRROR_VERIFY_MEDIA  /* read back from the medium */
};

/*
 * OPTIMIZED_FLUSH_AND_VERIFY: flushes, reads back from each copy in sync, and compares. Unless level is NULL, stores
 * the weakest method of verification; RPMA_MIRROR_VERIFY_NONE if no target remained. A target that is lost while it is
 * read is evicted, as by a flush. RPMA_MIRROR_E_VERIFY: *first_mismatch, unless NULL, contains the location. The copy
 * stays in the set; the program can repair or remove it.
 */
int rpma_mirror_optimized_flush_and_verify(struct rpma_mirror *mirror, unsigned lane,
        const struct rpma_mirror_range *ranges, size_t n_ranges, unsigned flags, enum rpma_mirror_verify_level *level,
        struct rpma_mirror_error *first_mismatch);

/* SYNC: flushes one range. flags: RPMA_MIRROR_F_DEEP or 0. */
int rpma_mirror_sync(struct rpma_mirror *mirror, unsigned lane, uint64_t offset, uint64_t length, unsigned flags);

/* Stores value atomically at offset, a multiple of 8, in the local copy and on each copy in sync, after all earlier
 * flushes of the lane are durable. Returns when value is durable. */
int rpma_mirror_atomic_write(struct rpma_mirror *mirror, unsigned lane, uint64_t offset, uint64_t value);

/*
 * Sets a consistency point: all data that was flushed before, on all lanes, is consistent for the program. The program
 * chooses the number of the point, which is stored in the record of the set. When the function returns 0, the number is
 * durable on each copy in sync. The recovery report and the state of a later opening contain it, or a later one. Older
 * content is not retained, and later flushes can be present. A target that fails is evicted first. The call takes
 * several writes to a disk.
 *
 * If a reader waits for a consistency point, a target copies the set during the call, which takes at most 100 ms. The
 * copy is consistent only if no other flush is outstanding or starts during the call. The number must differ from that
 * of the last point.
 *
 * After an error the previous point or this one can be stored; the call may be repeated with the exceptions of
 * rpma_mirror_optimized_flush. RPMA_MIRROR_E_BUSY: called in a callback of this mirror. RPMA_MIRROR_E_SYSTEM,
 * RPMA_MIRROR_E_EVICTION_REFUSED.
 */
int rpma_mirror_set_consistency_point(struct rpma_mirror *mirror, uint64_t point);

/* Reads a range of a copy in sync to dst. RPMA_MIRROR_E_STALE. RPMA_MIRROR_E_CONNECTION: the copy was evicted. */
int rpma_mirror_read(
        struct rpma_mirror *mirror, unsigned lane, unsigned copy, void *dst, uint64_t offset, uint64_t length);

/* State */

enum rpma_mirror_copy_state {
    RPMA_MIRROR_COPY_ABSENT,    /* not in the set */
    RPMA_MIRROR_COPY_OFFLINE,   /* does not respond */
    RPMA_MIRROR_COPY_STALE,     /* lacks acknowledged data */
    RPMA_MIRROR_COPY_RESYNCING, /* resynchronizing: receives each flush, without being waited for */
    RPMA_MIRROR_COPY_IN_SYNC
};

struct rpma_mirror_copy {
    enum rpma_mirror_copy_state state;
    enum rpma_mirror_level level; /* while connected */
    uint32_t is_local;            /* 1 for the local copy of this machine */
    int last_error;               /* RPMA_MIRROR_E_*, or 0 */
    uint64_t promised_epoch;      /* highest known promise */
    uint64_t record_epoch;        /* epoch of the newest known record of the copy */
    uint64_t record_version;
    uint64_t cursor;    /* position of a resync, in bytes */
    char location[272]; /* "ADDRESS:PORT", or the path of the local copy; empty for anonymous memory */
    char poolset[256];  /* poolset of a target */
};

struct rpma_mirror_state {
    uint32_t size;
    uint32_t is_open; /* 1 if this process has the set open */
    unsigned char uuid[16];
    uint64_t length;
    uint64_t epoch; /* epoch of the newest record */
    uint64_t version;
    uint64_t writer;
    enum rpma_mirror_policy policy;
    uint32_t clean;               /* 1 if the writer closed the set, and all copies in sync are equal */
    uint32_t members;             /* copies as bits */
    uint32_t in_sync;             /* copies as bits */
    enum rpma_mirror_level level; /* the weakest of the copies in sync */
    struct rpma_mirror_copy copies[RPMA_MIRROR_MAX_COPIES];
    uint64_t consistency_point; /* last consistency point, or 0 */
};

int rpma_mirror_get_state(struct rpma_mirror *mirror, struct rpma_mirror_state *state);

/* Like rpma_mirror_get_state, but for a set that this process does not have open: queries the targets, without changes.
 * A copy that does not respond is OFFLINE, which is not an error. A target with a copy of another set is STALE, with
 * the last error RPMA_MIRROR_E_NOT_FOUND. If another process has the set open, the last error
 * of the local copy is RPMA_MIRROR_E_BUSY. */
int rpma_mirror_inspect(const struct rpma_mirror_cfg *cfg, struct rpma_mirror_state *state);

/* Attributes of a copy, as NVM.PM.FILE of the SNIA's programming model defines them. */
struct rpma_mirror_attributes {
    uint32_t size;
    enum rpma_mirror_level level;
    uint32_t interrupted_store_atomicity; /* size of an aligned store that is not torn, in bytes: 8 */
    uint32_t atomicity_guaranteed;        /* 1 if the device guarantees it; 0 if assumed of the platform */
    uint32_t map_copy_on_write;           /* 0, because mappings are shared */
    uint32_t fundamental_error_range;     /* bytes that are lost together when a cell fails */
    uint32_t fundamental_error_offset;
    uint32_t optimized_flush_capable;
    uint32_t optimized_flush_allowed; /* allowed without a system call */
    uint32_t optimized_flush_and_verify_capable;
    enum rpma_mirror_verify_level verify_level;
    uint32_t deep_flush_capable;
    uint32_t error_event_capable; /* events are reported */
    uint32_t error_event_precise; /* errors contain the range */
    uint32_t error_event_live;    /* and the program can continue */
};

/* Returns the attributes of a copy; RPMA_MIRROR_ALL_COPIES selects the weakest of the copies in sync.
 * RPMA_MIRROR_E_NOT_FOUND.
 */
#define RPMA_MIRROR_ALL_COPIES (~0U)
int rpma_mirror_get_attributes(struct rpma_mirror *mirror, unsigned copy, struct rpma_mirror_attributes *attributes);

/* Returns a descriptor that is readable while an event is pending. The mirror owns it. */
int rpma_mirror_get_event_fd(const struct rpma_mirror *mirror, int *fd);
/* Returns the oldest of at most 256 pending events; older ones are dropped. RPMA_MIRROR_E_NOT_FOUND: no event. */
int rpma_mirror_next_event(struct rpma_mirror *mirror, struct rpma_mirror_event *event);

/* GET_ERROR_INFO: stores the last errors, at most 64, oldest first. *n_errors contains the capacity of errors and
 * receives their number; the caller sets the size of each. An error is retained until the copy is in sync, or its range
 * is repaired. */
int rpma_mirror_get_error_info(struct rpma_mirror *mirror, struct rpma_mirror_error *errors, size_t *n_errors);

struct rpma_mirror_statistics {
    uint32_t size;
    uint64_t flushes;
    uint64_t ranges;
    uint64_t bytes;
    uint64_t evictions;
    uint64_t resyncs;
    uint64_t compared_bytes; /* compared by resync and verify */
    uint64_t sent_bytes;     /* sent because they, or the batch before, differed */
    uint64_t repaired_bytes;
    uint64_t late_confirmations; /* later than the limit of rpma_mirror_cfg_set_slow_limit */
    uint64_t slow_evictions;     /* due to this limit */
};
int rpma_mirror_get_statistics(struct rpma_mirror *mirror, struct rpma_mirror_statistics *statistics);

/* Stores the state and the statistics of the set in the text format of Prometheus, for a program that serves metrics.
 * The caller releases *text with free(3). RPMA_MIRROR_E_BUSY: called in a callback of this mirror. */
int rpma_mirror_get_metrics(struct rpma_mirror *mirror, char **text);

/* Errors and repair */

/* Reads a range of a copy and reports unreadable pages. *n_errors is as in rpma_mirror_get_error_info; 0 if all are
 * readable. The local copy is read without raising SIGBUS. Each of its pages that is reported for the first time raises
 * RPMA_MIRROR_EVENT_MEDIA. */
int rpma_mirror_check(struct rpma_mirror *mirror, unsigned copy, uint64_t offset, uint64_t length,
        struct rpma_mirror_error *errors, size_t *n_errors);

/* In-line recovery: rewrites whole pages of the local copy from source, a copy in sync, or from the first readable one
 * (RPMA_MIRROR_ALL_COPIES). Data that was stored there after the last flush is lost. The local copy is registered for
 * RDMA again, between flushes. A device can reject this while another page is unreadable; flushes then fail with
 * RPMA_MIRROR_E_MEDIA until that page is repaired. RPMA_MIRROR_E_STALE. RPMA_MIRROR_E_MEDIA: the range cannot be
 * written, and the mirror has failed. The next opening rebuilds the local copy from a target, even after a crash during
 * the repair. */
int rpma_mirror_repair_range(struct rpma_mirror *mirror, uint64_t offset, uint64_t length, unsigned source);

/* Resynchronization and membership */

/*
 * Connects a target of the set that is not in sync, and resynchronizes it while the program continues: the target
 * receives each flush, and the data that differs by hash. A target that was in sync in this epoch, and whose daemon did
 * not restart, is only compared where flushes did not reach it. options may be NULL. Continues an interrupted resync of
 * the same epoch, and takes over a background resync. Returns 0 for a copy that is already in sync.
 * RPMA_MIRROR_E_CANCELED, RPMA_MIRROR_E_CONNECTION, RPMA_MIRROR_E_BUSY.
 */
int rpma_mirror_resync(struct rpma_mirror *mirror, unsigned copy, const struct rpma_mirror_resync_options *options);

struct rpma_mirror_verify_report {
    uint32_t size;
    uint32_t differing_segments;
    uint64_t compared_bytes;
    uint64_t first_difference; /* offset of the first segment that differs */
    enum rpma_mirror_verify_level level;
};

/* Compares a copy in sync with the local copy by hash. Segments that the program changes during the call are compared
 * again; unflushed stores count as different. RPMA_MIRROR_E_VERIFY: *report contains the differences. */
int rpma_mirror_verify(struct rpma_mirror *mirror, unsigned copy, const struct rpma_mirror_resync_options *options,
        struct rpma_mirror_verify_report *report);

/* Creates a copy on another target, connects and resynchronizes it. options are those of rpma_mirror_resync. */
int rpma_mirror_add_target(struct rpma_mirror *mirror, unsigned copy, const char *target, const char *poolset,
        const struct rpma_mirror_resync_options *options);
/* Removes a copy from the set, durably. After this call, no write of this writer reaches the copy.
 * RPMA_MIRROR_E_NO_TARGET: it is the last target in sync, and the policy is safety. */
int rpma_mirror_remove_target(struct rpma_mirror *mirror, unsigned copy);

/* Reason for the choice of the source. */
enum rpma_mirror_source_reason {
    RPMA_MIRROR_SOURCE_LOCAL_NEWEST,  /* the local copy has the newest record, and is in sync in it */
    RPMA_MIRROR_SOURCE_TARGET_NEWEST, /* the local copy lacks the newest record */
    RPMA_MIRROR_SOURCE_FORCED,        /* not all required copies responded */
    RPMA_MIRROR_SOURCE_LOCAL_CHANGED  /* the local file was replaced, or can have changed since the set was closed */
};

struct rpma_mirror_recovery_report {
    uint32_t size;
    uint32_t source;
    enum rpma_mirror_source_reason reason;
    uint32_t was_clean; /* 1 if the copies were equal without a comparison */
    uint32_t responded; /* copies as bits */
    uint32_t in_sync;   /* copies as bits, afterwards */
    uint64_t epoch;     /* acquired epoch */
    uint64_t compared_bytes;
    uint64_t sent_bytes;
    char reason_text[256];      /* one sentence */
    uint64_t consistency_point; /* last consistency point of the source, or 0 */
};

/*
 * Opens the set, resynchronizes all copies like rpma_mirror_map, and closes it: recovery after a crash, or promotion of
 * this machine before its program starts. Errors are as rpma_mirror_map. report may be NULL.
 */
int rpma_mirror_recover(const struct rpma_mirror_cfg *cfg, unsigned flags, struct rpma_mirror_recovery_report *report);

/*
 * Grows a set that no program has open, like rpma_mirror_recover. Each copy that responds receives the length, durably;
 * the new bytes are zero. The poolset of each target must list parts with this capacity, and other copies grow when
 * they are resynchronized. A failure before each copy is long enough changes no length. After a later failure the next
 * opening completes the growth or reverts it. The length is a multiple of 4096, and may be the present one.
 * RPMA_MIRROR_E_INVAL: the set has a larger length. RPMA_MIRROR_E_REJECTED, RPMA_MIRROR_E_SYSTEM: a copy cannot be
 * extended. RPMA_MIRROR_E_CHANGED: the local file was replaced or changed. Other errors are as rpma_mirror_map.
 */
int rpma_mirror_grow_closed(const struct rpma_mirror_cfg *cfg, size_t length);

/* Returns the report of the opening of this mirror. */
int rpma_mirror_get_recovery_report(const struct rpma_mirror *mirror, struct rpma_mirror_recovery_report *report);

/*
 * Fences the writer of a set without opening the set: each target that responds promises a higher epoch, and rejects
 * lower ones. Unless epoch is NULL, stores that epoch. RPMA_MIRROR_E_UNFENCED: a target in sync did not respond; with
 * RPMA_MIRROR_F_FORCE, one response is sufficient.
 */
int rpma_mirror_fence(const struct rpma_mirror_cfg *cfg, unsigned flags, uint64_t *epoch);

/* Reading on other machines */

/*
 * Set that is open for reading, on any machine and without a local copy. A reader acquires no epoch, and changes no
 * copy and no record. Its writer is not fenced, and waits for it only as rpma_mirror_set_consistency_point states. The
 * targets disconnect a reader that is silent for 30 s, and limit the number and memory of readers (rpmemd(1)). Only one
 * thread at a time may use a reader.
 */
struct rpma_mirror_reader;

#define RPMA_MIRROR_F_ANY_TIME (1 << 3) /* read at any time, without a consistency point */

/*
 * Reads the whole set from one target in sync, into memory of this process. timeout_ms is the time for the call, -1
 * selects the timeout of opening.
 *
 * The image is that of the first consistency point that the writer sets after the start of the call, or that of a set
 * that was closed cleanly. RPMA_MIRROR_E_AGAIN: neither occurred in time. With RPMA_MIRROR_F_ANY_TIME the target copies
 * the set at once: flushes during the copy can be in the image in part, and the program must expect any mixture.
 *
 * RPMA_MIRROR_E_DOWN: no target in sync responds. RPMA_MIRROR_E_BUSY: a limit of the target is reached.
 * RPMA_MIRROR_E_CONNECTION, RPMA_MIRROR_E_REJECTED, RPMA_MIRROR_E_TIMEOUT, RPMA_MIRROR_E_NOT_FOUND,
 * RPMA_MIRROR_E_SYSTEM.
 */
int rpma_mirror_map_read_only(
        const struct rpma_mirror_cfg *cfg, unsigned flags, int timeout_ms, struct rpma_mirror_reader **reader_ptr);

/* Reads a newer image; only segments of 64 KiB that differ are transferred. The address alternates between two: the
 * image before stays unchanged until the next call. After an error the last image is still valid. Arguments and errors
 * are those of rpma_mirror_map_read_only. */
int rpma_mirror_refresh(struct rpma_mirror_reader *reader, unsigned flags, int timeout_ms);

enum rpma_mirror_image_consistency {
    RPMA_MIRROR_IMAGE_POINT = 1, /* content at the consistency point */
    RPMA_MIRROR_IMAGE_CLOSED,    /* content at the end of the writer, which closed the set cleanly */
    RPMA_MIRROR_IMAGE_ANY_TIME   /* content at any time */
};

struct rpma_mirror_image {
    uint32_t size;
    uint32_t copy; /* from which it was read */
    const void *address;
    uint64_t length;
    enum rpma_mirror_image_consistency consistency;
    uint32_t age_is_proven; /* 0 if a target in sync did not respond, or a writer can have continued alone */
    uint64_t age_ms;        /* the image contains each flush that was acknowledged before; now - age_ms */
    uint64_t epoch;         /* epoch and version of the record of the image */
    uint64_t version;
    uint64_t consistency_point; /* last consistency point before the image, or 0 */
    uint64_t newest_point;      /* last consistency point that the targets reported */
    uint64_t refreshes;         /* number of images */
    uint64_t compared_bytes;    /* sum for all images */
    uint64_t fetched_bytes;     /* transferred, sum for all images */
};

/* Describes the last image. If its age is not proven, it can be older than age_ms. */
int rpma_mirror_get_image(const struct rpma_mirror_reader *reader, struct rpma_mirror_image *image);

/* Closes the reader, and unmaps its images. *reader_ptr becomes NULL; NULL is accepted. */
int rpma_mirror_unmap_read_only(struct rpma_mirror_reader **reader_ptr);

#ifdef __cplusplus
}
#endif

#endif /* LIBRPMA_MIRROR_H */
