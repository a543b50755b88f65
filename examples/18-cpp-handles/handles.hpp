// SPDX-License-Identifier: BSD-3-Clause
#ifndef EXAMPLES_HANDLES_HPP
#define EXAMPLES_HANDLES_HPP

#include <memory>
#include <utility>

#include <librpma.h>

extern "C" {
#include "arguments.h"
#include "completion.h"
#include "connection.h"
#include "handshake.h"
#include "region.h"
#include "status.h"
#include "text.h"
}

// Thrown after a line on stderr has said why; carries the exit status.
struct failure {
    int status;
};

inline void require(int status)
{
    if (status != STATUS_OK)
        throw failure{status};
}

// librpma deletes through the address of the handle. A destructor cannot report a failure: whoever has to know deletes
// release() with the function itself.
template<auto Delete>
struct deleter {
    template<typename Object>
    void operator()(Object *object) const noexcept
    {
        (void)Delete(&object);
    }
};

template<typename Object, auto Delete>
using handle = std::unique_ptr<Object, deleter<Delete>>;

using peer_handle = handle<rpma_peer, rpma_peer_delete>;
using mr_local_handle = handle<rpma_mr_local, rpma_mr_dereg>;
using mr_remote_handle = handle<rpma_mr_remote, rpma_mr_remote_delete>;
using ep_handle = handle<rpma_ep, rpma_ep_shutdown>;
using conn_req_handle = handle<rpma_conn_req, rpma_conn_req_delete>;
using conn_handle = handle<rpma_conn, rpma_conn_delete>;

// Takes over what create(&object), which returns a status, has made, if only to delete it after a failure.
template<typename Handle, typename Create>
Handle own(Create create)
{
    typename Handle::pointer object = nullptr;
    const int status = create(&object);
    Handle owner{object};
    require(status);
    return owner;
}

// Uses up the request, whatever becomes of it, and says so by its parameter.
inline conn_handle connect(conn_req_handle request, const rpma_conn_private_data &pdata)
{
    auto *consumed = request.release();
    return own<conn_handle>([&](auto **conn) {
        return check("rpma_conn_req_connect", rpma_conn_req_connect(&consumed, &pdata, conn));
    });
}

inline peer_handle find_peer(const arguments &args, rpma_util_ibv_context_type side)
{
    return own<peer_handle>([&](auto **peer) { return open_peer(&args, side, peer); });
}

// The memory must outlive the handle: declare it before.
template<typename Memory>
mr_local_handle register_memory(const peer_handle &peer, Memory &memory, int usage)
{
    return own<mr_local_handle>(
            [&](auto **mr) { return register_range(peer.get(), memory.data(), memory.size(), usage, mr); });
}

// What main does: the work, and the exit status.
template<typename Work>
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

#endif // EXAMPLES_HANDLES_HPP
