// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Annotations for clang's -Wthread-safety: locks that guard a member or that a function requires. Otherwise empty.
#ifdef __clang__
#define THREAD_SAFETY(attribute) __attribute__((attribute))
#else
#define THREAD_SAFETY(attribute)
#endif

// Classes: a lock; a scoped guard of a lock.
#define CAPABILITY(kind) THREAD_SAFETY(capability(kind))
#define SCOPED_CAPABILITY THREAD_SAFETY(scoped_lockable)
// Variables: accessed only with the lock held; same for the target of a pointer.
#define GUARDED_BY(lock) THREAD_SAFETY(guarded_by(lock))
#define PT_GUARDED_BY(lock) THREAD_SAFETY(pt_guarded_by(lock))
// Functions: require the locks; must be called without them; acquire them; return the lock. SHARED: as a reader.
#define REQUIRES(...) THREAD_SAFETY(requires_capability(__VA_ARGS__))
#define REQUIRES_SHARED(...) THREAD_SAFETY(requires_shared_capability(__VA_ARGS__))
#define EXCLUDES(...) THREAD_SAFETY(locks_excluded(__VA_ARGS__))
#define ACQUIRE(...) THREAD_SAFETY(acquire_capability(__VA_ARGS__))
#define ACQUIRE_SHARED(...) THREAD_SAFETY(acquire_shared_capability(__VA_ARGS__))
#define TRY_ACQUIRE(...) THREAD_SAFETY(try_acquire_capability(__VA_ARGS__))
#define RELEASE(...) THREAD_SAFETY(release_capability(__VA_ARGS__))
#define RELEASE_SHARED(...) THREAD_SAFETY(release_shared_capability(__VA_ARGS__))
#define RETURN_CAPABILITY(lock) THREAD_SAFETY(lock_returned(lock))
// Functions: the lock counts as held after the call, for a reason given in a comment.
#define ASSERT_CAPABILITY(lock) THREAD_SAFETY(assert_capability(lock))
#define NO_THREAD_SAFETY_ANALYSIS THREAD_SAFETY(no_thread_safety_analysis)
