// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "verbs/cq.hpp"
#include "verbs/native.hpp"
#include "verbs/objects.hpp"
#include "verbs/send_queue.hpp"

#include <memory>

namespace softrdma
{

// Common part of queue pairs of all types: the structure for programs, and the objects that it refers to.
class qp_object : public native::qp_block
{
public:
    qp_object(ibv_pd *pd, const ibv_qp_init_attr &attr);
    virtual ~qp_object();

    // Domain, besides the protection domain, in which keys of requests of its peer are looked up.
    const std::uint64_t own_domain = protection_domain::next_number();

    ibv_qp *verbs() noexcept { return &qp_base; }
    // State as shown to programs. Other threads may change it.
    ibv_qp_state shown_state() const noexcept { return __atomic_load_n(&qp_base.state, __ATOMIC_RELAXED); }
    post_batch *batch() noexcept { return batch_.get(); } // NULL without the ibv_wr_* interface
    virtual send_queue &sends() noexcept = 0;
    void open_batch() // called before the program gets the queue pair
    {
        SOFTRDMA_ASSERT(batch_ == nullptr);
        batch_ = std::make_unique<post_batch>(sends(), init_.cap);
    }
    // Posts the requests of the batch, all or none. Returns 0 or an errno value. Requires the lock of the batch.
    virtual int submit_batch(std::uint32_t count) = 0;

    virtual int post_send(ibv_send_wr *wr, ibv_send_wr **bad) = 0;
    virtual int post_receive(ibv_recv_wr *wr, ibv_recv_wr **bad) = 0;
    virtual int modify(const ibv_qp_attr &attr, int mask) = 0;
    virtual void query(ibv_qp_attr &attr, ibv_qp_init_attr &init) = 0;
    void raise_event(ibv_event_type type) noexcept { context_of(qp_base.context).async.push(events_, type); }
    void drain_events(); // waits until each returned asynchronous event is acknowledged

protected:
    // Waits until no ibv_wr_start() batch, which owns the next entries of the send queue, is open.
    std::unique_lock<post_batch> wait_for_batch() const
    {
        return batch_ != nullptr ? std::unique_lock(*batch_) : std::unique_lock<post_batch>();
    }
    void release_objects() noexcept;
    // Start and end overflow notifications of its completion queues, the end also without a start.
    void join_queues(const std::weak_ptr<completion_source> &self)
    {
        cq_of(qp_base.send_cq).sources().add(self);
        cq_of(qp_base.recv_cq).sources().add(self);
    }
    void leave_queues(const std::weak_ptr<completion_source> &self)
    {
        cq_of(qp_base.send_cq).sources().remove(self);
        cq_of(qp_base.recv_cq).sources().remove(self);
    }
    // Returns whether the CQ, which may have the address of an earlier one, has lost completions of this queue pair.
    bool has_lost_completions(ibv_cq *cq) const
    {
        return (qp_base.send_cq == cq || qp_base.recv_cq == cq) && cq_of(cq).overflowed();
    }
    // Removes completions that no thread has polled, as a NIC does. The number can belong to another queue pair later.
    void discard_completions()
    {
        cq_of(qp_base.send_cq).discard(qp_base.qp_num);
        if (qp_base.recv_cq != qp_base.send_cq)
            cq_of(qp_base.recv_cq).discard(qp_base.qp_num);
    }
    void show_state(ibv_qp_state to) noexcept { __atomic_store_n(&qp_base.state, to, __ATOMIC_RELAXED); }

    bool holds_ = true; // references its domain and queues
    std::unique_ptr<post_batch> batch_;
    ibv_qp_init_attr init_; // contains the granted limits

private:
    object_events events_{&qp_base};
};

inline qp_object &object_of(ibv_qp *qp) noexcept
{
    return static_cast<qp_object &>(reinterpret_cast<native::qp_block &>(*qp));
}

inline const qp_object &object_of(const ibv_qp *qp) noexcept
{
    return object_of(const_cast<ibv_qp *>(qp));
}

// Returns whether each attribute in the mask has a value of its enumeration. Called before any attribute is used.
bool are_known(const ibv_qp_attr &attr, int mask) noexcept;
// Returns whether the type of a new queue pair is a value of its enumeration; not every type is supported.
bool is_type(const ibv_qp_type &type) noexcept;

// Returns EINVAL unless the InfiniBand specification (11.2.5.2) permits exactly these attributes in this transition.
int check_change(ibv_qp_type type, const ibv_qp_attr &current, const ibv_qp_attr &requested, int mask) noexcept;

void take_attributes(ibv_qp_attr &current, const ibv_qp_attr &requested, int mask) noexcept; // except the state

int check_limits(const ibv_qp_init_attr &attr) noexcept;
// Grants inline data as the software devices of the kernel do: programs rely on inline space that they did not request.
void grant_inline_space(ibv_qp_cap &cap) noexcept;

} // namespace softrdma
