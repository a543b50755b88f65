/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * librpma_mirror: a range of persistent memory with copies on several machines, numbered 0 to 15. librpma_mirror(7) is
 * the introduction. Each group of functions names the manual page that describes its behavior and its errors.
 *
 * Functions return 0, or a negative RPMA_MIRROR_E_* code that rpma_mirror_error_message() describes to the same thread.
 * They check arguments first, write outputs on success only, and end within the timeouts of the cfg. Offsets and
 * lengths are in bytes. Structures start with their size, which the caller sets to sizeof. Strings and structures are
 * read during the call only; the contexts of functions must stay valid until rpma_mirror_unmap.
 *
 * Threads may call functions of one mirror concurrently, but only one thread at a time may use a lane or a cfg. No
 * other call may use the mirror during rpma_mirror_unmap.
 */
#ifndef LIBRPMA_MIRROR_H
#define LIBRPMA_MIRROR_H 1

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Error codes: rpma_mirror_err_2str(3) */

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

/* Returns a static English string for an error code, never NULL */
const char *rpma_mirror_err_2str(int error);
/* Returns the description of the last error of this thread in one line, or "". Valid until the next call. */
const char *rpma_mirror_error_message(void);

/* Configuration of a set: rpma_mirror_cfg_new(3) */

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
    RPMA_MIRROR_DEVICE_ANY, /* default; kernel if the target has one, else softrdma; here the same kind if possible */
    RPMA_MIRROR_DEVICE_KERNEL,
    RPMA_MIRROR_DEVICE_SOFTRDMA
};

/* Creates a configuration with the default values of rpma_mirror_cfg_new(3). Release it with rpma_mirror_cfg_delete. */
int rpma_mirror_cfg_new(struct rpma_mirror_cfg **cfg_ptr);
/* Deletes the configuration and sets *cfg_ptr to NULL. Mirrors do not need it. Accepts a NULL *cfg_ptr. */
int rpma_mirror_cfg_delete(struct rpma_mirror_cfg **cfg_ptr);
/* Creates a configuration from a set file, whose lines librpma_mirror(7) describes. */
int rpma_mirror_cfg_from_file(const char *path, struct rpma_mirror_cfg **cfg_ptr);

/* Sets the local copy. Defaults: path NULL: anonymous memory; length 0: that of the file; state_path: PATH.mirror. */
int rpma_mirror_cfg_set_local_copy(
        struct rpma_mirror_cfg *cfg, unsigned copy, const char *path, size_t length, const char *state_path);

/* Adds a target: the number of its copy, "ADDRESS:PORT" of its rpmemd, and its poolset. */
int rpma_mirror_cfg_add_target(struct rpma_mirror_cfg *cfg, unsigned copy, const char *target, const char *poolset);
/* Sets the file with the key of this client, one line NAME:KEY. Each call that connects reads it. */
int rpma_mirror_cfg_set_key_file(struct rpma_mirror_cfg *cfg, const char *path);

int rpma_mirror_cfg_set_policy(struct rpma_mirror_cfg *cfg, enum rpma_mirror_policy policy);
int rpma_mirror_cfg_set_device(struct rpma_mirror_cfg *cfg, enum rpma_mirror_device device);

/* Sets the arbiter: "operator", or "etcd URL ...", as in the line `arbiter` of a set file. */
int rpma_mirror_cfg_set_arbiter(struct rpma_mirror_cfg *cfg, const char *arbiter);

/* Sets the minimum level of a copy; the local copy needs at most CPU_FLUSHED. Default: VOLATILE. */
int rpma_mirror_cfg_set_min_level(struct rpma_mirror_cfg *cfg, enum rpma_mirror_level level);

/* Sets the timeouts of an operation, after which its target is evicted, and of opening; 1 to 3600000 ms. */
int rpma_mirror_cfg_set_timeouts(struct rpma_mirror_cfg *cfg, unsigned operation_ms, unsigned open_ms);
/* Evicts a target that confirms `count` consecutive flushes later than late_ms. Default: 0, which disables this. */
int rpma_mirror_cfg_set_slow_limit(struct rpma_mirror_cfg *cfg, unsigned count, unsigned late_ms);

/* Reserves addresses, but no memory, so that the open set can grow to `length`, a multiple of 4096 up to 64 TiB.
 * Default: 0, which keeps the length while the set is open. */
int rpma_mirror_cfg_set_max_length(struct rpma_mirror_cfg *cfg, size_t length);

/* Sets the number of lanes, 1 to 1023, and the maximum of outstanding ranges of each, 2 to 65536 (default 128). */
int rpma_mirror_cfg_set_lanes(struct rpma_mirror_cfg *cfg, unsigned lanes, unsigned depth);

/* Events and errors: rpma_mirror_cfg_new(3), rpma_mirror_next_event(3) */

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

/* Event function, called by any thread. In it, calls that need the membership return RPMA_MIRROR_E_BUSY. */
typedef void (*rpma_mirror_event_function)(void *context, const struct rpma_mirror_event *event);
int rpma_mirror_cfg_set_event_function(struct rpma_mirror_cfg *cfg, rpma_mirror_event_function function, void *context);

/* Eviction function, called before a failed copy that was in sync is evicted. Returns 0 to evict it. Otherwise the
 * mirror fails with RPMA_MIRROR_E_EVICTION_REFUSED. It has the restrictions of the event function. */
typedef int (*rpma_mirror_eviction_function)(void *context, const struct rpma_mirror_error *error);
int rpma_mirror_cfg_set_eviction_function(
        struct rpma_mirror_cfg *cfg, rpma_mirror_eviction_function function, void *context);

/* Progress of a long call. The function returns 0 to continue; otherwise the call returns RPMA_MIRROR_E_CANCELED. */
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
    uint64_t sent_bytes;       /* in segments that differed, or that followed batches that differed completely */
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

/* Sets the options of resynchronization during opening; options may be NULL. Threads call progress concurrently. */
int rpma_mirror_cfg_set_resync_options(struct rpma_mirror_cfg *cfg, const struct rpma_mirror_resync_options *options);
/* Sets whether targets that respond again are resynchronized (default 1), and the rate (0: no limit). */
int rpma_mirror_cfg_set_background_resync(struct rpma_mirror_cfg *cfg, int enabled, uint64_t bytes_per_second);
/* Sets whether the open set serves rpma-mirror(1) on a local socket beside the state file (default 1). */
int rpma_mirror_cfg_set_admin_socket(struct rpma_mirror_cfg *cfg, int enabled);
/* Stores the path of the socket. The caller releases *path with free(3). */
int rpma_mirror_cfg_get_admin_socket(const struct rpma_mirror_cfg *cfg, char **path);

/* Creating, opening and closing a set: rpma_mirror_map(3) */

struct rpma_mirror;

#define RPMA_MIRROR_F_FORCE (1 << 0) /* open without a target in sync that does not respond: its newer data is lost */

/* Creates the local file if it is missing, its state, and a copy on each target. Does not open the set. */
int rpma_mirror_create(const struct rpma_mirror_cfg *cfg);

/* MAP: opens the set, fences the previous writer, resynchronizes the copies, and stores the address of the local copy,
 * which is hint if possible. The caller releases the mirror with rpma_mirror_unmap. */
int rpma_mirror_map(
        const struct rpma_mirror_cfg *cfg, void *hint, unsigned flags, void **address, struct rpma_mirror **mirror_ptr);
/* Like rpma_mirror_map, but for page-aligned memory of the program, which must stay mapped until rpma_mirror_unmap. */
int rpma_mirror_map_memory(const struct rpma_mirror_cfg *cfg, void *address, size_t length, unsigned flags,
        struct rpma_mirror **mirror_ptr);

/* UNMAP: makes the copies in sync equal, including unflushed stores, records that the set is clean, and closes it.
 * *mirror_ptr becomes NULL except after RPMA_MIRROR_E_BUSY; NULL is accepted. Waits for a growth by rpma-mirror(1). */
int rpma_mirror_unmap(struct rpma_mirror **mirror_ptr);
/* Like rpma_mirror_unmap without the comparison: the program declares that it has flushed each store. */
int rpma_mirror_unmap_flushed(struct rpma_mirror **mirror_ptr);

int rpma_mirror_get_length(const struct rpma_mirror *mirror, size_t *length);

/* Grows an open set, whose address does not change, to length, a multiple of 4096. On success, the length is durable on
 * each copy in sync, and the new bytes are zero. Thread-safe. The limit is that of rpma_mirror_cfg_set_max_length. */
int rpma_mirror_grow(struct rpma_mirror *mirror, size_t length);

/* Flushes: rpma_mirror_optimized_flush(3), rpma_mirror_flush_take(3) */

struct rpma_mirror_range {
    uint64_t offset;
    uint64_t length;
};

/* Maximum number of ranges of one call. */
#define RPMA_MIRROR_MAX_RANGES 1024

#define RPMA_MIRROR_F_LAST_RANGE_ORDERED (1 << 1) /* make the last range durable after all others (tail of a log) */
#define RPMA_MIRROR_F_DEEP (1 << 2)               /* flush to the deepest level that software reaches on each copy */

/* OPTIMIZED_FLUSH: makes the ranges durable on each copy in sync, not atomically and in any order. A target that fails
 * is evicted durably before the function returns 0. */
int rpma_mirror_optimized_flush(struct rpma_mirror *mirror, unsigned lane, const struct rpma_mirror_range *ranges,
        size_t n_ranges, unsigned flags);

/* Starts a flush of ranges, which must not change before it has completed, and stores its ticket. */
int rpma_mirror_flush_start(struct rpma_mirror *mirror, unsigned lane, const struct rpma_mirror_range *ranges,
        size_t n_ranges, unsigned flags, uint64_t *ticket);
/* Waits for the flush and all earlier ones of the lane, at most timeout_ms; -1 selects the timeout of operations. */
int rpma_mirror_flush_wait(struct rpma_mirror *mirror, unsigned lane, uint64_t ticket, int timeout_ms);

/* Maximum number of tickets of a lane that are not complete; rpma_mirror_flush_start waits beyond it. */
#define RPMA_MIRROR_MAX_TICKETS 64

/* Stores the descriptor that is readable when tickets of the lane are complete. The mirror owns it. */
int rpma_mirror_get_lane_fd(struct rpma_mirror *mirror, unsigned lane, int *fd);

/* Stores the complete tickets of the lane without waiting. *n_tickets is the capacity and receives their number. */
int rpma_mirror_flush_take(struct rpma_mirror *mirror, unsigned lane, uint64_t *tickets, size_t *n_tickets);

/* Method by which the content of a copy was verified. */
enum rpma_mirror_verify_level {
    RPMA_MIRROR_VERIFY_NONE,
    RPMA_MIRROR_VERIFY_CACHE, /* read back through the memory system, perhaps from a cache */
    RPMA_MIRROR_VERIFY_MEDIA  /* read back from the medium */
};

/* OPTIMIZED_FLUSH_AND_VERIFY: flushes, reads back from each copy in sync, and compares. level (weakest method) and
 * first_mismatch (written with RPMA_MIRROR_E_VERIFY) may be NULL. */
int rpma_mirror_optimized_flush_and_verify(struct rpma_mirror *mirror, unsigned lane,
        const struct rpma_mirror_range *ranges, size_t n_ranges, unsigned flags, enum rpma_mirror_verify_level *level,
        struct rpma_mirror_error *first_mismatch);

/* SYNC: flushes one range. flags: RPMA_MIRROR_F_DEEP or 0. */
int rpma_mirror_sync(struct rpma_mirror *mirror, unsigned lane, uint64_t offset, uint64_t length, unsigned flags);
/* Stores value at offset, a multiple of 8, on each copy in sync, after all earlier flushes of the lane are durable. */
int rpma_mirror_atomic_write(struct rpma_mirror *mirror, unsigned lane, uint64_t offset, uint64_t value);

/* Stores the number of a point at which all flushed data is consistent for the program, durably on each copy. */
int rpma_mirror_set_consistency_point(struct rpma_mirror *mirror, uint64_t point);
/* Reads a range of a copy in sync to dst. */
int rpma_mirror_read(
        struct rpma_mirror *mirror, unsigned lane, unsigned copy, void *dst, uint64_t offset, uint64_t length);

/* State: rpma_mirror_get_state(3), rpma_mirror_next_event(3) */

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

/* Like rpma_mirror_get_state, but queries the targets of a set that is not open here, without changes. */
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
    uint32_t error_event_live;    /* the program can continue after an error */
};

/* Returns the attributes of a copy; RPMA_MIRROR_ALL_COPIES selects the weakest of the copies in sync. */
#define RPMA_MIRROR_ALL_COPIES (~0U)
int rpma_mirror_get_attributes(struct rpma_mirror *mirror, unsigned copy, struct rpma_mirror_attributes *attributes);

/* Stores a descriptor that is readable while an event is pending. The mirror owns it. */
int rpma_mirror_get_event_fd(const struct rpma_mirror *mirror, int *fd);
/* Returns the oldest of at most 256 pending events. RPMA_MIRROR_E_NOT_FOUND: no event. */
int rpma_mirror_next_event(struct rpma_mirror *mirror, struct rpma_mirror_event *event);

/* GET_ERROR_INFO: stores the last errors, at most 64, oldest first. *n_errors contains the capacity of errors and
 * receives their number; the caller sets the size of each. */
int rpma_mirror_get_error_info(struct rpma_mirror *mirror, struct rpma_mirror_error *errors, size_t *n_errors);

struct rpma_mirror_statistics {
    uint32_t size;
    uint64_t flushes;
    uint64_t ranges;
    uint64_t bytes;
    uint64_t evictions;
    uint64_t resyncs;
    uint64_t compared_bytes; /* compared by resync and verify */
    uint64_t sent_bytes;     /* sent by resyncs */
    uint64_t repaired_bytes;
    uint64_t late_confirmations; /* later than the limit of rpma_mirror_cfg_set_slow_limit */
    uint64_t slow_evictions;     /* due to this limit */
};
int rpma_mirror_get_statistics(struct rpma_mirror *mirror, struct rpma_mirror_statistics *statistics);

/* Stores the state and the statistics in the text format of Prometheus. The caller releases *text with free(3). */
int rpma_mirror_get_metrics(struct rpma_mirror *mirror, char **text);

/* Errors and repair: rpma_mirror_check(3) */

/* Reads a range of a copy and reports unreadable pages; *n_errors is as in rpma_mirror_get_error_info. */
int rpma_mirror_check(struct rpma_mirror *mirror, unsigned copy, uint64_t offset, uint64_t length,
        struct rpma_mirror_error *errors, size_t *n_errors);
/* Rewrites whole pages of the local copy from a copy in sync (RPMA_MIRROR_ALL_COPIES: any). Unflushed data is lost. */
int rpma_mirror_repair_range(struct rpma_mirror *mirror, uint64_t offset, uint64_t length, unsigned source);

/* Resynchronization and membership: rpma_mirror_resync(3), rpma_mirror_recover(3) */

/* Connects a target that is not in sync, and resynchronizes it while the program continues. options may be NULL. */
int rpma_mirror_resync(struct rpma_mirror *mirror, unsigned copy, const struct rpma_mirror_resync_options *options);

struct rpma_mirror_verify_report {
    uint32_t size;
    uint32_t differing_segments;
    uint64_t compared_bytes;
    uint64_t first_difference; /* offset of the first segment that differs */
    enum rpma_mirror_verify_level level;
};

/* Compares a copy in sync with the local copy by hash. RPMA_MIRROR_E_VERIFY: *report contains the differences. */
int rpma_mirror_verify(struct rpma_mirror *mirror, unsigned copy, const struct rpma_mirror_resync_options *options,
        struct rpma_mirror_verify_report *report);

/* Creates a copy on another target, connects and resynchronizes it. options may be NULL. */
int rpma_mirror_add_target(struct rpma_mirror *mirror, unsigned copy, const char *target, const char *poolset,
        const struct rpma_mirror_resync_options *options);
/* Removes a copy from the set, durably. After this call, no write of this writer reaches the copy. */
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

/* Opens the set like rpma_mirror_map, resynchronizes all copies, and closes it. report may be NULL. */
int rpma_mirror_recover(const struct rpma_mirror_cfg *cfg, unsigned flags, struct rpma_mirror_recovery_report *report);

/* Grows a set that no program has open to length, a multiple of 4096. The new bytes are zero on each copy. */
int rpma_mirror_grow_closed(const struct rpma_mirror_cfg *cfg, size_t length);

/* Returns the report of the opening of this mirror. */
int rpma_mirror_get_recovery_report(const struct rpma_mirror *mirror, struct rpma_mirror_recovery_report *report);

/* Fences the writer of a set without opening the set. Stores the new epoch unless epoch is NULL. */
int rpma_mirror_fence(const struct rpma_mirror_cfg *cfg, unsigned flags, uint64_t *epoch);

/* Reading on other machines: rpma_mirror_map_read_only(3) */

/* Set that is open for reading, on any machine and without a local copy. Only one thread at a time may use a reader. */
struct rpma_mirror_reader;

#define RPMA_MIRROR_F_ANY_TIME (1 << 3) /* read at any time, without a consistency point */

/* Reads the image of the next consistency point from a target, within timeout_ms (-1: the timeout of opening). */
int rpma_mirror_map_read_only(
        const struct rpma_mirror_cfg *cfg, unsigned flags, int timeout_ms, struct rpma_mirror_reader **reader_ptr);
/* Reads a newer image. The previous one stays mapped until the next call, and remains current after an error. */
int rpma_mirror_refresh(struct rpma_mirror_reader *reader, unsigned flags, int timeout_ms);

enum rpma_mirror_image_consistency {
    RPMA_MIRROR_IMAGE_POINT = 1, /* content at the consistency point */
    RPMA_MIRROR_IMAGE_CLOSED,    /* content at the end of the writer, which closed the set cleanly */
    RPMA_MIRROR_IMAGE_ANY_TIME   /* mixture of old and new content */
};

struct rpma_mirror_image {
    uint32_t size;
    uint32_t copy; /* source of the image */
    const void *address;
    uint64_t length;
    enum rpma_mirror_image_consistency consistency;
    uint32_t age_is_proven; /* 0 if a target in sync did not respond, or a writer can have continued alone */
    uint64_t age_ms;        /* the image contains each flush that was acknowledged at least this time ago */
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
