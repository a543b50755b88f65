/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * librpmem: a second copy of a memory region on another machine.
 *
 * The daemon rpmemd keeps the copy, the replica, in the files of a poolset. The program stores to its own memory, and
 * says which ranges are to become durable in the replica.
 *
 * A call that fails returns NULL or -1, sets errno, and leaves a text in rpmem_errormsg(). After the connection to the
 * target is lost, each call on the pool fails; a mistake in the arguments, which is EINVAL, changes nothing.
 * Lanes may be used by several threads at once, but each of them by one thread at a time. Nothing is ordered between
 * lanes.
 */
#ifndef LIBRPMEM_H
#define LIBRPMEM_H 1

#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* For sources that mention them: nothing here is deprecated. */
#define RPMEM_DEPR_STR ""
#define RPMEM_DEPR_ATTR

#define RPMEM_POOL_HDR_SIG_LEN 8
#define RPMEM_POOL_HDR_UUID_LEN 16
#define RPMEM_POOL_USER_FLAGS_LEN 16

/* Not atomic for the target even where a plain persist or flush is; may be faster. */
#define RPMEM_PERSIST_RELAXED (1U << 0)
#define RPMEM_FLUSH_RELAXED (1U << 0)

#define RPMEM_REMOVE_FORCE 0x1    /* go on after errors */
#define RPMEM_REMOVE_POOL_SET 0x2 /* remove the poolset file, too */

/* What the smallest pool, and the smallest part of a poolset, measure. */
#define RPMEM_MIN_POOL ((size_t)(1024 * 8))
#define RPMEM_MIN_PART ((size_t)(1024 * 1024 * 2))

#define RPMEM_MAJOR_VERSION 1
#define RPMEM_MINOR_VERSION 3

typedef struct rpmem_pool RPMEMpool;

/* What the header of a pool says. All zero: the pool has no header. */
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
 * Creates a pool on the target, `[user@]host[:port of ssh]` or `local:`, or on several with commas between them, in the
 * poolset pool_set_name, which is relative to the daemon's poolset directory, and connects pool_size bytes at pool_addr
 * with it, both multiples of the page size. *nlanes becomes the number of lanes there are, at most what it was.
 * create_attr NULL or all zero: without header.
 */
RPMEMpool *rpmem_create(const char *target, const char *pool_set_name, void *pool_addr, size_t pool_size,
        unsigned *nlanes, const struct rpmem_pool_attr *create_attr);

/* As rpmem_create, for a pool that exists. *open_attr, unless open_attr is NULL, becomes what its header says. */
RPMEMpool *rpmem_open(const char *target, const char *pool_set_name, void *pool_addr, size_t pool_size,
        unsigned *nlanes, struct rpmem_pool_attr *open_attr);

/* Changes what the headers of an open pool say. */
int rpmem_set_attr(RPMEMpool *rpp, const struct rpmem_pool_attr *attr);

/* Ends the session. The handle is gone afterwards, also if -1 is returned. */
int rpmem_close(RPMEMpool *rpp);

/* Copies a range to the replica and makes it durable there. Of a pool with a header, offset is at least 4096. */
int rpmem_persist(RPMEMpool *rpp, size_t offset, size_t length, unsigned lane, unsigned flags);

/* Starts to copy a range. It is durable after rpmem_drain on the same lane; until then it must not change. */
int rpmem_flush(RPMEMpool *rpp, size_t offset, size_t length, unsigned lane, unsigned flags);

/* Waits until all that was flushed on the lane is durable. flags is 0. */
int rpmem_drain(RPMEMpool *rpp, unsigned lane, unsigned flags);

/* As rpmem_persist, to the deepest level of persistence that software on the target reaches. */
int rpmem_deep_persist(RPMEMpool *rpp, size_t offset, size_t length, unsigned lane);

/* Copies a range of the replica, which may be in its header, to any memory. */
int rpmem_read(RPMEMpool *rpp, void *buff, size_t offset, size_t length, unsigned lane);

/* Removes the pool, which nobody has open, from the target. flags: RPMEM_REMOVE_* */
int rpmem_remove(const char *target, const char *pool_set, int flags);

/* NULL: a program that was built with this version can use the library. Otherwise why it cannot. */
const char *rpmem_check_version(unsigned major_required, unsigned minor_required);

/* Why the last call of this thread that failed did so. */
const char *rpmem_errormsg(void);

#ifdef __cplusplus
}
#endif

#endif /* LIBRPMEM_H */
