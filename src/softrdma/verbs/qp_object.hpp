// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "verbs/cq.hpp"
#include "verbs/native.hpp"
#include "verbs/objects.hpp"
#include "verbs/post_batch.hpp"

#include <memory>

namespace softrdma
{

// What queue pairs of all types have in common: the structure that programs see, and what it refers to.
class qp_object : public native::qp_block
{
public:
    qp_object(ibv_pd *pd, const ibv_qp_init_attr &attr);
    virtual ~qp_object();

    // In which domain, besides that of protection, its peer's keys are looked up.
    const std::uint64_t own_domain = protection_domain::next_number();

    ibv_qp *verbs() noexcept { return &qp_base; }
    // As programs see it. Other threads may change it.
    ibv_qp_state shown_state() const noexcept { return __atomic_load_n(&qp_base.state, __ATOMIC_RELAXED); }
    // NULL unless the queue pair was created for the new post interface.
    post_batch *batch() noexcept { return batch_.get(); }
    virtual void open_batch() = 0;
    // What the batch has made, all or none; 0 or an errno value. To be called while it keeps others out.
    virtual int post_together(std::uint32_t count) = 0;

    virtual int modify(const ibv_qp_attr &attr, int mask) = 0;
    virtual void query(ibv_qp_attr &attr, ibv_qp_init_attr &init) = 0;
    // Waits until every asynchronous event that was handed out has been acknowledged.
    void drain_events();

protected:
    // Its domain and queues are in use by one queue pair less.
    void let_go() noexcept;
    // Its completion queues tell it when they overflow. No longer: nothing happens to those that it has not joined.
    void join_queues(const std::weak_ptr<completion_source> &self);
    void leave_queues(const std::weak_ptr<completion_source> &self);
    // Whether that is one of its queues, and has overflowed: a new one may have the address of another one.
    bool has_lost_completions(ibv_cq *cq) const;
    void tell(ibv_event_type type);
    void show_state(ibv_qp_state to) noexcept { __atomic_store_n(&qp_base.state, to, __ATOMIC_RELAXED); }

    bool holds_ = true; // its domain and queues
    std::unique_ptr<post_batch> batch_;
    ibv_qp_init_attr init_; // as granted
};

inline qp_object &object_of(ibv_qp *qp) noexcept
{
    return static_cast<qp_object &>(reinterpret_cast<native::qp_block &>(*qp));
}

inline const qp_object &object_of(const ibv_qp *qp) noexcept
{
    return object_of(const_cast<ibv_qp *>(qp));
}

// 0 or an errno value, for queue pairs of all types.
int check_limits(const ibv_qp_init_attr &attr) noexcept;
// As the kernel's software device does: programs rely on room for inline data that they never asked for.
void grant_inline_room(ibv_qp_cap &cap) noexcept;

} // namespace softrdma
