/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * librpmem: a durable copy of a memory region on another machine. librpmem(7) is the introduction.
 *
 * The daemon rpmemd stores the copy, the replica, in the files of a poolset. The program stores to its own memory, and
 * specifies the ranges that must become durable in the replica.
 *
 * The following applies to each function unless its comment states an exception.
 *
 * Return value   0 on success. On error, NULL or -1, and errno is set; rpmem_errormsg() describes the error. The manual
 *                page of a function lists each errno.
 * Loss           After an error other than EINVAL and EFAULT the replica is lost, and each later call on the pool
 *                fails. After EINVAL (invalid argument) the pool is usable. EFAULT means that the device cannot read
 *                the local memory; each later call fails with EFAULT, but the replica is not lost.
 * Units          Offsets and lengths are in bytes, from the start of the pool and including its header.
 * Ownership      The memory at pool_addr must stay mapped until rpmem_close(). Strings and attributes are copied.
 * Threads        Threads may use different lanes concurrently, but only one thread at a time may use a lane.
 *                Operations of different lanes are not ordered. No other call may use the pool during rpmem_close().
 * Blocking       Functions wait for the target, limited by the environment variable RPMEM_OP_TIMEOUT_MS.
 */
#ifndef LIBRPMEM_H
#define LIBRPMEM_H 1

#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* For source compatibility only: no function is deprecated. */
#define RPMEM_DEPR_STR ""
#define RPMEM_DEPR_ATTR

#define RPMEM_POOL_HDR_SIG_LEN 8
#define RPMEM_POOL_HDR_UUID_LEN 16
#define RPMEM_POOL_USER_FLAGS_LEN 16

/* Accepted without effect: the range need not be written atomically. */
#define RPMEM_PERSIST_RELAXED (1U << 0)
#define RPMEM_FLUSH_RELAXED (1U << 0)

#define RPMEM_REMOVE_FORCE 0x1    /* continue after errors */
#define RPMEM_REMOVE_POOL_SET 0x2 /* remove the poolset file, too */

/* Minimum sizes of a pool and of a part of a poolset, in bytes. */
#define RPMEM_MIN_POOL ((size_t)(1024 * 8))
#define RPMEM_MIN_PART ((size_t)(1024 * 1024 * 2))

#define RPMEM_MAJOR_VERSION 1
#define RPMEM_MINOR_VERSION 3

typedef struct rpmem_pool RPMEMpool;

/* Attributes in the header of a pool. All zero: the pool has no header. */
struct rpmem_pool_attr {
    char signature[RPMEM_POOL_HDR_SIG_LEN];
    uint32_t major;
    uint32_t compat_features;
    uint32_t incompat_features;
    uint32_t ro_compat_features;
    unsigned char poolset_uuid[RPMEM_POOL_HDR_UUID_LEN];
    unsigned char uuid[RPMEM_POOL_HDR_UUID_LEN];
    unsigned char next_uuid[RPMEM_POOL_HDR_UUID_LEN];
    unsigned char prev_uuid[RPMEM_POOL_HDR_UUID_LEN];
    unsigned char user_flags[RPMEM_POOL_USER_FLAGS_LEN];
};

/*
 * Creates a pool on one or more targets, separated by commas: `[user@]host[:ssh port]` or `local:`. pool_set_name is
 * relative to the daemon's poolset directory. The pool replicates pool_size bytes at pool_addr, both multiples of the
 * page size. *nlanes contains the requested number of lanes and receives the available number, which is not larger. A
 * NULL or all-zero create_attr creates a pool without header. Returns a handle, which rpmem_close() releases. EEXIST: a
 * part already has a pool header.
 */
RPMEMpool *rpmem_create(const char *target, const char *pool_set_name, void *pool_addr, size_t pool_size,
        unsigned *nlanes, const struct rpmem_pool_attr *create_attr);

/* Like rpmem_create, for an existing pool. Stores the attributes of its header in open_attr unless that is NULL.
 * ESTALE: a program continued without this replica, or no copy of several targets is in sync. */
RPMEMpool *rpmem_open(const char *target, const char *pool_set_name, void *pool_addr, size_t pool_size,
        unsigned *nlanes, struct rpmem_pool_attr *open_attr);

/* Replaces the attributes in each header of an open pool. Threads may call it while others use lanes. */
int rpmem_set_attr(RPMEMpool *rpp, const struct rpmem_pool_attr *attr);

/* Closes the pool. The handle is invalid afterwards, even if -1 is returned. */
int rpmem_close(RPMEMpool *rpp);

/* Copies a range to the replica and makes it durable there. In a pool with a header, offset is at least 4096. */
int rpmem_persist(RPMEMpool *rpp, size_t offset, size_t length, unsigned lane, unsigned flags);

/* Starts to copy a range. It is durable after rpmem_drain on the same lane; until then it must not change. */
int rpmem_flush(RPMEMpool *rpp, size_t offset, size_t length, unsigned lane, unsigned flags);

/* Waits until every flushed range of the lane is durable. flags must be 0. */
int rpmem_drain(RPMEMpool *rpp, unsigned lane, unsigned flags);

/* Like rpmem_persist, but flushes to the deepest level that software on the target reaches. Costs a round trip more. */
int rpmem_deep_persist(RPMEMpool *rpp, size_t offset, size_t length, unsigned lane);

/* Copies a range of the replica to buff, which can be any memory. The range may include the header. */
int rpmem_read(RPMEMpool *rpp, void *buff, size_t offset, size_t length, unsigned lane);

/* Removes a pool, which must not be open, from the targets. flags is 0 or RPMEM_REMOVE_*. */
int rpmem_remove(const char *target, const char *pool_set, int flags);

/* Returns NULL if a program compiled for this version can use the library, otherwise the reason. */
const char *rpmem_check_version(unsigned major_required, unsigned minor_required);

/* Returns the description of the last error of this thread, or "". Valid until the next error of the thread. */
const char *rpmem_errormsg(void);

#ifdef __cplusplus
}
#endif

#endif /* LIBRPMEM_H */
