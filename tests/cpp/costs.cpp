// SPDX-License-Identifier: BSD-3-Clause
// Each call of rpma.hpp on the data path beside that of librpma.h, and a look at what came of it: costs.py compares
// what the compiler makes of them.
#include <rpma.hpp>

#define ALWAYS RPMA_F_COMPLETION_ALWAYS
constexpr auto always = rpma::completion::always;

extern "C" {

#define PAIR(name, parameters, c, cpp)                                                                                 \
    int c_##name parameters;                                                                                           \
    int c_##name parameters                                                                                            \
    {                                                                                                                  \
        return (c) == 0 ? 7 : 9;                                                                                       \
    }                                                                                                                  \
    int cpp_##name parameters;                                                                                         \
    int cpp_##name parameters                                                                                          \
    {                                                                                                                  \
        return (cpp).ok() ? 7 : 9;                                                                                     \
    }

PAIR(read, (const rpma::connection &conn, rpma_mr_local *l, rpma_mr_remote *r, std::size_t at),
        rpma_read(conn.get(), l, at, r, 8, 64, ALWAYS, nullptr), conn.read({l, at, 64}, {r, 8, 64}, always))
PAIR(write, (const rpma::connection &conn, rpma_mr_local *l, rpma_mr_remote *r, std::size_t at),
        rpma_write(conn.get(), r, 8, l, at, 64, ALWAYS, nullptr), conn.write({r, 8, 64}, {l, at, 64}, always))
PAIR(flush, (const rpma::connection &conn, rpma_mr_remote *r, std::size_t at),
        rpma_flush(conn.get(), r, at, 64, RPMA_FLUSH_TYPE_PERSISTENT, ALWAYS, nullptr),
        conn.flush({r, at, 64}, RPMA_FLUSH_TYPE_PERSISTENT, always))
PAIR(atomic_write, (const rpma::connection &conn, rpma_mr_remote *r, const char *word),
        rpma_atomic_write(conn.get(), r, 8, word, ALWAYS, nullptr),
        conn.atomic_write(r, 8, std::span<const char, 8>(word, 8), always))
PAIR(send, (const rpma::connection &conn, rpma_mr_local *l, std::size_t at),
        rpma_send(conn.get(), l, at, 64, ALWAYS, nullptr), conn.send({l, at, 64}, always))
PAIR(recv, (const rpma::connection &conn, rpma_mr_local *l, std::size_t at), rpma_recv(conn.get(), l, at, 64, nullptr),
        conn.recv({l, at, 64}))
PAIR(kept_write, (const rpma::connection &conn, const rpma::batch &, rpma_mr_local *l, rpma_mr_remote *r),
        rpma_write(conn.get(), r, 8, l, 0, 64, RPMA_F_COMPLETION_ON_ERROR | RPMA_F_MORE, nullptr),
        conn.write({r, 8, 64}, {l, 0, 64}, rpma::completion::on_error_more))
PAIR(ring, (const rpma::connection &conn), rpma_conn_ring(conn.get()), conn.ring())
PAIR(poll, (const rpma::completion_queue &cq, ibv_wc *wc), rpma_cq_get_wc(cq.get(), 1, wc, nullptr), cq.poll(*wc))
PAIR(wait, (const rpma::completion_queue &cq), rpma_cq_wait(cq.get()), cq.wait())

} // extern "C"
