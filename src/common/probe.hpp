// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Static probes for bpftrace, perf and gdb (docs/tracing.md). A probe is one nop, and a note in the file with the
// location of its arguments, by default variables in memory ("o"). An unused probe costs only its nop.
#ifdef RPMA_HAVE_SDT

#define STAP_SDT_ARG_CONSTRAINT o
#include <sys/sdt.h>
#define STATIC_PROBE(provider, name, count, ...) STAP_PROBE##count(provider, name, __VA_ARGS__)

#else

#define STATIC_PROBE(provider, name, count, ...) (void)0

#endif

// Puts a local variable into memory, where a probe can read it. Used for values that outlive a call on the hot path.
template<class T>
[[gnu::always_inline]] inline void keep_in_memory([[maybe_unused]] T &value)
{
#ifdef RPMA_HAVE_SDT
    asm volatile("" : "+o"(value));
#endif
}
