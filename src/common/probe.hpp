// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Static probes for bpftrace, perf and gdb. A probe is one nop, and a note in the file that says where its arguments
// are at that place. Every argument is a variable in memory ("o"), unless a source says otherwise: on the hot path one
// that is there anyway, so that a probe that nobody uses costs no instruction besides its nop. docs/tracing.md says
// what each probe means.
#ifdef RPMA_HAVE_SDT

#define STAP_SDT_ARG_CONSTRAINT o
#include <sys/sdt.h>
#define STATIC_PROBE(provider, name, count, ...) STAP_PROBE##count(provider, name, __VA_ARGS__)

#else

#define STATIC_PROBE(provider, name, count, ...) (void)0

#endif

// Puts a local variable into memory, from where it is read afterwards. For a value that has to outlive a call on the
// hot path: it would be stored and loaded again in any case, and a probe can show it meanwhile.
template<class T>
[[gnu::always_inline]] inline void keep_in_memory([[maybe_unused]] T &value)
{
#ifdef RPMA_HAVE_SDT
    asm volatile("" : "+o"(value));
#endif
}
