// SPDX-License-Identifier: BSD-3-Clause
#ifndef EXAMPLES_EXAMPLE_HPP
#define EXAMPLES_EXAMPLE_HPP

#include <span>

#include <rpma.hpp>

extern "C" {
#include "arguments.h"
#include "connection.h"
#include "handshake.h"
#include "region.h"
#include "status.h"
#include "text.h"
}

// Code shared by client and server: exceptions for the statuses of the C functions of the examples, and handles for the
// objects that those create.

// Thrown after an error line on stderr. Contains the exit status.
struct failure {
    int status;
};

inline void require(int status)
{
    if (status != STATUS_OK)
        throw failure{status};
}

// Returns the value of a result of rpma.hpp. On error, prints the failed call and the reason.
template<class T>
T need(const char *call, rpma::result<T> made)
{
    require(check(call, made.error().code()));
    return std::move(made).value();
}

// Takes ownership of the object that create(&object) returns, also if it returns a failure.
template<class Owner, class Create>
Owner own(Create create)
{
    decltype(Owner().get()) object = nullptr;
    const int status = create(&object);
    Owner owner(object);
    require(status);
    return owner;
}

inline rpma::peer find_peer(const arguments &args, rpma_util_ibv_context_type side)
{
    return own<rpma::peer>([&](auto **peer) { return open_peer(&args, side, peer); });
}

template<class Memory>
rpma::local_region register_all(const rpma::peer &peer, Memory &memory, rpma::usage uses)
{
    return own<rpma::local_region>([&](auto **mr) {
        return register_range(peer.get(), memory.data(), memory.size(), static_cast<int>(uses), mr);
    });
}

// Body of main: runs the work and returns the exit status.
template<class Work>
int run(Work work)
{
    try {
        work();
        return STATUS_OK;
    } catch (const failure &reason) {
        return reason.status;
    }
}

enum {
    TEXT_SIZE = 1024
};

#endif // EXAMPLES_EXAMPLE_HPP
