// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// What clang's -Wthread-safety checks: which lock guards a member, and which locks a function is called with. Other
// compilers read nothing here.
#ifdef __clang__
#define THREAD_SAFETY(attribute) __attribute__((attribute))
#else
#define THREAD_SAFETY(attribute)
#endif

// Of classes: a lock; what holds a lock for the time of a scope.
#define CAPABILITY(kind) THREAD_SAFETY(capability(kind))
#define SCOPED_CAPABILITY THREAD_SAFETY(scoped_lockable)
// Of variables: read and written with the lock only; what a pointer points to is.
#define GUARDED_BY(lock) THREAD_SAFETY(guarded_by(lock))
#define PT_GUARDED_BY(lock) THREAD_SAFETY(pt_guarded_by(lock))
// Of functions: called with the locks; called without them; takes them; returns that lock. SHARED: as a reader.
#define REQUIRES(...) THREAD_SAFETY(requires_capability(__VA_ARGS__))
#define REQUIRES_SHARED(...) THREAD_SAFETY(requires_shared_capability(__VA_ARGS__))
#define EXCLUDES(...) THREAD_SAFETY(locks_excluded(__VA_ARGS__))
#define ACQUIRE(...) THREAD_SAFETY(acquire_capability(__VA_ARGS__))
#define ACQUIRE_SHARED(...) THREAD_SAFETY(acquire_shared_capability(__VA_ARGS__))
#define TRY_ACQUIRE(...) THREAD_SAFETY(try_acquire_capability(__VA_ARGS__))
#define RELEASE(...) THREAD_SAFETY(release_capability(__VA_ARGS__))
#define RELEASE_SHARED(...) THREAD_SAFETY(release_shared_capability(__VA_ARGS__))
#define RETURN_CAPABILITY(lock) THREAD_SAFETY(lock_returned(lock))
// Of functions: from here on the lock counts as held, for a reason that a comment gives.
#define ASSERT_CAPABILITY(lock) THREAD_SAFETY(assert_capability(lock))
#define NO_THREAD_SAFETY_ANALYSIS THREAD_SAFETY(no_thread_safety_analysis)
