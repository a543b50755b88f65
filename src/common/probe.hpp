// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Static probes for bpftrace, perf and gdb. A probe is one nop, and a note in the file with the location of its
// arguments at that instruction. Each argument is a variable in memory ("o"), unless a source states otherwise. The hot
// path uses variables that exist anyway, so an unused probe costs only its nop. docs/tracing.md describes each probe.
#ifdef RPMA_HAVE_SDT

#define STAP_SDT_ARG_CONSTRAINT o
#include <sys/sdt.h>
#define STATIC_PROBE(provider, name, count, ...) STAP_PROBE##count(provider, name, __VA_ARGS__)

#else

#define STATIC_PROBE(provider, name, count, ...) (void)0

#endif

// Puts a local variable into memory, from where it is read afterwards. Stores a value that must outlive a call on the
// hot path. The compiler would spill it in any case, and a probe can read it there.
template<class T>
[[gnu::always_inline]] inline void keep_in_memory([[maybe_unused]] T &value)
{
#ifdef RPMA_HAVE_SDT
    asm volatile("" : "+o"(value));
#endif
}
