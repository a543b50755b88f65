/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * librpma_mirror: a range of persistent memory of which several machines keep a copy.
 *
 * A set has copies, numbered 0 to 15. One is at home: memory of this machine, into which the program stores. The others
 * are kept by targets, each a daemon `rpmemd --listen`. Offset i of one copy is offset i of each other. One program at
 * a time may write to a set, and docs/mirror.md says how that is seen to.
 *
 * Conventions, stated once. They hold for every function below unless its comment says otherwise.
 *
 * Return value   0 on success, a negative RPMA_MIRROR_E_* code on failure, of which rpma_mirror_error_message() of the
 *                same thread says more. Arguments are checked before anything else happens.
 * Outputs        written on success only.
 * Structures     begin with their size, which the caller sets to sizeof. A later version may append members; those that
 *                the library does not have become 0.
 * Threads        different objects may be used concurrently, and so may the functions of one mirror, but each lane by
 *                one thread at a time. Nothing is ordered between lanes. A cfg is used by one thread at a time, and
 *                only read by the calls it is passed to. rpma_mirror_unmap needs the mirror to itself.
 * Blocking       each call ends within the timeouts of the cfg, whatever the other machines do.
 */
#ifndef LIBRPMA_MIRROR_H
#define LIBRPMA_MIRROR_H 1

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Error codes */

#define RPMA_MIRROR_E_INVAL (-110000)       /* an argument is NULL, out of range or contradicts another */
#define RPMA_MIRROR_E_NOMEM (-110001)       /* out of memory */
#define RPMA_MIRROR_E_SYSTEM (-110002)      /* the system refused something, see errno */
#define RPMA_MIRROR_E_TIMEOUT (-110003)     /* not done in time; what was asked for may have happened or not */
#define RPMA_MIRROR_E_FENCED (-110004)      /* another writer has the set: this one is over for good */
#define RPMA_MIRROR_E_NO_ARBITER (-110005)  /* the arbiter does not answer, or the right to write has run out */
#define RPMA_MIRROR_E_ALONE (-110006)       /* no target is in sync any more, and the policy is safety: over */
#define RPMA_MIRROR_E_INCOMPLETE (-110007)  /* a target that was in sync does not respond: start it, or use force */
#define RPMA_MIRROR_E_STALE (-110008)       /* the copy is not in sync */
#define RPMA_MIRROR_E_LINK (-110009)        /* the target cannot be reached, or broke the connection */
#define RPMA_MIRROR_E_TARGET (-110010)      /* the target refused */
#define RPMA_MIRROR_E_LEVEL (-110011)       /* a copy does not have the level that is asked for */
#define RPMA_MIRROR_E_VERIFY (-110012)      /* what was read back is not what was written */
#define RPMA_MIRROR_E_MEDIA (-110013)       /* memory cannot be read or written back */
#define RPMA_MIRROR_E_BUSY (-110014)        /* another process has the set open, or another call works on the copy */
#define RPMA_MIRROR_E_EXISTS (-110015)      /* there is a copy already */
#define RPMA_MIRROR_E_MISSING (-110016)     /* there is no such copy, file or set */
#define RPMA_MIRROR_E_PAUSED (-110017)      /* the function for the progress stopped it; it goes on when called again */
#define RPMA_MIRROR_E_STOPPED (-110018)     /* the program stopped rather than lose a copy: over */
#define RPMA_MIRROR_E_CHANGED (-110019)     /* the local file was replaced or resized: put the right file back */
#define RPMA_MIRROR_E_UNFOUND (-110020)     /* the last writer may have written alone: open there, or use force */
#define RPMA_MIRROR_E_DOWN (-110021)        /* no copy that was in sync responds, even by force: start a target */
#define RPMA_MIRROR_E_INTERRUPTED (-110022) /* a target was lost during the opening: open again */
#define RPMA_MIRROR_E_UNCLEAN (-110023)     /* no target confirmed the end: the next opening needs one of them */
#define RPMA_MIRROR_E_UNFENCED (-110024)    /* a target in sync made no promise: fence the writer again */

/* Static English text for an error code, never NULL. */
const char *rpma_mirror_err_2str(int error);

/* One line that says why the last call of this thread that failed did so; empty before. Valid until the next call. */
const char *rpma_mirror_error_message(void);

/* Configuration of a set */

#define RPMA_MIRROR_MOST_COPIES 16

struct rpma_mirror_cfg;

/* What is when no target in sync is left. */
enum rpma_mirror_policy {
    RPMA_MIRROR_POLICY_SAFETY,      /* the writer stops: it never acknowledges alone. The default */
    RPMA_MIRROR_POLICY_AVAILABILITY /* it goes on, and the record of the set says so */
};

/* Where data is when a flush has succeeded, weakest first. */
enum rpma_mirror_level {
    RPMA_MIRROR_LEVEL_VOLATILE,     /* in memory that is lost with power: redundant, not durable */
    RPMA_MIRROR_LEVEL_PAGE_CACHE,   /* written back to the device of an ordinary file */
    RPMA_MIRROR_LEVEL_CPU_FLUSHED,  /* in persistent memory, flushed from the processor's caches */
    RPMA_MIRROR_LEVEL_DIRECT_WRITE, /* in persistent memory, past the caches, as the target's operator declared */
    RPMA_MIRROR_LEVEL_NATIVE_FLUSH  /* in persistent memory, flushed by the RDMA devices of both sides */
};

enum rpma_mirror_device {
    RPMA_MIRROR_DEVICE_ANY, /* hardware where the target has it. The default */
    RPMA_MIRROR_DEVICE_HARDWARE,
    RPMA_MIRROR_DEVICE_SOFTWARE
};

/* An empty configuration: policy safety, arbiter operator, one lane, timeouts 2000 ms for an operation and 10000 ms for
 * opening, any level, any device. RPMA_MIRROR_E_NOMEM. */
int rpma_mirror_cfg_new(struct rpma_mirror_cfg **cfg_ptr);
/* Sets *cfg_ptr to NULL, accepts NULL there. */
int rpma_mirror_cfg_delete(struct rpma_mirror_cfg **cfg_ptr);

/* Reads a set file, whose lines librpma_mirror(7) describes. RPMA_MIRROR_E_MISSING, RPMA_MIRROR_E_SYSTEM: it cannot be
 * read. RPMA_MIRROR_E_INVAL: the message names line and mistake. */
int rpma_mirror_cfg_from_file(const char *path, struct rpma_mirror_cfg **cfg_ptr);

/*
 * The home copy: its number, its file or device DAX, and its length. path NULL: anonymous memory, which is redundant
 * and not durable. length 0: that of the file. The state of the copy is kept in state_path; NULL: in PATH.mirror.
 */
int rpma_mirror_cfg_set_home(
        struct rpma_mirror_cfg *cfg, unsigned copy, const char *path, size_t length, const char *state_path);

/* A target: the number of its copy, "ADDRESS:PORT" of its rpmemd, and the poolset there. */
int rpma_mirror_cfg_add_target(struct rpma_mirror_cfg *cfg, unsigned copy, const char *target, const char *set_name);

/* The file with the key of the targets, 64 hexadecimal digits, which nobody else may read. It is read by each call that
 * connects. */
int rpma_mirror_cfg_set_key_file(struct rpma_mirror_cfg *cfg, const char *path);

int rpma_mirror_cfg_set_policy(struct rpma_mirror_cfg *cfg, enum rpma_mirror_policy policy);

/* "operator", or "etcd URL ...", as in the line `arbiter` of a set file. RPMA_MIRROR_E_INVAL: there is no such arbiter,
 * or it is not installed. */
int rpma_mirror_cfg_set_arbiter(struct rpma_mirror_cfg *cfg, const char *arbiter);

/* A copy below this level is refused when the set is opened, or when the target is connected later. The levels above
 * CPU_FLUSHED are about targets: of the home copy, to which no network leads, CPU_FLUSHED is asked then. Default:
 * VOLATILE, which refuses nothing. */
int rpma_mirror_cfg_set_min_level(struct rpma_mirror_cfg *cfg, enum rpma_mirror_level level);

/* Milliseconds, 1 to 3600000: of an operation before the target is dropped, and as long again for making that durable;
 * and of opening, without the time for bringing copies level. The time of an operation begins again with each piece of
 * 1 MiB that the target has taken, and RPMA_MIRROR_F_LAST_RANGE_AFTER makes two operations. */
int rpma_mirror_cfg_set_timeouts(struct rpma_mirror_cfg *cfg, unsigned operation_ms, unsigned open_ms);

/* Lanes, 1 to 1023, each a connection to each target; how many ranges one has under way, 2 to 65536 (default 128). */
int rpma_mirror_cfg_set_lanes(struct rpma_mirror_cfg *cfg, unsigned lanes, unsigned depth);

int rpma_mirror_cfg_set_device(struct rpma_mirror_cfg *cfg, enum rpma_mirror_device device);

/* What happens to a set */

enum rpma_mirror_event_type {
    RPMA_MIRROR_EVENT_EVICTED = 1, /* a copy left the set; that is durable, and flushes go on without it */
    RPMA_MIRROR_EVENT_ALONE,       /* no target in sync is left */
    RPMA_MIRROR_EVENT_FENCED,      /* another writer has the set */
    RPMA_MIRROR_EVENT_NO_ARBITER,  /* the right to write has run out */
    RPMA_MIRROR_EVENT_RESYNC,      /* a copy began to be brought level */
    RPMA_MIRROR_EVENT_IN_SYNC,     /* a copy is in sync */
    RPMA_MIRROR_EVENT_ADDED,
    RPMA_MIRROR_EVENT_DROPPED,
    RPMA_MIRROR_EVENT_MEDIA,    /* memory of a copy cannot be read or written back */
    RPMA_MIRROR_EVENT_REPAIRED, /* a range was written again from another copy */
    RPMA_MIRROR_EVENT_STOPPED   /* the program stopped rather than lose a copy */
};

/* Why something failed, and what a program may do after it (the recovery table of librpma_mirror(7)). */
enum rpma_mirror_error_kind {
    RPMA_MIRROR_ERROR_NONE,
    RPMA_MIRROR_ERROR_LINK,
    RPMA_MIRROR_ERROR_TIMEOUT,
    RPMA_MIRROR_ERROR_MEDIA,
    RPMA_MIRROR_ERROR_VERIFY,
    RPMA_MIRROR_ERROR_FENCED,
    RPMA_MIRROR_ERROR_TARGET
};

struct rpma_mirror_error {
    uint32_t size;
    uint32_t copy;
    enum rpma_mirror_error_kind kind;
    int code;           /* RPMA_MIRROR_E_* */
    int system;         /* an errno, or 0 */
    uint32_t precise;   /* offset and length are exactly what is affected, otherwise the whole copy may be */
    uint32_t contained; /* nothing wrong has reached another copy, or a caller */
    uint32_t live;      /* the program may go on */
    uint64_t offset;
    uint64_t length;
};

struct rpma_mirror_event {
    uint32_t size;
    enum rpma_mirror_event_type type;
    uint32_t copy;
    uint64_t epoch;
    uint64_t version;
    struct rpma_mirror_error error; /* of kind NONE where nothing failed */
};

/* Called in the thread that noticed, which may be one of the library, with nothing of the library locked but the
 * membership. Functions of the same mirror that need it fail there with RPMA_MIRROR_E_BUSY. */
typedef void (*rpma_mirror_event_function)(void *context, const struct rpma_mirror_event *event);
int rpma_mirror_cfg_set_event_function(struct rpma_mirror_cfg *cfg, rpma_mirror_event_function function, void *context);

/*
 * Called before a copy that was in sync leaves the set because it failed, and before anything of that is durable. error
 * says which copy, and why. 0 lets it go: the membership changes, and then there is an event. Anything else ends the
 * mirror: nothing is acknowledged without the copy, the record goes on naming it, and what was under way fails with
 * RPMA_MIRROR_E_STOPPED. Not called where no copy would leave: for the last target under the policy safety, where
 * another writer has the set, for a copy that was not in sync, and for rpma_mirror_drop_target().
 *
 * The thread is the one that noticed, as with events; so are the calls that fail there. Calls that wait for the copy,
 * or change the membership, wait for the function. They last as much longer, and with an arbiter that has leases the
 * right to write may run out. Several copies are asked for one after the other, each once.
 */
typedef int (*rpma_mirror_eviction_function)(void *context, const struct rpma_mirror_error *error);
int rpma_mirror_cfg_set_eviction_function(
        struct rpma_mirror_cfg *cfg, rpma_mirror_eviction_function function, void *context);

/* Progress of what takes long. 0 goes on, anything else pauses it: RPMA_MIRROR_E_PAUSED. */
enum rpma_mirror_phase {
    RPMA_MIRROR_PHASE_COMPARE,
    RPMA_MIRROR_PHASE_COMMIT
};
struct rpma_mirror_progress {
    uint32_t size;
    uint32_t copy;
    enum rpma_mirror_phase phase;
    uint32_t seconds_left;     /* at the rate so far; UINT32_MAX: unknown */
    uint64_t done;             /* bytes */
    uint64_t total;            /* bytes */
    uint64_t sent;             /* bytes that were different, or follow where all were */
    uint64_t bytes_per_second; /* of what is done */
};
typedef int (*rpma_mirror_progress_function)(void *context, const struct rpma_mirror_progress *progress);

struct rpma_mirror_resync_options {
    uint32_t size;
    uint32_t flags;                         /* 0 */
    uint64_t bytes_per_second;              /* 0: as fast as it goes */
    rpma_mirror_progress_function progress; /* may be NULL */
    void *context;
};

/* How copies are brought level while the set is opened; options may be NULL. The function may be called by several
 * threads at a time, each for another copy. Where it pauses, the opening fails with RPMA_MIRROR_E_PAUSED. */
int rpma_mirror_cfg_set_resync_options(struct rpma_mirror_cfg *cfg, const struct rpma_mirror_resync_options *options);

/* Life of a set */

struct rpma_mirror;

#define RPMA_MIRROR_F_FORCE (1 << 0) /* open although a target in sync does not answer: what only it has is lost */

/*
 * Makes a new set: the home file if it is missing, its state, and a copy on each target; opens nothing. The parts of
 * the targets' poolsets are made by the targets. RPMA_MIRROR_E_EXISTS: the home copy or that of a target has a state.
 * RPMA_MIRROR_E_LINK, RPMA_MIRROR_E_TARGET, RPMA_MIRROR_E_TIMEOUT, RPMA_MIRROR_E_SYSTEM.
 */
int rpma_mirror_create(const struct rpma_mirror_cfg *cfg);

/*
 * MAP: maps the home copy, at hint if that is possible (NULL: anywhere), connects the targets, takes the right to write
 * from whoever had it, chooses the newest copy, brings the others level with it, and registers the memory. *address is
 * where the home copy is. On another machine this is the promotion of that machine.
 * RPMA_MIRROR_E_INCOMPLETE, RPMA_MIRROR_E_UNFOUND, RPMA_MIRROR_E_DOWN, RPMA_MIRROR_E_INTERRUPTED,
 * RPMA_MIRROR_E_FENCED (another machine opens it at the same time), RPMA_MIRROR_E_NO_ARBITER,
 * RPMA_MIRROR_E_LEVEL, RPMA_MIRROR_E_BUSY, RPMA_MIRROR_E_MISSING, RPMA_MIRROR_E_LINK, RPMA_MIRROR_E_TARGET,
 * RPMA_MIRROR_E_TIMEOUT, RPMA_MIRROR_E_SYSTEM. RPMA_MIRROR_E_CHANGED: the file of the home copy has another length, or
 * was replaced or changed and no target in sync responds.
 */
int rpma_mirror_map(
        const struct rpma_mirror_cfg *cfg, void *hint, unsigned flags, void **address, struct rpma_mirror **mirror_ptr);

/* The same for memory that the program has mapped itself, page-aligned; it is the mapping of the home file of the cfg,
 * or, without one, memory that is not durable. It stays mapped until rpma_mirror_unmap. */
int rpma_mirror_attach(const struct rpma_mirror_cfg *cfg, void *address, size_t length, unsigned flags,
        struct rpma_mirror **mirror_ptr);

/*
 * UNMAP: waits for outstanding flushes, makes the copies in sync equal, including data that was stored and not flushed,
 * records that the set is clean, and closes it. The call takes as long as a comparison of the copies. A target that is
 * lost in the meantime leaves the set. *mirror_ptr becomes NULL except after RPMA_MIRROR_E_BUSY; NULL is accepted.
 * RPMA_MIRROR_E_UNCLEAN, or with the policy safety RPMA_MIRROR_E_ALONE: the last targets in sync did not confirm the
 * end, and the next opening needs them. RPMA_MIRROR_E_TIMEOUT: a target did not respond within the timeout of opening,
 * and the end is that of a crash. RPMA_MIRROR_E_BUSY: called by a function that the mirror waits for; without effect.
 */
int rpma_mirror_unmap(struct rpma_mirror **mirror_ptr);

int rpma_mirror_get_length(const struct rpma_mirror *mirror, size_t *length);

/* Flushes */

struct rpma_mirror_range {
    uint64_t offset;
    uint64_t length;
};

/* As many ranges as one call takes. */
#define RPMA_MIRROR_MOST_RANGES 1024

#define RPMA_MIRROR_F_LAST_RANGE_AFTER (1 << 1) /* the last range becomes durable after all others: tails of logs */
#define RPMA_MIRROR_F_DEEP (1 << 2)             /* to the deepest level that software reaches on each copy */

/*
 * OPTIMIZED_FLUSH: what is in the ranges becomes durable on every copy in sync. The ranges are not atomic, neither
 * together nor each, and not ordered; words of 8 bytes are not torn. They must not change during the call where a
 * mixture would matter. A target that fails leaves the set first, and that is durable before 0 is returned.
 * After an error any part of the ranges may be durable on any copy; the call may be repeated except after
 * RPMA_MIRROR_E_FENCED, RPMA_MIRROR_E_ALONE, RPMA_MIRROR_E_NO_ARBITER and RPMA_MIRROR_E_STOPPED, after which the mirror
 * is over. RPMA_MIRROR_E_MEDIA: the home copy cannot be written back, or not all of it is repaired
 * (rpma_mirror_repair_range). RPMA_MIRROR_E_NO_ARBITER. n 0 is accepted.
 */
int rpma_mirror_optimized_flush(
        struct rpma_mirror *mirror, unsigned lane, const struct rpma_mirror_range *ranges, size_t n, unsigned flags);

/* Starts the same; the ranges must not change before it has ended. *ticket is for rpma_mirror_flush_wait. A later flush
 * of the lane is not durable before this one is. Not with RPMA_MIRROR_F_LAST_RANGE_AFTER. */
int rpma_mirror_flush_start(struct rpma_mirror *mirror, unsigned lane, const struct rpma_mirror_range *ranges, size_t n,
        unsigned flags, uint64_t *ticket);
/* Waits for it and all that was started before it on the lane, at most timeout_ms milliseconds, -1: as long as the
 * timeout of operations. RPMA_MIRROR_E_TIMEOUT: it still runs. Otherwise as rpma_mirror_optimized_flush. */
int rpma_mirror_flush_wait(struct rpma_mirror *mirror, unsigned lane, uint64_t ticket, int timeout_ms);

/* How it was verified that a copy has the bytes. */
enum rpma_mirror_verify_level {
    RPMA_MIRROR_VERIFY_NONE,
    RPMA_MIRROR_VERIFY_CACHE, /* read back through the memory system of the copy: not proven to come from the medium */
    RPMA_MIRROR_VERIFY_MEDIA  /* read back from the medium */
};

/*
 * OPTIMIZED_FLUSH_AND_VERIFY: flushes, reads back from every copy in sync, and compares. *level, unless level is NULL,
 * becomes the weakest way in which a copy was verified. A target that is lost while it is read leaves the set, as with
 * a flush; RPMA_MIRROR_VERIFY_NONE: no target stayed. RPMA_MIRROR_E_VERIFY: *first_bad, unless it is NULL, says where;
 * the copy stays in the set, for the program to repair or to drop.
 */
int rpma_mirror_optimized_flush_and_verify(struct rpma_mirror *mirror, unsigned lane,
        const struct rpma_mirror_range *ranges, size_t n, unsigned flags, enum rpma_mirror_verify_level *level,
        struct rpma_mirror_error *first_bad);

/* SYNC: one range. flags: RPMA_MIRROR_F_DEEP or 0. */
int rpma_mirror_sync(struct rpma_mirror *mirror, unsigned lane, uint64_t offset, uint64_t length, unsigned flags);

/* Stores value at offset, a multiple of 8, as a whole, at home and on each copy in sync, after everything that was
 * flushed or started on the lane is durable; returns when it is durable itself. */
int rpma_mirror_publish8(struct rpma_mirror *mirror, unsigned lane, uint64_t offset, uint64_t value);

/*
 * Marks a consistency point: what was flushed before, on all lanes, makes sense to the program, which numbers such
 * points as it likes. The number is in the record of the set: when 0 is returned it is durable on every copy in sync,
 * and whoever opens the set finds it, or a later one, in the recovery report and in the state. It keeps no older
 * content; what was flushed since then may be there, too. A target that fails leaves the set first. Takes as long as a
 * change of the membership, several writes to a disk. After an error the mark may be the one before or this one, and
 * the call may be repeated except as with rpma_mirror_optimized_flush. RPMA_MIRROR_E_BUSY: called by a function that
 * the mirror waits for. RPMA_MIRROR_E_SYSTEM, RPMA_MIRROR_E_STOPPED.
 */
int rpma_mirror_consistent(struct rpma_mirror *mirror, uint64_t mark);

/* Reads a range of a copy that is in sync. RPMA_MIRROR_E_STALE, RPMA_MIRROR_E_LINK: the copy was dropped. */
int rpma_mirror_read(
        struct rpma_mirror *mirror, unsigned lane, unsigned copy, void *to, uint64_t offset, uint64_t length);

/* State */

enum rpma_mirror_copy_state {
    RPMA_MIRROR_COPY_NONE,    /* not in the set */
    RPMA_MIRROR_COPY_OFFLINE, /* does not answer */
    RPMA_MIRROR_COPY_STALE,   /* lacks something */
    RPMA_MIRROR_COPY_RESYNC,  /* is being brought level, gets each flush, and is not waited for */
    RPMA_MIRROR_COPY_IN_SYNC
};

struct rpma_mirror_copy {
    enum rpma_mirror_copy_state state;
    enum rpma_mirror_level level; /* while it is connected */
    uint32_t home;                /* 1: the home copy of this machine */
    int last_error;               /* RPMA_MIRROR_E_*, 0: none */
    uint64_t promised_epoch;      /* highest that is known */
    uint64_t record_epoch;        /* of the newest record that the copy is known to have */
    uint64_t record_version;
    uint64_t cursor;    /* of a resync, in bytes */
    char target[272];   /* "ADDRESS:PORT", or the path of the home copy; empty for anonymous memory */
    char set_name[256]; /* of a target */
};

struct rpma_mirror_state {
    uint32_t size;
    uint32_t open; /* 1: this process may write */
    unsigned char set[16];
    uint64_t length;
    uint64_t epoch; /* of the newest record */
    uint64_t version;
    uint64_t writer;
    enum rpma_mirror_policy policy;
    uint32_t closed;              /* 1: the writer ended, and all copies in sync are equal */
    uint32_t members;             /* copies as bits */
    uint32_t in_sync;             /* copies as bits */
    enum rpma_mirror_level level; /* the weakest of the copies in sync */
    struct rpma_mirror_copy copies[RPMA_MIRROR_MOST_COPIES];
    uint64_t consistent; /* the mark of the last consistency point, 0: there was none */
};

int rpma_mirror_get_state(struct rpma_mirror *mirror, struct rpma_mirror_state *state);

/* The same for a set that this process does not have open; asks the targets, and changes nothing. A copy that does not
 * answer is OFFLINE; that is no failure. The last error of a home copy that another process has open is
 * RPMA_MIRROR_E_BUSY. */
int rpma_mirror_inspect(const struct rpma_mirror_cfg *cfg, struct rpma_mirror_state *state);

/* NVM.PM.FILE attributes of a copy. */
struct rpma_mirror_attributes {
    uint32_t size;
    enum rpma_mirror_level level;
    uint32_t interrupted_store_atomicity; /* bytes of an aligned store that are not torn: 8 */
    uint32_t atomicity_proven;            /* 1: by the device that carries it; 0: it is assumed of the platform */
    uint32_t map_copy_on_write;           /* 0: mappings are shared */
    uint32_t fundamental_error_range;     /* bytes that are lost together when a cell fails */
    uint32_t fundamental_error_offset;
    uint32_t optimized_flush_capable;
    uint32_t optimized_flush_allowed; /* without a call to the system */
    uint32_t optimized_flush_and_verify_capable;
    enum rpma_mirror_verify_level verify_level;
    uint32_t deep_flush_capable;
    uint32_t error_event_capable; /* events are reported */
    uint32_t error_event_precise; /* with the range */
    uint32_t error_event_live;    /* and the program may go on */
};

/* copy RPMA_MIRROR_SET: the weakest of the copies in sync. RPMA_MIRROR_E_MISSING. */
#define RPMA_MIRROR_SET (~0U)
int rpma_mirror_get_attributes(struct rpma_mirror *mirror, unsigned copy, struct rpma_mirror_attributes *attributes);

/* Readable while an event waits. Owned by the mirror. */
int rpma_mirror_get_event_fd(const struct rpma_mirror *mirror, int *fd);
/* Takes the oldest event. Of more than 256 that wait the oldest are dropped. RPMA_MIRROR_E_MISSING: there is none. */
int rpma_mirror_next_event(struct rpma_mirror *mirror, struct rpma_mirror_event *event);

/* GET_ERROR_INFO: the last errors, oldest first, at most 64. *n is how many fit, and becomes how many there are in
 * errors; the size of each is set. They stay until the copy is in sync again, or their range is repaired. */
int rpma_mirror_get_error_info(struct rpma_mirror *mirror, struct rpma_mirror_error *errors, size_t *n);

struct rpma_mirror_statistics {
    uint32_t size;
    uint64_t flushes;
    uint64_t ranges;
    uint64_t bytes;
    uint64_t evictions;
    uint64_t resyncs;
    uint64_t compared_bytes; /* by resync and verify */
    uint64_t sent_bytes;     /* of those, different, or following where all were */
    uint64_t repaired_bytes;
};
int rpma_mirror_get_statistics(struct rpma_mirror *mirror, struct rpma_mirror_statistics *statistics);

/* Errors and repair */

/* Reads a range of a copy and reports what cannot be read. *n as in rpma_mirror_get_error_info, 0: it is good. The
 * memory of the home copy is read without raising SIGBUS, and each of its pages that is reported for the first time is
 * told as RPMA_MIRROR_EVENT_MEDIA. */
int rpma_mirror_check(struct rpma_mirror *mirror, unsigned copy, uint64_t offset, uint64_t length,
        struct rpma_mirror_error *errors, size_t *n);

/* In-line recovery: writes a range of the home copy, whole pages of it, again from a copy in sync, source, or the first
 * that can be read (RPMA_MIRROR_SET). What was stored there after its last flush is lost. The home copy is registered
 * again for RDMA, between flushes. While another of its pages cannot be read a device may refuse that: flushes then
 * fail with RPMA_MIRROR_E_MEDIA until that page is repaired, too. RPMA_MIRROR_E_STALE. RPMA_MIRROR_E_MEDIA: the range
 * could not be written, and the mirror is over; the next opening makes the home copy again from a target, also after
 * a crash in the middle. */
int rpma_mirror_repair_range(struct rpma_mirror *mirror, uint64_t offset, uint64_t length, unsigned source);

/* Bringing copies level, and roles */

/*
 * Connects a target of the set that is not in sync, and brings it level while the program goes on: it gets each flush,
 * is compared by hash, and gets what differs. options may be NULL. It goes on where an interrupted resync of the same
 * epoch ended. RPMA_MIRROR_E_PAUSED, RPMA_MIRROR_E_LINK, RPMA_MIRROR_E_BUSY. A copy in sync stays so: 0.
 */
int rpma_mirror_resync(struct rpma_mirror *mirror, unsigned copy, const struct rpma_mirror_resync_options *options);

struct rpma_mirror_verify_report {
    uint32_t size;
    uint32_t different; /* segments */
    uint64_t compared;  /* bytes */
    uint64_t first;     /* offset of the first segment that differs */
    enum rpma_mirror_verify_level level;
};

/* Compares a copy in sync with the home copy by hash. Segments that the program changes meanwhile are looked at again;
 * what was stored and not flushed counts as different. RPMA_MIRROR_E_VERIFY: *report says what differs. */
int rpma_mirror_verify(struct rpma_mirror *mirror, unsigned copy, const struct rpma_mirror_resync_options *options,
        struct rpma_mirror_verify_report *report);

/* Makes a copy on another target, connects it and brings it level. options as for rpma_mirror_resync. */
int rpma_mirror_add_target(struct rpma_mirror *mirror, unsigned copy, const char *target, const char *set_name,
        const struct rpma_mirror_resync_options *options);
/* Takes a copy out of the set: when it returns that is durable, and nothing of this writer reaches the copy any more.
 * RPMA_MIRROR_E_ALONE: it is the last one in sync, and the policy is safety. */
int rpma_mirror_drop_target(struct rpma_mirror *mirror, unsigned copy);

/* Why a copy was taken as the source of the others. */
enum rpma_mirror_source_reason {
    RPMA_MIRROR_SOURCE_HOME_NEWEST,   /* the home copy has the newest record, and was in sync in it */
    RPMA_MIRROR_SOURCE_TARGET_NEWEST, /* the home copy has not */
    RPMA_MIRROR_SOURCE_FORCED,        /* not all that were needed answered */
    RPMA_MIRROR_SOURCE_HOME_CHANGED   /* the local file may have changed since the set was closed, or was replaced */
};

struct rpma_mirror_recovery_report {
    uint32_t size;
    uint32_t source;
    enum rpma_mirror_source_reason reason;
    uint32_t was_closed; /* 1: nothing had to be compared */
    uint32_t answered;   /* copies as bits */
    uint32_t in_sync;    /* copies as bits, afterwards */
    uint64_t epoch;      /* that was taken */
    uint64_t compared;   /* bytes */
    uint64_t sent;       /* bytes */
    char why[256];       /* a sentence */
    uint64_t consistent; /* the mark of the last consistency point of the source, 0: there was none */
};

/*
 * Opens the set, brings all copies level as rpma_mirror_map does, and closes it: recovery after a crash, and promotion
 * of this machine before its program starts. Errors as rpma_mirror_map. report may be NULL.
 */
int rpma_mirror_recover(const struct rpma_mirror_cfg *cfg, unsigned flags, struct rpma_mirror_recovery_report *report);

/* Of the opening of this mirror. */
int rpma_mirror_get_recovery_report(const struct rpma_mirror *mirror, struct rpma_mirror_recovery_report *report);

/*
 * Fences the writer of a set without opening it: each target that answers promises a higher epoch, and drops what is
 * below. *epoch, unless it is NULL, is that epoch. RPMA_MIRROR_E_UNFENCED: a target in sync did not answer; with
 * RPMA_MIRROR_F_FORCE one that answers is enough.
 */
int rpma_mirror_fence(const struct rpma_mirror_cfg *cfg, unsigned flags, uint64_t *epoch);

#ifdef __cplusplus
}
#endif

#endif /* LIBRPMA_MIRROR_H */
