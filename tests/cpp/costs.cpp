// SPDX-License-Identifier: BSD-3-Clause
// Pairs of functions with the same effect, one on rpma.hpp and one on librpma.h, both checking the result. costs.py
// compares their compiled code. Calls that create, find or delete objects are not compared.
#include <rpma.hpp>

#define ALWAYS RPMA_F_COMPLETION_ALWAYS
constexpr auto always = rpma::completion_flags::always;

namespace
{

// Handles a status as a program would.
int checked(int code)
{
    return code == 0 ? 7 : 9;
}
int checked(rpma::status status)
{
    return status.ok() ? 7 : 9;
}

} // namespace

extern "C" {

#define PAIR(name, parameters, c, cpp)                                                                                 \
    int c_##name parameters;                                                                                           \
    int c_##name parameters                                                                                            \
    {                                                                                                                  \
        return checked(c);                                                                                             \
    }                                                                                                                  \
    int cpp_##name parameters;                                                                                         \
    int cpp_##name parameters                                                                                          \
    {                                                                                                                  \
        return checked(cpp);                                                                                           \
    }

// Compares functions that store a result. `otherwise` is the result after a failure.
#define PART(name, parameters, type, otherwise, stored, part, c, cpp)                                                  \
    type c_##name parameters;                                                                                          \
    type c_##name parameters                                                                                           \
    {                                                                                                                  \
        stored value{};                                                                                                \
        return (c) == 0 ? part : otherwise;                                                                            \
    }                                                                                                                  \
    type cpp_##name parameters;                                                                                        \
    type cpp_##name parameters                                                                                         \
    {                                                                                                                  \
        return cpp;                                                                                                    \
    }
#define VALUE(name, parameters, type, otherwise, c, cpp) PART(name, parameters, type, otherwise, type, value, c, cpp)

#define ON_CONNECTION const rpma::connection &conn

// Posting.
PAIR(read, (ON_CONNECTION, rpma_mr_local *l, rpma_mr_remote *r, std::size_t at),
        rpma_read(conn.get(), l, at, r, 8, 64, ALWAYS, nullptr), conn.read({l, at, 64}, {r, 8, 64}, always))
PAIR(write, (ON_CONNECTION, rpma_mr_local *l, rpma_mr_remote *r, std::size_t at),
        rpma_write(conn.get(), r, 8, l, at, 64, ALWAYS, nullptr), conn.write({r, 8, 64}, {l, at, 64}, always))
PAIR(write_with_imm, (ON_CONNECTION, rpma_mr_local *l, rpma_mr_remote *r, std::size_t at),
        rpma_write_with_imm(conn.get(), r, 8, l, at, 64, ALWAYS, 5, nullptr),
        conn.write_with_imm({r, 8, 64}, {l, at, 64}, 5, always))
PAIR(flush, (ON_CONNECTION, rpma_mr_remote *r, std::size_t at),
        rpma_flush(conn.get(), r, at, 64, RPMA_FLUSH_TYPE_PERSISTENT, ALWAYS, nullptr),
        conn.flush({r, at, 64}, RPMA_FLUSH_TYPE_PERSISTENT, always))
PAIR(atomic_write, (ON_CONNECTION, rpma_mr_remote *r, const char *word),
        rpma_atomic_write(conn.get(), r, 8, word, ALWAYS, nullptr),
        conn.atomic_write(r, 8, std::span<const char, 8>(word, 8), always))
PAIR(send, (ON_CONNECTION, rpma_mr_local *l, std::size_t at), rpma_send(conn.get(), l, at, 64, ALWAYS, nullptr),
        conn.send({l, at, 64}, always))
PAIR(send_with_imm, (ON_CONNECTION, rpma_mr_local *l, std::size_t at),
        rpma_send_with_imm(conn.get(), l, at, 64, ALWAYS, 5, nullptr), conn.send_with_imm({l, at, 64}, 5, always))
PAIR(recv, (ON_CONNECTION, rpma_mr_local *l, std::size_t at), rpma_recv(conn.get(), l, at, 64, nullptr),
        conn.recv({l, at, 64}))
PAIR(early_recv, (const rpma::conn_request &req, rpma_mr_local *l, std::size_t at),
        rpma_conn_req_recv(req.get(), l, at, 64, nullptr), req.recv({l, at, 64}))
PAIR(shared_recv, (const rpma::shared_receive_queue &srq, rpma_mr_local *l, std::size_t at),
        rpma_srq_recv(srq.get(), l, at, 64, nullptr), srq.recv({l, at, 64}))

// Compares submitting queued operations individually and as a batch. An operation without a context is unsignaled.
#define KEPT RPMA_F_COMPLETION_ON_ERROR | RPMA_F_MORE
constexpr auto kept = rpma::completion_flags::on_error_more;
PAIR(kept_read, (ON_CONNECTION, rpma_mr_local *l, rpma_mr_remote *r),
        rpma_read(conn.get(), l, 0, r, 8, 64, KEPT, nullptr), conn.read({l, 0, 64}, {r, 8, 64}, kept))
PAIR(kept_write, (ON_CONNECTION, rpma_mr_local *l, rpma_mr_remote *r),
        rpma_write(conn.get(), r, 8, l, 0, 64, KEPT, nullptr), conn.write({r, 8, 64}, {l, 0, 64}, kept))
PAIR(kept_flush, (ON_CONNECTION, rpma_mr_remote *r),
        rpma_flush(conn.get(), r, 0, 64, RPMA_FLUSH_TYPE_PERSISTENT, KEPT, nullptr),
        conn.flush({r, 0, 64}, RPMA_FLUSH_TYPE_PERSISTENT, kept))
PAIR(kept_send, (ON_CONNECTION, rpma_mr_local *l), rpma_send(conn.get(), l, 0, 64, KEPT, nullptr),
        conn.send({l, 0, 64}, kept))
PAIR(submit, (ON_CONNECTION), rpma_conn_submit(conn.get()), conn.submit())

// Polling.
PAIR(poll, (const rpma::completion_queue &cq, ibv_wc *wc), rpma_cq_get_wc(cq.get(), 1, wc, nullptr), cq.poll(*wc))
PAIR(wait, (const rpma::completion_queue &cq), rpma_cq_wait(cq.get()), cq.wait())
VALUE(cq_fd, (const rpma::completion_queue &cq), int, -1, rpma_cq_get_fd(cq.get(), &value), cq.fd())
VALUE(either, (ON_CONNECTION), rpma_cq *, nullptr, rpma_conn_wait(conn.get(), 0, &value, nullptr),
        conn.wait().value_or({}).get())
VALUE(either_fd, (ON_CONNECTION), int, -1, rpma_conn_get_compl_fd(conn.get(), &value), conn.completion_channel_fd())
VALUE(cq, (ON_CONNECTION), rpma_cq *, nullptr, rpma_conn_get_cq(conn.get(), &value), conn.cq().get())
VALUE(rcq, (ON_CONNECTION), rpma_cq *, nullptr, rpma_conn_get_rcq(conn.get(), &value), conn.rcq().get())
VALUE(shared_rcq, (const rpma::shared_receive_queue &srq), rpma_cq *, nullptr, rpma_srq_get_rcq(srq.get(), &value),
        srq.rcq().get())

// Connections.
VALUE(next_event, (ON_CONNECTION), rpma_conn_event, RPMA_CONN_UNDEFINED, rpma_conn_next_event(conn.get(), &value),
        conn.next_event().value_or(RPMA_CONN_UNDEFINED))
VALUE(event_fd, (ON_CONNECTION), int, -1, rpma_conn_get_event_fd(conn.get(), &value), conn.event_fd())
VALUE(endpoint_fd, (const rpma::endpoint &ep), int, -1, rpma_ep_get_fd(ep.get(), &value), ep.fd())
VALUE(qp_num, (ON_CONNECTION), std::uint32_t, 0, rpma_conn_get_qp_num(conn.get(), &value), conn.qp_num())
VALUE(native_flush, (ON_CONNECTION), bool, false, rpma_conn_get_native_flush(conn.get(), &value),
        conn.has_native_flush())
PAIR(disconnect, (ON_CONNECTION), rpma_conn_disconnect(conn.get()), conn.disconnect())
PAIR(apply, (ON_CONNECTION, const rpma::peer_cfg &cfg), rpma_conn_apply_remote_peer_cfg(conn.get(), cfg.get()),
        conn.apply_remote_peer_cfg(cfg))

// Memory regions.
PAIR(advise, (const rpma::local_region &mr), rpma_mr_advise(mr.get(), 0, 64, 1, 2), mr.advise(0, 64, 1, 2))
PAIR(describe, (const rpma::local_region &mr, std::byte *desc), rpma_mr_get_descriptor(mr.get(), desc),
        mr.get_descriptor({desc, 21}))
VALUE(descriptor_size, (const rpma::local_region &mr), std::size_t, 0, rpma_mr_get_descriptor_size(mr.get(), &value),
        mr.descriptor_size())
VALUE(native_flush_types, (const rpma::local_region &mr), int, 0, rpma_mr_get_native_flush_type(mr.get(), &value),
        static_cast<int>(mr.native_flush_types()))
VALUE(remote_size, (const rpma::remote_region &mr), std::size_t, 0, rpma_mr_remote_get_size(mr.get(), &value),
        mr.size())
VALUE(flush_types, (const rpma::remote_region &mr), int, 0, rpma_mr_remote_get_flush_type(mr.get(), &value),
        static_cast<int>(mr.flush_types()))

// Configurations.
PAIR(describe_peer, (const rpma::peer_cfg &cfg, std::byte *desc), rpma_peer_cfg_get_descriptor(cfg.get(), desc),
        cfg.get_descriptor({desc, 1}))
VALUE(peer_descriptor_size, (const rpma::peer_cfg &cfg), std::size_t, 0,
        rpma_peer_cfg_get_descriptor_size(cfg.get(), &value), cfg.descriptor_size())
VALUE(direct_write, (const rpma::peer_cfg &cfg), bool, false, rpma_peer_cfg_get_direct_write_to_pmem(cfg.get(), &value),
        cfg.direct_write_to_pmem())
PAIR(set_direct_write, (const rpma::peer_cfg &cfg), rpma_peer_cfg_set_direct_write_to_pmem(cfg.get(), true),
        cfg.set_direct_write_to_pmem(true))
PAIR(set_srq_rq_size, (const rpma::srq_cfg &cfg), rpma_srq_cfg_set_rq_size(cfg.get(), 5), cfg.set_rq_size(5))
PAIR(set_srq_rcq_size, (const rpma::srq_cfg &cfg), rpma_srq_cfg_set_rcq_size(cfg.get(), 5), cfg.set_rcq_size(5))
PAIR(set_timeout, (const rpma::conn_cfg &cfg), rpma_conn_cfg_set_timeout(cfg.get(), 5), cfg.set_timeout_ms(5))
PAIR(set_cq_size, (const rpma::conn_cfg &cfg), rpma_conn_cfg_set_cq_size(cfg.get(), 5), cfg.set_cq_size(5))
PAIR(set_rcq_size, (const rpma::conn_cfg &cfg), rpma_conn_cfg_set_rcq_size(cfg.get(), 5), cfg.set_rcq_size(5))
PAIR(set_sq_size, (const rpma::conn_cfg &cfg), rpma_conn_cfg_set_sq_size(cfg.get(), 5), cfg.set_sq_size(5))
PAIR(set_rq_size, (const rpma::conn_cfg &cfg), rpma_conn_cfg_set_rq_size(cfg.get(), 5), cfg.set_rq_size(5))
PAIR(set_channel, (const rpma::conn_cfg &cfg), rpma_conn_cfg_set_compl_channel(cfg.get(), true),
        cfg.set_compl_channel(true))
PAIR(set_srq, (const rpma::conn_cfg &cfg, const rpma::shared_receive_queue &srq),
        rpma_conn_cfg_set_srq(cfg.get(), srq.get()), cfg.set_srq(srq))

// Results of more than one word.
PART(counters, (ON_CONNECTION), std::uint64_t, 0, rpma_conn_counters, value.writes,
        rpma_conn_get_counters(conn.get(), &value, sizeof(value)), conn.counters().writes)
PART(private_data, (ON_CONNECTION), std::size_t, 0, rpma_conn_private_data, value.len,
        rpma_conn_get_private_data(conn.get(), &value), conn.private_data().size())
PART(request_data, (const rpma::conn_request &req), std::size_t, 0, rpma_conn_private_data, value.len,
        rpma_conn_req_get_private_data(req.get(), &value), req.private_data().size())
struct pointer_and_size {
    void *ptr;
    std::size_t size;
};
PART(memory, (const rpma::local_region &mr), std::size_t, 0, pointer_and_size, value.size,
        rpma_mr_get_ptr(mr.get(), &value.ptr) || rpma_mr_get_size(mr.get(), &value.size), mr.bytes().size())
VALUE(text, (int code), char, 0, (value = *rpma_err_2str(code), 0), *rpma::status(code).message())

} // extern "C"
